// SPDX-License-Identifier: Apache-2.0
#include "store/hub/etag_hash.hpp"

#include "base/error.hpp"

#include <array>
#include <fmt/format.h>
#include <openssl/evp.h>

namespace wdelta {

namespace {

class OpensslHash final : public EtagHash {
 public:
  explicit OpensslHash(const EVP_MD* kind) : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    if (EVP_DigestInit_ex(context_.get(), kind, nullptr) != 1)
      throw Error(Fault::unsupported, EVP_MD_get0_name(kind), "this system's OpenSSL refuses it");
  }
  void update(std::span<const std::uint8_t> bytes) override {
    EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size());
  }
  std::string finish() override {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned size = 0;
    EVP_DigestFinal_ex(context_.get(), digest.data(), &size);
    std::string text;
    for (unsigned i = 0; i < size; ++i) text += fmt::format("{:02x}", digest[i]);
    return text;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context_;
};

}  // namespace

std::unique_ptr<EtagHash> make_etag_hash(const ModelFile& file) {
  constexpr std::size_t k_sha256_digits = 64;
  if (file.etag.size() == k_sha256_digits) return std::make_unique<OpensslHash>(EVP_sha256());
  auto hash = std::make_unique<OpensslHash>(EVP_sha1());
  // A blob is its size as text, a NUL, and its bytes.
  const std::string head = fmt::format("blob {}", file.size_bytes);
  hash->update(std::span(reinterpret_cast<const std::uint8_t*>(head.c_str()), head.size() + 1));
  return hash;
}

}  // namespace wdelta
