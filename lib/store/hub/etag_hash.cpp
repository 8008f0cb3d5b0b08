// SPDX-License-Identifier: Apache-2.0
#include "store/hub/etag_hash.hpp"

#include "store/http/openssl_hash.hpp"

#include <fmt/format.h>

namespace wdelta {

namespace {

class HashOfFile final : public EtagHash {
 public:
  explicit HashOfFile(HashKind kind) : hash_(kind) {}
  void update(std::span<const std::uint8_t> bytes) override { hash_.update(bytes); }
  std::string finish() override { return hash_.finish(); }

 private:
  OpensslHash hash_;
};

}  // namespace

std::unique_ptr<EtagHash> make_etag_hash(const ModelFile& file) {
  constexpr std::size_t k_sha256_digits = 64;
  if (file.etag.size() == k_sha256_digits) return std::make_unique<HashOfFile>(HashKind::sha256);
  auto hash = std::make_unique<HashOfFile>(HashKind::sha1);
  // A blob is its size as text, a NUL, and its bytes.
  const std::string head = fmt::format("blob {}", file.size_bytes);
  hash->update(std::span(reinterpret_cast<const std::uint8_t*>(head.c_str()), head.size() + 1));
  return hash;
}

}  // namespace wdelta
