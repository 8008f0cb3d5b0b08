// SPDX-License-Identifier: Apache-2.0
#include "store/http/loaded_library.hpp"

#include "base/error.hpp"
#include "store/http/openssl_hash.hpp"

#include <doctest/doctest.h>
#include <string>

namespace wdelta {

namespace {

template <class Body>
void check_refused(Body body, const std::string& library, const std::string& says) {
  try {
    body();
    FAIL("loaded: ", says);
  } catch (const Error& error) {
    CHECK(error.fault() == Fault::unsupported);
    CHECK(error.object() == library);
    CHECK(std::string(error.what()).find(says) != std::string::npos);
    CHECK(error.hint() == "get another");
  }
}

}  // namespace

TEST_CASE("a library that is not there, or has not what is needed, is named with what is missing") {
  check_refused([] { LoadedLibrary("libnowhere.so.1", "get another"); }, "libnowhere.so.1", "libnowhere.so.1");
  const LoadedLibrary maths("libm.so.6", "get another");
  double (*function)(double) = nullptr;
  maths.find(function, "sqrt");
  CHECK(function(9) == 3);
  check_refused([&] { maths.find(function, "sqrt_of_nothing"); }, "libm.so.6", "sqrt_of_nothing");
}

TEST_CASE("libcrypto makes the hashes that their standards have as examples") {
  // RFC 1321, A.5; FIPS 180-4's examples; RFC 4231, test case 2.
  const auto hash_of_abc = [](HashKind kind) {
    OpensslHash hash(kind);
    const std::uint8_t abc[] = {'a', 'b', 'c'};
    hash.update(std::span(abc).first(1));
    hash.update(std::span(abc).subspan(1));
    return hash.finish();
  };
  CHECK(hash_of_abc(HashKind::md5) == "900150983cd24fb0d6963f7d28e17f72");
  CHECK(hash_of_abc(HashKind::sha1) == "a9993e364706816aba3e25717850c26c9cd0d89d");
  CHECK(hash_of_abc(HashKind::sha256) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  const std::string code = hmac_sha256("Jefe", "what do ya want for nothing?");
  REQUIRE(code.size() == 32);
  CHECK(static_cast<unsigned char>(code.front()) == 0x5b);
  CHECK(static_cast<unsigned char>(code.back()) == 0x43);
}

}  // namespace wdelta
