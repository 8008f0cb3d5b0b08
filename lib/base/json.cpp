// SPDX-License-Identifier: Apache-2.0
#include "base/json.hpp"

#include "base/blake3.hpp"
#include "base/error.hpp"

#include <fmt/format.h>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace wdelta {

namespace {

constexpr std::size_t k_most_member_values = 1'000'000;
// Of a document of more values each has more text than that.
constexpr std::size_t k_fewest_value_bytes = 16;

// What the parser says is wrong, without its own number of the error and all that it read last, which may be long.
std::string_view in_words(std::string_view what) {
  constexpr std::string_view k_number_end = "] ";
  constexpr std::string_view k_read_last = "; last read: ";
  const std::size_t number_end = what.find(k_number_end);
  if (number_end != what.npos) what.remove_prefix(number_end + k_number_end.size());
  return what.substr(0, what.find(k_read_last));
}

// Builds the document from the parser's events, or hands over parts of it one by one. The parser's own way to look at
// them while it builds one goes through an array again after each of its elements: a manifest of a million files would
// take hours.
class Builder final : public nlohmann::json_sax<ParsedJson> {
 public:
  /// What is handed over: nothing, the members of the document, or the elements of the one that is called `array`.
  struct Taken {
    std::optional<std::string_view> array;
    TakeMember take;  // null: nothing

    bool members() const { return take && !array; }
  };
  Builder(const std::string& object, std::size_t text_bytes, Taken taken)
      : object_(&object),
        most_values_(k_most_member_values + text_bytes / k_fewest_value_bytes),
        taken_(std::move(taken)) {}
  ParsedJson take() { return std::move(document_); }

  bool null() override { return put(nullptr) != nullptr; }
  bool boolean(bool value) override { return put(value) != nullptr; }
  bool number_integer(number_integer_t value) override { return put(value) != nullptr; }
  bool number_unsigned(number_unsigned_t value) override { return put(value) != nullptr; }
  bool number_float(number_float_t value, const string_t&) override { return put(value) != nullptr; }
  bool string(string_t& value) override { return put(std::move(value)) != nullptr; }
  bool binary(binary_t&) override { return false; }

  bool start_object(std::size_t) override { return start(ParsedJson::object()); }
  bool start_array(std::size_t) override { return start(ParsedJson::array()); }
  bool end_object() override { return end(); }
  bool end_array() override { return end(); }
  bool key(string_t& name) override {
    if (is_among_members()) {
      name_ = name;
      if (taken_.take) value_count_ = 0;
    }
    if (taken_.members() && is_among_members()) {
      const std::size_t before = names_.size();
      names_.insert(names_.end(), name);  // most writers sort them
      if (names_.size() == before) refuse_second(name);
      return true;
    }
    const auto [place, is_new] = open_.back()->emplace(name, nullptr);
    if (!is_new) refuse_second(name);
    member_ = &*place;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception& exception) override {
    throw Error(Fault::corrupt, *object_, fmt::format("not valid JSON: {}", in_words(exception.what())));
  }

 private:
  [[noreturn]] void refuse_second(const std::string& name) const {
    throw Error(Fault::corrupt, *object_, fmt::format("JSON has the name {:?} twice", name));
  }
  bool is_among_members() const { return open_.size() == 1 && open_.front()->is_object(); }
  // Whether what comes next is handed over.
  bool is_taken() const {
    if (taken_.members()) return is_among_members();
    return taken_.array && open_.size() == 2 && open_.front()->is_object() && open_.back()->is_array() &&
           name_ == *taken_.array;
  }
  bool start(ParsedJson&& empty) {
    constexpr std::size_t k_deepest = 16;
    if (open_.size() >= k_deepest)
      throw Error(Fault::corrupt, *object_, fmt::format("JSON is nested deeper than {}", k_deepest));
    open_.push_back(put(std::move(empty)));
    return true;
  }
  bool end() {
    open_.pop_back();
    if (is_taken()) hand_over();
    return true;
  }
  void hand_over() {
    taken_.take(name_, std::move(value_));
    value_count_ = 0;
  }
  // What it returns stays where it is as long as it is open: nothing is put into its parent meanwhile.
  ParsedJson* put(ParsedJson value) {
    // Each takes much more memory than it has text.
    ++value_count_;
    if (taken_.take && value_count_ > k_most_member_values)
      throw Error(Fault::corrupt, *object_,
                  fmt::format("JSON member {:?} has more than {} values", name_, k_most_member_values));
    if (!taken_.take && value_count_ > most_values_)
      throw Error(Fault::corrupt, *object_, fmt::format("JSON has more than {} values", most_values_));
    if (is_taken()) {
      const bool is_whole = !value.is_structured();
      value_ = std::move(value);
      if (is_whole) hand_over();
      return &value_;
    }
    ParsedJson* place = &document_;
    if (!open_.empty()) {
      ParsedJson& parent = *open_.back();
      if (parent.is_array()) parent.push_back(nullptr);
      place = parent.is_array() ? &parent.back() : member_;
    }
    *place = std::move(value);
    return place;
  }

  const std::string* object_;
  std::size_t most_values_;  // where nothing is handed over
  ParsedJson document_;
  std::vector<ParsedJson*> open_;
  ParsedJson* member_ = nullptr;
  // Of what is handed over.
  Taken taken_;
  std::set<std::string> names_;
  std::string name_;  // of the document's member
  std::size_t value_count_ = 0;
  ParsedJson value_;
};

ParsedJson parse(std::string_view text, const std::string& object, Builder::Taken taken) {
  // The parser takes a NUL for the end of the text, so that anything could hide behind it.
  if (text.find('\0') != std::string_view::npos) throw Error(Fault::corrupt, object, "JSON holds a NUL byte");
  Builder builder(object, text.size(), std::move(taken));
  ParsedJson::sax_parse(text, &builder);
  return builder.take();
}

// For those that hand over a part of an object.
ParsedJson parse_object(std::string_view text, const std::string& object, Builder::Taken taken) {
  ParsedJson document = parse(text, object, std::move(taken));
  if (!document.is_object()) throw Error(Fault::corrupt, object, "a JSON object was expected");
  return document;
}

}  // namespace

ParsedJson parse_json(std::string_view text, const std::string& object) { return parse(text, object, {}); }

void parse_members(std::string_view text, const std::string& object, const TakeMember& take) {
  parse_object(text, object, {{}, take});
}

ParsedJson parse_elements(std::string_view text, const std::string& object, std::string_view array,
                          const TakeElement& take) {
  return parse_object(text, object, {array, [&](const std::string&, ParsedJson&& value) { take(std::move(value)); }});
}

namespace {
[[noreturn]] void refuse(const std::string& object, const char* name, const char* expected) {
  throw Error(Fault::corrupt, object, fmt::format("member \"{}\" is not {}", name, expected));
}
}  // namespace

const ParsedJson& member(const ParsedJson& json, const char* name, const std::string& object) {
  if (!json.is_object()) throw Error(Fault::corrupt, object, "a JSON object was expected");
  const auto found = json.find(name);
  if (found == json.end()) throw Error(Fault::corrupt, object, fmt::format("member \"{}\" is missing", name));
  return *found;
}

std::string string_member(const ParsedJson& json, const char* name, const std::string& object) {
  const ParsedJson& value = member(json, name, object);
  if (!value.is_string()) refuse(object, name, "a string");
  return value.get<std::string>();
}

std::uint64_t size_member(const ParsedJson& json, const char* name, const std::string& object) {
  const ParsedJson& value = member(json, name, object);
  if (!value.is_number_unsigned()) refuse(object, name, "a number of bytes");
  return value.get<std::uint64_t>();
}

bool bool_member(const ParsedJson& json, const char* name, const std::string& object) {
  const ParsedJson& value = member(json, name, object);
  if (!value.is_boolean()) refuse(object, name, "true or false");
  return value.get<bool>();
}

Digest digest_member(const ParsedJson& json, const char* name, const std::string& object) {
  const auto digest = Digest::parse(string_member(json, name, object));
  if (!digest) refuse(object, name, "a digest of 64 hex digits");
  return *digest;
}

const ParsedJson& array_member(const ParsedJson& json, const char* name, const std::string& object) {
  const ParsedJson& value = member(json, name, object);
  if (!value.is_array()) refuse(object, name, "an array");
  return value;
}

namespace {
constexpr std::string_view k_seal_begin = "\"digest\":\"";
constexpr std::string_view k_seal_end = "\"}\n";
constexpr std::size_t k_seal_bytes = k_seal_begin.size() + 64 + k_seal_end.size();

Digest seal_of(std::string text) {
  text.replace(text.size() - k_seal_end.size() - 64, 64, 64, '0');
  return blake3(text);
}
}  // namespace

void append_member(Json& object, std::string name, Json value) {
  object.get_ref<Json::object_t&>().push_back({std::move(name), std::move(value)});
}

std::string seal(Json json) {
  json["digest"] = std::string(64, '0');
  std::string text = json.dump() + "\n";
  text.replace(text.size() - k_seal_end.size() - 64, 64, seal_of(text).hex());
  return text;
}

ParsedJson open_sealed(std::string_view text, std::string_view format, const std::string& object,
                       std::uint64_t newest) {
  const std::string_view tail =
      text.size() < k_seal_bytes ? std::string_view() : text.substr(text.size() - k_seal_bytes);
  if (!tail.starts_with(k_seal_begin) || !tail.ends_with(k_seal_end) ||
      Digest::parse(tail.substr(k_seal_begin.size(), 64)) != seal_of(std::string(text))) {
    throw Error(Fault::corrupt, object, "its digest does not match its content: it was cut or changed");
  }
  ParsedJson json = parse_json(text, object);
  require_format(json, format, object, newest);
  return json;
}

std::uint64_t require_format(const ParsedJson& json, std::string_view format, const std::string& object,
                             std::uint64_t newest) {
  const std::string found = string_member(json, "format", object);
  if (found != format) throw Error(Fault::corrupt, object, fmt::format("format is {:?}, {:?} expected", found, format));
  const std::uint64_t version = size_member(json, "version", object);
  if (version < 1 || version > newest) {
    throw Error(Fault::unsupported, object,
                fmt::format("{} version {} is newer than this wdelta knows ({})", format, version, newest),
                "use a newer wdelta");
  }
  return version;
}

}  // namespace wdelta
