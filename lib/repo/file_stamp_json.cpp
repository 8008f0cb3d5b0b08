// SPDX-License-Identifier: Apache-2.0
#include "repo/file_stamp_json.hpp"

#include "base/json.hpp"

#include <cstdlib>

namespace wdelta {

Json to_json(const FileStamp& stamp) {
  return {{"size", stamp.size_bytes},
          {"mtime", std::to_string(stamp.mtime_ns)},
          {"inode", stamp.inode},
          {"device", stamp.device},
          {"executable", stamp.executable}};
}

FileStamp file_stamp_from(const ParsedJson& json, const std::string& object) {
  FileStamp stamp;
  stamp.size_bytes = size_member(json, "size", object);
  stamp.mtime_ns = std::strtoll(string_member(json, "mtime", object).c_str(), nullptr, 10);
  stamp.inode = size_member(json, "inode", object);
  stamp.device = size_member(json, "device", object);
  stamp.executable = bool_member(json, "executable", object);
  return stamp;
}

}  // namespace wdelta
