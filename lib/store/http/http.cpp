// SPDX-License-Identifier: Apache-2.0
#include "store/http/http.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>

namespace wdelta {

namespace {
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
bool is_same_name(std::string_view a, std::string_view b) { return std::ranges::equal(a, b, {}, lower, lower); }
}  // namespace

HttpBody HttpBody::of_text(std::string_view text) {
  auto reader = std::make_shared<MemoryReader>(std::vector<std::uint8_t>(text.begin(), text.end()), "body");
  return {std::move(reader), 0, text.size(), {}};
}

const std::string* HttpResponse::header(std::string_view name) const {
  const std::string* found = nullptr;
  for (const HttpHeader& each : headers) {
    if (is_same_name(each.name, name)) found = &each.value;
  }
  return found;
}

std::string HttpResponse::header_or_empty(std::string_view name) const {
  const std::string* value = header(name);
  return value == nullptr ? "" : *value;
}

std::string HttpResponse::all_values(std::string_view name) const {
  std::string values;
  for (const HttpHeader& each : headers) {
    if (!is_same_name(each.name, name)) continue;
    if (!values.empty()) values += ", ";
    values += each.value;
  }
  return values;
}

std::optional<std::uint64_t> HttpResponse::whole_size_bytes() const {
  // "bytes 0-9/100", or "bytes */100" when the range lies behind the end.
  const std::string range = header_or_empty("content-range");
  const std::size_t slash = range.rfind('/');
  if (!range.starts_with("bytes ") || slash == std::string::npos) return std::nullopt;
  std::uint64_t size_bytes = 0;
  const char* end = range.data() + range.size();
  const auto parsed = std::from_chars(range.data() + slash + 1, end, size_bytes);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return size_bytes;
}

HttpHeader range_header(HttpRange range) {
  return {"Range", fmt::format("bytes={}-{}", range.offset, range.offset + range.size_bytes - 1)};
}

}  // namespace wdelta
