// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/digest.hpp"
#include "base/json_fwd.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace wdelta {

/// Parses a document from outside. Refuses what is not JSON in UTF-8, a name given twice in an object, and nesting
/// deeper than 16; and more than 1,000,000 values and one for each 16 bytes of text, which would take far more memory
/// than text. Throws corrupt, naming `object`.
ParsedJson parse_json(std::string_view text, const std::string& object);
/// The same of an object, whose members are handed over one by one, in the order of the text: for documents that are
/// soon something else. What `take` throws comes through. Throws corrupt, too, for a member of more than 1,000,000
/// values (with all that lies in it), which would take far more memory than text.
using TakeMember = std::function<void(const std::string& name, ParsedJson&& value)>;
void parse_members(std::string_view text, const std::string& object, const TakeMember& take);
/// An object as parse_json() has it but for the elements of its member `array`, if that is one: they are handed over
/// one by one, in the order of the text, and none is left. Bounded as parse_members() is: each element, and each other
/// member.
using TakeElement = std::function<void(ParsedJson&& value)>;
ParsedJson parse_elements(std::string_view text, const std::string& object, std::string_view array,
                          const TakeElement& take);

/// Members of an object from outside; each throws corrupt, naming `object` and the member, when it is not there or of
/// another type.
const ParsedJson& member(const ParsedJson& json, const char* name, const std::string& object);
std::string string_member(const ParsedJson& json, const char* name, const std::string& object);
std::uint64_t size_member(const ParsedJson& json, const char* name, const std::string& object);
bool bool_member(const ParsedJson& json, const char* name, const std::string& object);
Digest digest_member(const ParsedJson& json, const char* name, const std::string& object);
const ParsedJson& array_member(const ParsedJson& json, const char* name, const std::string& object);

/// Gives `object` a member behind those that it has, none of which is called so: it does not look. For objects with a
/// member for each file, which take time in proportion to the square of their number otherwise.
void append_member(Json& object, std::string name, Json value);

/// A sealed document is a JSON object whose last member, "digest", is the BLAKE3 digest of the very text with the 64
/// digits of that value replaced by 0: any flipped byte shows. `json` must be an object without that member.
std::string seal(Json json);
/// Parses a sealed document and checks its seal, `format` and `version`, which may be up to `newest`. Throws corrupt,
/// or unsupported for another version.
ParsedJson open_sealed(std::string_view text, std::string_view format, const std::string& object,
                       std::uint64_t newest = 1);

/// Checks members "format" and "version" of a document, which may be up to `newest`; throws as open_sealed() does.
/// Returns the version.
std::uint64_t require_format(const ParsedJson& json, std::string_view format, const std::string& object,
                             std::uint64_t newest = 1);

}  // namespace wdelta
