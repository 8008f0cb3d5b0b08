// SPDX-License-Identifier: Apache-2.0
#include "c/boundary.hpp"

#include "base/printable.hpp"
#include "user/exit_codes.hpp"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <new>
#include <string>
#include <system_error>

namespace wdelta {

namespace {

// Cut where a character ends.
std::string_view beginning_of(std::string_view text, std::size_t most_bytes) {
  std::size_t length = std::min(text.size(), most_bytes);
  while (length < text.size() && length > 0 && (static_cast<unsigned char>(text[length]) & 0xc0) == 0x80) --length;
  return text.substr(0, length);
}

template <std::size_t k_size>
void put_text(char (&to)[k_size], std::string_view text) {
  text = beginning_of(text, k_size - 1);
  std::memcpy(to, text.data(), text.size());
  to[text.size()] = '\0';
}

wdelta_status tell(wdelta_error* error, Fault fault, std::string_view object, std::string_view what,
                   std::string_view hint) noexcept {
  const wdelta_status status = exit_code_of(fault);
  if (error == nullptr) return status;
  error->status = status;
  try {
    // A name may be as long as it likes, also when it is shown: what is wrong with it is said, too.
    constexpr std::size_t k_longest_object = 500;
    const std::string shown = printable(beginning_of(object, k_longest_object));
    std::string line(beginning_of(shown, k_longest_object));
    if (std::max(object.size(), shown.size()) > k_longest_object) line += "...";
    if (!object.empty()) line += ": ";
    put_text(error->message, line + printable(what));
    put_text(error->hint, printable(hint));
  } catch (const std::bad_alloc&) {
    put_text(error->message, "memory: there is not enough to say what is wrong");
    put_text(error->hint, "");
  }
  return status;
}

}  // namespace

wdelta_status tell_done(wdelta_error* error) noexcept {
  if (error != nullptr) {
    error->status = WDELTA_DONE;
    error->message[0] = error->hint[0] = '\0';
  }
  return WDELTA_DONE;
}

wdelta_status tell_failure(wdelta_error* error) noexcept {
  try {
    throw;
  } catch (const Error& thrown) {
    return tell(error, thrown.fault(), thrown.object(), thrown.what(), thrown.hint());
  } catch (const std::bad_alloc&) {
    return tell(error, Fault::local, "memory", "there is not enough",
                "WDELTA_TENSORS_BORROWED and WDELTA_REFERENCE_REPOSITORY keep no copies");
  } catch (const std::filesystem::filesystem_error& thrown) {
    return tell(error, Fault::local, thrown.path1().native(), thrown.code().message(), "");
  } catch (const std::exception& thrown) {
    return tell(error, Fault::internal, "", thrown.what(), "");
  } catch (...) {
    return tell(error, Fault::internal, "", "something was thrown that is no error", "");
  }
}

void require(const void* given, std::string_view what) {
  if (given == nullptr) throw Error(Fault::usage, std::string(what), "is NULL");
}

void take_sized(void* to, std::size_t known_bytes, const void* given) {
  if (given == nullptr) return;
  std::size_t given_bytes = 0;
  std::memcpy(&given_bytes, given, sizeof given_bytes);
  if (given_bytes < sizeof given_bytes)
    throw Error(Fault::usage, "struct_size", "is not set", "initialise the struct with its INIT macro");
  const auto* bytes = static_cast<const std::uint8_t*>(given);
  for (std::size_t i = known_bytes; i < given_bytes; ++i) {
    if (bytes[i] != 0) {
      throw Error(Fault::unsupported, "struct_size", "something is asked for that this version does not know",
                  "the program was built for a later libwdelta");
    }
  }
  std::memcpy(to, given, std::min(known_bytes, given_bytes));
}

}  // namespace wdelta
