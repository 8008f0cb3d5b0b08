// SPDX-License-Identifier: Apache-2.0
// Whatever an S3 answers.
#include "base/error.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#ifdef WDELTA_HAS_NETWORK
#include "store/s3/s3_answers.hpp"

namespace {

using namespace wdelta;

template <typename Parse>
void survives(Parse parse) {
  try {
    parse();
  } catch (const Error& error) {
    if (error.fault() != Fault::network || error.object() != "answer") std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size_bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes), size_bytes);
  survives([&] { parse_s3_list(text, "answer"); });
  survives([&] { parse_s3_uploads(text, "answer"); });
  survives([&] { parse_s3_parts(text, "answer"); });
  survives([&] { parse_s3_upload_id(text, "answer"); });
  parse_s3_error(text);
  return 0;
}
#else
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t*, std::size_t) { return 0; }
#endif
