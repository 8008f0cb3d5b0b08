// SPDX-License-Identifier: Apache-2.0
#include "store/http/http.hpp"

#include "base/ascii.hpp"
#include "base/error.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>

namespace wdelta {

namespace {
constexpr std::string_view k_range_unit = "bytes ";

bool is_same_name(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, {}, ascii_lower, ascii_lower);
}

std::optional<std::uint64_t> number_in(std::string_view text) {
  std::uint64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

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
  if (!range.starts_with(k_range_unit) || slash == std::string::npos) return std::nullopt;
  return number_in(std::string_view(range).substr(slash + 1));
}

std::optional<std::uint64_t> HttpResponse::first_byte() const {
  const std::string range = header_or_empty("content-range");
  const std::size_t dash = range.find('-');
  if (!range.starts_with(k_range_unit) || dash == std::string::npos) return std::nullopt;
  return number_in(std::string_view(range).substr(0, dash).substr(k_range_unit.size()));
}

HttpHeader range_header(HttpRange range) {
  return {"Range", fmt::format("bytes={}-{}", range.offset, range.offset + range.size_bytes - 1)};
}

void require_part(const HttpResponse& response, std::uint64_t offset, std::optional<std::uint64_t> whole_size_bytes,
                  const std::string& object) {
  const auto said = response.whole_size_bytes();
  const bool is_right = response.first_byte() == offset && said && said == whole_size_bytes.value_or(*said);
  if (is_right) return;
  const std::string range = response.header_or_empty("content-range");
  throw Error(Fault::network, object,
              fmt::format("asked for its bytes from {} on{}, the answer is {}", offset,
                          whole_size_bytes ? fmt::format(", of {}", *whole_size_bytes) : "",
                          range.empty() ? "a part that does not say which (Content-Range)"
                                        : fmt::format("{:?}", range.substr(0, 100))),
              "nothing is known to be damaged; a cache or proxy on the way may be wrong: try again");
}

std::uint64_t whole_size_of(const HttpResponse& response, const std::string& object) {
  const std::uint64_t came_bytes = response.text.size();
  if (!response.is_part()) return came_bytes;
  require_part(response, 0, std::nullopt, object);
  const std::uint64_t size_bytes = *response.whole_size_bytes();
  if (came_bytes > size_bytes)
    throw Error(Fault::network, object, fmt::format("{} bytes came of {}", came_bytes, size_bytes));
  // No store keeps anything so large; what is kept of each part in memory would be more than there is.
  constexpr std::uint64_t k_largest_bytes = std::uint64_t{64} << 40;
  if (size_bytes > k_largest_bytes)
    throw Error(Fault::network, object,
                fmt::format("the answer says that it has {} bytes, at most {} expected", size_bytes, k_largest_bytes));
  return size_bytes;
}

}  // namespace wdelta
