// SPDX-License-Identifier: Apache-2.0
// A listing of contested entries: each line of the input is the last part of a key; when it was written follows from
// its first byte, so that keys of one number come in any order.
#include "repo/contested.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>

using namespace wdelta;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size_bytes) {
  const std::string text(reinterpret_cast<const char*>(bytes), size_bytes);
  ContestedEntries entries({std::chrono::milliseconds(50), std::chrono::milliseconds(10)});
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    if (end > begin) {
      const std::string part = text.substr(begin + 1, end - begin - 1);
      entries.add({"branches/main/" + part, part.size(), bytes[begin]});
      const auto key = parse_contested_key(part);
      if (key && !key->is_withdrawal && contested_key("", key->number, key->write, key->before) != part) std::abort();
    }
    begin = end + 1;
  }
  std::set<std::string> counted;
  std::string before = no_entry_before();
  for (const ContestedEntry& entry : entries.line()) {
    if (entry.before != before || !counted.insert(entry.write).second || entry.number != counted.size()) std::abort();
    if (!entries.is_rooted(entry.write)) std::abort();
    before = entry.write;
  }
  if (entries.line(100).size() > counted.size()) std::abort();
  for (const ContestedEntry& fork : entries.forks({})) {
    if (counted.contains(fork.write)) std::abort();
  }
  return entries.has_orphans() && counted.size() > size_bytes ? 1 : 0;
}
