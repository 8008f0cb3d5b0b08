// SPDX-License-Identifier: Apache-2.0
#include "store/s3/xml.hpp"

#include "base/error.hpp"

#include <charconv>
#include <vector>

namespace wdelta {

namespace {

constexpr std::size_t k_deepest = 16;

// Carries no object; scan_xml() names it.
[[noreturn]] void refuse(const char* why) { throw Error(Fault::network, "", why); }

void append_utf8(std::string& text, std::uint32_t code) {
  if (code == 0 || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) refuse("has an impossible character");
  const auto byte = [&](std::uint32_t value) { text += static_cast<char>(value); };
  if (code < 0x80) return byte(code);
  if (code < 0x800) {
    byte(0xC0 | code >> 6);
  } else {
    if (code < 0x10000) {
      byte(0xE0 | code >> 12);
    } else {
      byte(0xF0 | code >> 18);
      byte(0x80 | (code >> 12 & 0x3F));
    }
    byte(0x80 | (code >> 6 & 0x3F));
  }
  byte(0x80 | (code & 0x3F));
}

// What stands between '&' and ';'.
void append_entity(std::string& text, std::string_view name) {
  if (name == "amp") {
    text += '&';
  } else if (name == "lt") {
    text += '<';
  } else if (name == "gt") {
    text += '>';
  } else if (name == "quot") {
    text += '"';
  } else if (name == "apos") {
    text += '\'';
  } else if (name.starts_with('#')) {
    const bool is_hex = name.starts_with("#x");
    const std::string_view digits = name.substr(is_hex ? 2 : 1);
    std::uint32_t code = 0;
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), code, is_hex ? 16 : 10);
    if (parsed.ec != std::errc() || parsed.ptr != digits.data() + digits.size()) refuse("has an entity that is none");
    append_utf8(text, code);
  } else {
    refuse("has an unknown entity");
  }
}

struct Element {
  std::size_t path_bytes;  // of the path of what it is in
  std::string text;
};

class Scan {
 public:
  explicit Scan(std::string_view rest) : rest_(rest) {}

  template <typename OnElement>
  void run(const OnElement& on_element) {
    bool had_root = false;
    while (!rest_.empty()) {
      if (rest_.front() != '<') {
        take_text();
      } else if (rest_.starts_with("<?")) {
        take_until("?>");
      } else if (rest_.starts_with("<!--")) {
        take_until("-->");
      } else if (rest_.starts_with("<![CDATA[")) {
        const std::string_view inside = take_until("]]>").substr(9);
        if (open_.empty()) refuse("has text outside of its root");
        open_.back().text += inside;
      } else if (rest_.starts_with("<!")) {
        refuse("has a document type");  // nothing that S3 sends, and the door to entities of one's own
      } else if (rest_.starts_with("</")) {
        const std::string_view name = local(take_until(">").substr(2));
        if (open_.empty() || std::string_view(path_).substr(name_at(open_.back())) != name)
          refuse("ends an element that is not open");
        end(on_element);
      } else {
        if (open_.empty() && had_root) refuse("has two roots");
        had_root = true;
        if (begin()) end(on_element);
      }
    }
    if (!open_.empty() || !had_root) refuse("ends too early");
  }

 private:
  std::string_view take_until(std::string_view end) {
    const std::size_t at = rest_.find(end);
    if (at == std::string_view::npos) refuse("ends too early");
    const std::string_view taken = rest_.substr(0, at);
    rest_.remove_prefix(at + end.size());
    return taken;
  }

  static std::string_view local(std::string_view name) {
    while (!name.empty() && (name.back() == ' ' || name.back() == '\n' || name.back() == '\r' || name.back() == '\t'))
      name.remove_suffix(1);
    return name.substr(name.find(':') + 1);
  }

  static std::size_t name_at(const Element& element) { return element.path_bytes == 0 ? 0 : element.path_bytes + 1; }

  void take_text() {
    const std::string_view text = rest_.substr(0, rest_.find('<'));
    rest_.remove_prefix(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (open_.empty()) {
        if (text[i] != ' ' && text[i] != '\n' && text[i] != '\r' && text[i] != '\t' &&
            !text.starts_with("\xEF\xBB\xBF"))
          refuse("is no XML");
        continue;
      }
      if (text[i] != '&') {
        open_.back().text += text[i];
        continue;
      }
      const std::size_t end = text.find(';', i);
      if (end == std::string_view::npos || end - i > 10) refuse("has an entity that is none");
      append_entity(open_.back().text, text.substr(i + 1, end - i - 1));
      i = end;
    }
  }

  // Whether the element ends in the same tag.
  bool begin() {
    std::size_t end = 1;
    for (char quote = '\0'; end < rest_.size() && (quote != '\0' || rest_[end] != '>'); ++end) {
      if (quote != '\0') {
        if (rest_[end] == quote) quote = '\0';
      } else if (rest_[end] == '"' || rest_[end] == '\'') {
        quote = rest_[end];
      }
    }
    if (end >= rest_.size()) refuse("ends too early");
    std::string_view tag = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    const bool is_empty = tag.ends_with('/');
    if (is_empty) tag.remove_suffix(1);
    const std::string_view name = local(tag.substr(0, tag.find_first_of(" \t\r\n")));
    if (name.empty() || name.find('/') != std::string_view::npos) refuse("has an element without a name");
    if (open_.size() == k_deepest) refuse("is nested too deep");
    open_.push_back({path_.size(), ""});
    if (!path_.empty()) path_ += '/';
    path_ += name;
    return is_empty;
  }

  template <typename OnElement>
  void end(const OnElement& on_element) {
    on_element(path_, open_.back().text);
    path_.resize(open_.back().path_bytes);
    open_.pop_back();
  }

  std::string_view rest_;
  std::string path_;
  std::vector<Element> open_;
};

}  // namespace

void scan_xml(std::string_view text, const std::string& object,
              const std::function<void(const std::string& path, const std::string& text)>& on_element) {
  try {
    Scan(text).run(on_element);
  } catch (const Error& error) {
    if (!error.object().empty()) throw;
    throw Error(Fault::network, object, std::string("the store's answer ") + error.what());
  }
}

}  // namespace wdelta
