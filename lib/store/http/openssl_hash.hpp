// SPDX-License-Identifier: Apache-2.0
// The hashes that services ask for, as OpenSSL's libcrypto makes them: it is loaded with the first.
#pragma once

#include <cstdint>
#include <memory>
#include <openssl/evp.h>
#include <span>
#include <string>
#include <string_view>

namespace wdelta {

enum class HashKind { md5, sha1, sha256 };

class OpensslHash {
 public:
  /// Throws unsupported where libcrypto cannot be loaded, or does not make such hashes.
  explicit OpensslHash(HashKind kind);

  void update(std::span<const std::uint8_t> bytes);
  /// In hex digits. Nothing may follow.
  std::string finish();

 private:
  std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context_;
};

/// 32 bytes. Throws unsupported where libcrypto cannot be loaded.
std::string hmac_sha256(std::string_view key, std::string_view text);

}  // namespace wdelta
