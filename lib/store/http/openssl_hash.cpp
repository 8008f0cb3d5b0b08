// SPDX-License-Identifier: Apache-2.0
#include "store/http/openssl_hash.hpp"

#include "base/error.hpp"
#include "store/http/loaded_library.hpp"

#include <array>
#include <fmt/format.h>
#include <new>
#include <openssl/hmac.h>

namespace wdelta {

namespace {

/// What is used of it, each function as <openssl/evp.h> and <openssl/hmac.h> declare it.
struct Libcrypto {
  decltype(&::EVP_MD_CTX_new) context_new;
  decltype(&::EVP_MD_CTX_free) context_free;
  decltype(&::EVP_DigestInit_ex) digest_init;
  decltype(&::EVP_DigestUpdate) digest_update;
  decltype(&::EVP_DigestFinal_ex) digest_final;
  decltype(&::EVP_md5) md5;
  decltype(&::EVP_sha1) sha1;
  decltype(&::EVP_sha256) sha256;
  decltype(&::HMAC) hmac;
};

Libcrypto load_crypto() {
  const LoadedLibrary library("libcrypto.so.3", "repositories on a network need OpenSSL 3");
  Libcrypto crypto{};
  library.find(crypto.context_new, "EVP_MD_CTX_new");
  library.find(crypto.context_free, "EVP_MD_CTX_free");
  library.find(crypto.digest_init, "EVP_DigestInit_ex");
  library.find(crypto.digest_update, "EVP_DigestUpdate");
  library.find(crypto.digest_final, "EVP_DigestFinal_ex");
  library.find(crypto.md5, "EVP_md5");
  library.find(crypto.sha1, "EVP_sha1");
  library.find(crypto.sha256, "EVP_sha256");
  library.find(crypto.hmac, "HMAC");
  return crypto;
}

const Libcrypto& libcrypto() {
  static const Libcrypto crypto = load_crypto();
  return crypto;
}

struct Kind {
  const EVP_MD* made_by;
  const char* name;
};
Kind kind_of(HashKind kind) {
  switch (kind) {
    case HashKind::md5:
      return {libcrypto().md5(), "MD5"};
    case HashKind::sha1:
      return {libcrypto().sha1(), "SHA-1"};
    case HashKind::sha256:
      break;
  }
  return {libcrypto().sha256(), "SHA-256"};
}

}  // namespace

OpensslHash::OpensslHash(HashKind kind) : context_(libcrypto().context_new(), libcrypto().context_free) {
  if (!context_) throw std::bad_alloc();
  const auto [made_by, name] = kind_of(kind);
  if (libcrypto().digest_init(context_.get(), made_by, nullptr) != 1)
    throw Error(Fault::unsupported, name, "this system's OpenSSL refuses it");
}

void OpensslHash::update(std::span<const std::uint8_t> bytes) {
  libcrypto().digest_update(context_.get(), bytes.data(), bytes.size());
}

std::string OpensslHash::finish() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  libcrypto().digest_final(context_.get(), digest.data(), &size);
  return fmt::format("{:02x}", fmt::join(digest.begin(), digest.begin() + size, ""));
}

std::string hmac_sha256(std::string_view key, std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  if (libcrypto().hmac(libcrypto().sha256(), key.data(), static_cast<int>(key.size()),
                       reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data(),
                       &size) == nullptr)
    throw std::bad_alloc();
  return {reinterpret_cast<const char*>(digest.data()), size};
}

}  // namespace wdelta
