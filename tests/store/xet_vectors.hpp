// SPDX-License-Identifier: Apache-2.0
// The published vectors of the Xet protocol, and the inputs that they are about.
#pragma once

#include "store/xet/chunker.hpp"
#include "testing/execution.hpp"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace wdelta::testing {

inline const nlohmann::json& xet_vectors() {
  static const nlohmann::json vectors = [] {
    std::ifstream file(WDELTA_TESTDATA "/xet/vectors.json");
    return nlohmann::json::parse(file);
  }();
  return vectors;
}

/// Little-endian numbers of a splitmix64 generator.
inline std::vector<std::uint8_t> splitmix_bytes(std::uint64_t seed, std::size_t size_bytes) {
  std::vector<std::uint8_t> bytes(size_bytes);
  for (std::size_t i = 0; i < size_bytes; i += 8) {
    seed += 0x9e3779b97f4a7c15;
    std::uint64_t z = (seed ^ seed >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    z ^= z >> 31;
    for (std::size_t k = i; k < i + 8 && k < size_bytes; ++k) bytes[k] = static_cast<std::uint8_t>(z >> 8 * (k - i));
  }
  return bytes;
}

/// What a name in the section "generated" stands for.
inline std::vector<std::uint8_t> xet_input(const std::string& name, std::size_t size_bytes) {
  if (name.starts_with("splitmix")) return splitmix_bytes(std::stoull(name.substr(8)), size_bytes);
  if (name == "hello_world") return {'H', 'e', 'l', 'l', 'o', ' ', 'W', 'o', 'r', 'l', 'd', '!'};
  std::vector<std::uint8_t> bytes(size_bytes, name == "const59_1000000" ? std::uint8_t{59} : std::uint8_t{0});
  if (name == "bytes_0_255_x64") {
    for (std::size_t i = 0; i < size_bytes; ++i) bytes[i] = static_cast<std::uint8_t>(i);
  }
  return bytes;
}

struct CutFile {
  std::vector<std::size_t> ends;
  std::vector<std::string> hashes;
  XetHash root;
  XetHash file;

  bool operator==(const CutFile&) const = default;
};

inline CutFile cut(XetChunker& chunker, const std::vector<std::uint8_t>& bytes) {
  CutFile made;
  XetTree tree;
  std::size_t at = 0;
  chunker.cut(MemoryReader(bytes, "input"), [&](const XetChunk& chunk) {
    if (!std::equal(chunk.bytes.begin(), chunk.bytes.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at))) {
      throw std::logic_error("a chunk does not begin where the one before it ends");
    }
    at += chunk.bytes.size();
    made.ends.push_back(at);
    made.hashes.push_back(chunk.hash.text());
    tree.add(chunk.hash, chunk.bytes.size());
  });
  made.root = tree.root();
  made.file = tree.file_hash();
  return made;
}

inline CutFile cut(const std::vector<std::uint8_t>& bytes) {
  const SilentExecution execution(2);
  XetChunker chunker(execution);
  return cut(chunker, bytes);
}

}  // namespace wdelta::testing
