// SPDX-License-Identifier: Apache-2.0
#include "delta/file_identity_json.hpp"

#include "base/json.hpp"
#include "base/path.hpp"

namespace wdelta {

Json to_json(const FileIdentity& file) {
  return {{"path", file.path}, {"size", file.size_bytes}, {"digest", file.digest.hex()}};
}

FileIdentity file_identity_from(const ParsedJson& json, const std::string& object) {
  FileIdentity file{string_member(json, "path", object), size_member(json, "size", object),
                    digest_member(json, "digest", object)};
  require_place(file.path, object);
  return file;
}

}  // namespace wdelta
