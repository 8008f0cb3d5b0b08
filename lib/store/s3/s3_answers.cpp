// SPDX-License-Identifier: Apache-2.0
#include "store/s3/s3_answers.hpp"

#include "base/ascii.hpp"
#include "base/error.hpp"
#include "base/moment.hpp"
#include "store/s3/xml.hpp"

#include <charconv>
#include <fmt/format.h>
#include <optional>
#include <utility>

namespace wdelta {

namespace {

template <typename Number>
Number number_of(const std::string& text, const std::string& object) {
  Number value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || parsed.ec != std::errc() || parsed.ptr != text.data() + text.size())
    throw Error(Fault::network, object, fmt::format("the store's answer has {:?} for a number", text.substr(0, 40)));
  return value;
}

std::int64_t time_of(const std::string& text, const std::string& object) {
  const auto time = milliseconds_of(text);
  if (!time)
    throw Error(Fault::network, object, fmt::format("the store's answer has {:?} for a time", text.substr(0, 40)));
  return *time;
}

// Whether a list says that it is cut short; nothing where it does not say. A guess here would take the rest of a list
// for what is not there.
std::optional<bool> truncation_of(const std::string& given, const std::string& object) {
  const std::string text = ascii_lowered(given);
  if (text == "true" || text == "1") return true;
  if (text == "false" || text == "0") return false;
  throw Error(Fault::network, object,
              fmt::format("the store's answer has {:?} where true or false is expected", text.substr(0, 40)));
}

// Empty for the root itself.
std::string below_root(const std::string& path) {
  const std::size_t slash = path.find('/');
  return slash == std::string::npos ? "" : path.substr(slash + 1);
}

void require_root(bool is_there, const char* root, const std::string& object) {
  if (!is_there) throw Error(Fault::network, object, fmt::format("the store's answer is no {}", root));
}

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    if (c == '&') {
      safe += "&amp;";
    } else if (c == '<') {
      safe += "&lt;";
    } else if (c == '"') {
      safe += "&quot;";
    } else {
      safe += c;
    }
  }
  return safe;
}

}  // namespace

S3Error parse_s3_error(std::string_view text) {
  S3Error error;
  try {
    scan_xml(text, "", [&](const std::string& path, const std::string& value) {
      if (path == "Error/Code") error.code = value;
      if (path == "Error/Message") error.message = value;
      if (path == "Error/Region") error.region = value;
      if (path == "Error/Endpoint") error.endpoint = value;
    });
  } catch (const Error&) {
    return {};
  }
  return error;
}

S3List parse_s3_list(std::string_view text, const std::string& object) {
  S3List list;
  S3Object current;
  bool has_size = false;
  bool has_time = false;
  bool is_list = false;
  std::optional<bool> is_truncated;
  scan_xml(text, object, [&](const std::string& path, const std::string& value) {
    if (path == "ListBucketResult/Contents/Key") current.key = value;
    if (path == "ListBucketResult/Contents/Size") {
      current.size_bytes = number_of<std::uint64_t>(value, object);
      has_size = true;
    }
    if (path == "ListBucketResult/Contents/LastModified") {
      current.written_ms = time_of(value, object);
      has_time = true;
    }
    if (path == "ListBucketResult/Contents/ETag") current.etag = value;
    if (path == "ListBucketResult/Contents") {
      // Sizes and times decide what counts and what may be removed: none may be made up.
      const char* const lacking = current.key.empty() ? "Key"
                                  : !has_size         ? "Size"
                                  : !has_time         ? "LastModified"
                                                      : nullptr;
      if (lacking != nullptr)
        throw Error(Fault::network, object,
                    fmt::format("the store lists {:?} without its {}", current.key.substr(0, 200), lacking));
      list.objects.push_back(std::exchange(current, {}));
      has_size = has_time = false;
    }
    if (path == "ListBucketResult/IsTruncated") is_truncated = truncation_of(value, object);
    if (path == "ListBucketResult/NextContinuationToken") list.next = value;
    if (path == "ListBucketResult") is_list = true;
  });
  require_root(is_list, "list", object);
  if (is_truncated.value_or(false) && list.next.empty())
    throw Error(Fault::network, object, "the store's list is cut short and does not say how it goes on");
  return list;
}

S3UploadList parse_s3_uploads(std::string_view text, const std::string& object) {
  S3UploadList list;
  S3Upload current;
  bool is_list = false;
  std::optional<bool> is_truncated;
  scan_xml(text, object, [&](const std::string& path, const std::string& value) {
    if (path == "ListMultipartUploadsResult/Upload/Key") current.key = value;
    if (path == "ListMultipartUploadsResult/Upload/UploadId") current.id = value;
    if (path == "ListMultipartUploadsResult/Upload/Initiated") current.begun_ms = time_of(value, object);
    if (path == "ListMultipartUploadsResult/Upload") list.uploads.push_back(std::exchange(current, {}));
    if (path == "ListMultipartUploadsResult/IsTruncated") is_truncated = truncation_of(value, object);
    if (path == "ListMultipartUploadsResult/NextKeyMarker") list.next_key = value;
    if (path == "ListMultipartUploadsResult/NextUploadIdMarker") list.next_id = value;
    if (path == "ListMultipartUploadsResult") is_list = true;
  });
  require_root(is_list, "list of uploads", object);
  if (!is_truncated.value_or(true)) list.next_key.clear(), list.next_id.clear();
  return list;
}

S3PartList parse_s3_parts(std::string_view text, const std::string& object) {
  S3PartList list;
  S3Part current;
  std::optional<bool> is_truncated;
  scan_xml(text, object, [&](const std::string& whole_path, const std::string& value) {
    // Its root is called ListPartsResult, and by some stores something else.
    const std::string path = below_root(whole_path);
    if (path == "Part/PartNumber") current.number = number_of<unsigned>(value, object);
    if (path == "Part/Size") current.size_bytes = number_of<std::uint64_t>(value, object);
    if (path == "Part/ETag") current.etag = value;
    if (path == "Part") list.parts.push_back(std::exchange(current, {}));
    if (path == "IsTruncated") is_truncated = truncation_of(value, object);
    if (path == "NextPartNumberMarker") list.next = value;
  });
  // Some stores name the last part in any case.
  if (!is_truncated.value_or(true)) list.next.clear();
  return list;
}

std::string parse_s3_upload_id(std::string_view text, const std::string& object) {
  std::string id;
  scan_xml(text, object, [&](const std::string& path, const std::string& value) {
    // Its root is called InitiateMultipartUploadResult, and by some stores something else.
    if (below_root(path) == "UploadId" && !path.starts_with("Error/")) id = value;
  });
  require_root(!id.empty(), "beginning of an upload", object);
  return id;
}

bool is_s3_completed(std::string_view text) try {
  bool is_completed = false;
  scan_xml(text, "", [&](const std::string& path, const std::string&) {
    is_completed = is_completed || path == "CompleteMultipartUploadResult";
  });
  return is_completed;
} catch (const Error&) {
  return false;
}

std::string s3_completion(const std::vector<S3Part>& parts) {
  std::string xml = "<CompleteMultipartUpload>";
  for (const S3Part& part : parts) {
    xml += fmt::format("<Part><PartNumber>{}</PartNumber><ETag>{}</ETag></Part>", part.number, escaped(part.etag));
  }
  return xml + "</CompleteMultipartUpload>";
}

}  // namespace wdelta
