// SPDX-License-Identifier: Apache-2.0
// A delta of any bytes, its seal put right: opened, and all that it makes of a small base read.
#include "base/error.hpp"
#include "delta/rebuilt_file.hpp"
#include "fuzz/reseal.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

using namespace wdelta;

/// Three tensors, 60 BF16, 30 F32 and 70,000 I8, with bits that anyone can make again.
std::shared_ptr<const RebuiltFile> small_base() {
  const std::string header =
      R"({"a":{"dtype":"BF16","shape":[60],"data_offsets":[0,120]},"b":{"dtype":"F32","shape":[30],"data_offsets":[120,240]},)"
      R"("c":{"dtype":"I8","shape":[70000],"data_offsets":[240,70240]}})";
  std::vector<std::uint8_t> file = {static_cast<std::uint8_t>(header.size()), 0, 0, 0, 0, 0, 0, 0};
  file.insert(file.end(), header.begin(), header.end());
  for (std::uint32_t i = 0; i < 70'240; ++i) file.push_back(static_cast<std::uint8_t>(i * 2'654'435'761u >> 24));
  return RebuiltFile::from_file(std::make_shared<MemoryReader>(std::move(file), "base"));
}

void read_everything(const RebuiltFile& file) {
  constexpr std::uint64_t k_most = std::uint64_t{1} << 20;
  const std::uint64_t size = std::min(file.size_bytes(), k_most);
  std::vector<std::uint8_t> whole(size);
  file.read_at(0, whole);
  // In two pieces, so that a block is cut.
  std::vector<std::uint8_t> pieces(size);
  file.read_at(0, std::span(pieces).first(size / 2));
  file.read_at(size / 2, std::span(pieces).subspan(size / 2));
  if (pieces != whole) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size_bytes) {
  static const std::shared_ptr<const RebuiltFile> base = small_base();
  std::vector<std::uint8_t> delta(bytes, bytes + size_bytes);
  if (size_bytes >= 8) {
    const std::size_t length = bytes[0] + 256u * bytes[1];
    fuzz::reseal(std::span(delta).first(std::min(size_bytes, 8 + length)));
  }
  try {
    const auto opened =
        std::make_shared<DeltaReader>(DeltaReader::open(std::make_shared<MemoryReader>(std::move(delta), "delta")));
    const std::vector<std::shared_ptr<const RebuiltFile>> bases(opened->description().base.size(), base);
    read_everything(*RebuiltFile::from_delta(opened, bases, engines().back()));
  } catch (const Error& error) {
    const Fault fault = error.fault();
    if (fault != Fault::corrupt && fault != Fault::base_mismatch && fault != Fault::unsupported) std::abort();
  }
  return 0;
}
