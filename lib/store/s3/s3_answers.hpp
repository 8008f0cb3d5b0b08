// SPDX-License-Identifier: Apache-2.0
// The XML that S3 answers with. Every parser throws network, naming `object`: what cannot be understood is the
// service's fault, not that of stored bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace wdelta {

struct S3Error {
  std::string code;  ///< "NoSuchKey"; empty when the text says nothing of the kind
  std::string message;
  std::string region;
  std::string endpoint;  ///< where the bucket is instead
};
/// Never throws: what is no such document is an error without a code.
S3Error parse_s3_error(std::string_view text);

struct S3Object {
  std::string key;
  std::uint64_t size_bytes = 0;
  std::int64_t written_ms = 0;
  std::string etag;
};
struct S3List {
  std::vector<S3Object> objects;
  std::string next;  ///< asks for the page behind this one; empty on the last
};
/// Also for an object without its key, size or time.
S3List parse_s3_list(std::string_view text, const std::string& object);

struct S3Upload {
  std::string key;
  std::string id;
  std::optional<std::int64_t> begun_ms;  ///< where it is told
};
struct S3UploadList {
  std::vector<S3Upload> uploads;
  std::string next_key;  ///< with next_id: asks for the page behind this one; both empty on the last
  std::string next_id;
};
S3UploadList parse_s3_uploads(std::string_view text, const std::string& object);

struct S3Part {
  unsigned number = 0;
  std::uint64_t size_bytes = 0;
  std::string etag;
};
struct S3PartList {
  std::vector<S3Part> parts;
  std::string next;  ///< asks for the page behind this one; empty on the last
};
/// Whatever its root is called: stores differ there.
S3PartList parse_s3_parts(std::string_view text, const std::string& object);

/// Of the answer that begins an upload.
std::string parse_s3_upload_id(std::string_view text, const std::string& object);

/// Whether it says that an upload was completed, and is whole.
bool is_s3_completed(std::string_view text);

/// What completes an upload.
std::string s3_completion(const std::vector<S3Part>& parts);

}  // namespace wdelta
