// SPDX-License-Identifier: Apache-2.0
// Answers of the Hub and of its content store; the first byte says which.
#include "base/error.hpp"
#include "store/hub/hub_answers.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size_bytes) {
  using namespace wdelta;
  if (size_bytes == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(bytes + 1), size_bytes - 1);
  try {
    switch (bytes[0] % 8) {
      case 0:
        hub_files_from(text, "input");
        break;
      case 1:
        hub_batch_answer_from(text, "input");
        break;
      case 2: {
        const XetToken token = xet_token_from(text, "input");
        if (token.access_token.find_first_of("\r\n") != std::string::npos) std::abort();
        break;
      }
      case 3:
        xet_shard_answer_from(text, "input");
        break;
      case 4:
        next_cursor(text, "input");
        break;
      case 5:
        if (hub_error_text(text).find('\n') != std::string::npos) std::abort();
        break;
      case 6:
        for (const ModelFile& file : model_files_from(text, "input")) {
          if (!is_model_etag(file.etag)) std::abort();
        }
        break;
      case 7:
        if (model_revision_from(text, "input").commit.size() != 40) std::abort();
        break;
    }
  } catch (const Error& error) {
    if (error.fault() != Fault::network) std::abort();
  }
  return 0;
}
