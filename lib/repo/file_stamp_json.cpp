// SPDX-License-Identifier: Apache-2.0
#include "repo/file_stamp_json.hpp"

#include "base/error.hpp"
#include "base/json.hpp"

#include <charconv>
#include <fmt/format.h>

namespace wdelta {

namespace {

std::int64_t time_ns(const ParsedJson& json, const char* name, const std::string& object) {
  const std::string text = string_member(json, name, object);
  std::int64_t time_ns = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), time_ns);
  if (error != std::errc() || end != text.data() + text.size())
    throw Error(Fault::corrupt, object,
                fmt::format("member \"{}\" is {:?}, which is no number of nanoseconds", name, text));
  return time_ns;
}

}  // namespace

Json to_json(const FileStamp& stamp) {
  return {{"size", stamp.size_bytes},
          {"mtime", std::to_string(stamp.mtime_ns)},
          {"ctime", std::to_string(stamp.ctime_ns)},
          {"inode", stamp.inode},
          {"device", stamp.device},
          {"executable", stamp.executable}};
}

FileStamp file_stamp_from(const ParsedJson& json, const std::string& object) {
  FileStamp stamp;
  stamp.size_bytes = size_member(json, "size", object);
  stamp.mtime_ns = time_ns(json, "mtime", object);
  stamp.ctime_ns = json.contains("ctime") ? time_ns(json, "ctime", object) : 0;  // of programs before this one
  stamp.inode = size_member(json, "inode", object);
  stamp.device = size_member(json, "device", object);
  stamp.executable = bool_member(json, "executable", object);
  return stamp;
}

}  // namespace wdelta
