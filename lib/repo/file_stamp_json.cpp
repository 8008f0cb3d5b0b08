// SPDX-License-Identifier: Apache-2.0
#include "repo/file_stamp_json.hpp"

#include "base/json.hpp"

#include <cstdlib>

namespace wdelta {

namespace {

std::int64_t time_ns(const ParsedJson& json, const char* name, const std::string& object) {
  return std::strtoll(string_member(json, name, object).c_str(), nullptr, 10);
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
