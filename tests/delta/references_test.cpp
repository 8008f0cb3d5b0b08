// SPDX-License-Identifier: Apache-2.0
// Groups that refer to groups of other tensors.
#include "delta/deltas.hpp"
#include "delta/group_references.hpp"
#include "testing/fault.hpp"

#include <cmath>
#include <doctest/doctest.h>
#include <map>
#include <optional>

namespace wdelta {

using namespace testing;

namespace {

/// Weights of which most have few exponents, and the small ones change more often.
class TrainedTensors {
 public:
  explicit TrainedTensors(std::mt19937_64& random) : random_(random) {}

  TestTensor make(const std::string& name, bool is_wide, std::uint64_t element_count) {
    TestTensor tensor =
        random_tensor(name, is_wide ? DtypeBits{"F32", 32} : DtypeBits{"BF16", 16}, element_count, random_);
    std::geometric_distribution<unsigned> below(0.4);
    for_each_high_half(tensor,
                       [&](unsigned high) { return (high & 0x807f) | (122 - std::min(below(random_), 40U)) << 7; });
    return tensor;
  }
  void train(TestTensor& tensor) {
    for_each_high_half(tensor, [&](unsigned high) {
      const int exponent = high >> 7 & 0xff;
      return chance_(random_) < std::ldexp(0.001, 122 - exponent) ? high ^ 1 : high;
    });
  }

 private:
  /// Visits the higher 16 bits of each element.
  template <class Visit>
  static void for_each_high_half(TestTensor& tensor, Visit visit) {
    const std::size_t width = tensor.dtype == "F32" ? 4 : 2;
    for (std::size_t end = width; end <= tensor.bytes.size(); end += width) {
      const unsigned high = visit(tensor.bytes[end - 2] | unsigned{tensor.bytes[end - 1]} << 8);
      tensor.bytes[end - 2] = static_cast<std::uint8_t>(high);
      tensor.bytes[end - 1] = static_cast<std::uint8_t>(high >> 8);
    }
  }

  std::mt19937_64& random_;
  std::uniform_real_distribution<> chance_;
};

/// What is kept of references, asked for in any order and for any type, is what reading them anew gives, which refuses
/// those for elements of 8 bytes. There are more than are kept.
void check_references(const std::shared_ptr<const DeltaReader>& delta, std::size_t count, std::mt19937_64& random) {
  REQUIRE(2 * count > 2 * KnownGroups::k_most);
  GroupReferences kept;
  for (int round = 0; round < 500; ++round) {
    EntryGroup group;
    group.reference = static_cast<std::uint32_t>(random() % count);
    const bool is_refused = random() % 4 == 0;
    const ElementType type{static_cast<std::uint8_t>(is_refused ? 8 : 4),
                           random() % 2 == 0 ? ElementKind::floating : ElementKind::integer};
    const GroupReference* found = nullptr;
    const auto fault = fault_of([&] { found = kept.of(delta, group, type); });
    if (fault != (is_refused ? std::optional(Fault::corrupt) : std::nullopt)) FAIL("refused, or not, as another type");
    if (is_refused) continue;
    GroupReferences anew;
    const GroupReference* expected = anew.of(delta, group, type);
    if (found->bounds != expected->bounds || found->changes != expected->changes) FAIL("another reference");
  }
}

}  // namespace

TEST_CASE("tensors refer to others of their run and dtype, and are rebuilt whole, in parts and through a chain") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  TrainedTensors trained(random);
  std::vector<TestTensor> tensors;  // of four runs, with any seed: more references than are kept
  for (int i = 0; i < 100; ++i) {
    const bool is_wide = i % 5 == 3;
    tensors.push_back(
        trained.make("t." + std::to_string(i), is_wide, 20'000 + random() % (is_wide ? 60'000 : 500'000)));
  }
  std::vector<PlacedFile> files{{"m.safetensors", safetensors_file(tensors)}};
  std::vector<Bytes> deltas;
  for (int step = 0; step < 3; ++step) {
    for (TestTensor& tensor : tensors) trained.train(tensor);
    files.push_back({"m.safetensors", safetensors_file(tensors)});
    deltas.push_back(make_delta({files[files.size() - 2]}, files.back()).bytes);
  }

  const auto opened = open_delta(deltas.front());
  const SafetensorsHeader header = SafetensorsHeader::read(*reader_of(files.front()));
  std::map<std::uint64_t, const Tensor*> told_by;  // where parameters begin that refer to none
  std::size_t referring = 0;
  for (const DeltaEntry& entry : opened->entries()) {
    const Tensor& tensor = *header.find(entry.tensor());
    for (const EntryGroup& group : entry.groups()) {
      if (group.parameters_bytes == 0) continue;
      if (!group.reference) {
        told_by[group.parameters_begin] = &tensor;
        continue;
      }
      ++referring;
      const EntryGroup& told = opened->reference(*group.reference);
      REQUIRE(told_by.contains(told.parameters_begin));
      const Tensor& other = *told_by[told.parameters_begin];
      CHECK(other.dtype == tensor.dtype);
      // Where a group begins says which run it is of: k_runs are of three segments.
      const auto run_of = [](const Tensor& of, const EntryGroup& at) {
        const std::uint64_t begin = of.begin + at.first_block() * k_block_elements * of.dtype->width_bytes;
        return begin / (3 * Blake3Tree::k_segment_bytes);
      };
      CHECK(run_of(other, told) == run_of(tensor, group));
    }
  }
  CHECK(referring >= 10);
  CHECK(told_by.size() >= 2 * 2);
  check_references(opened, told_by.size(), random);

  for (const Run& run : all_runs()) {
    CHECK((make_delta({files[0]}, files[1], run).bytes == deltas.front()));
    CHECK((apply_delta(deltas.front(), {files[0]}, run) == files[1].bytes));
    FileVersion version = whole_version({files[0].path, files[0].bytes.size(), blake3(files[0].bytes)},
                                        reader_of(files[0]), Fault::base_mismatch);
    for (const Bytes& delta : deltas) version = delta_version(open_delta(delta), {version}, *run.engine);
    CHECK((written(version, run.threads) == files.back().bytes));
    for (int round = 0; round < 20; ++round) {
      const std::uint64_t begin = random() % files.back().bytes.size();
      Bytes part(std::min<std::uint64_t>(1 + random() % 300'000, files.back().bytes.size() - begin));
      version.bytes().read_at(begin, part);
      if (!std::ranges::equal(part, std::span(files.back().bytes).subspan(begin, part.size()))) FAIL("another part");
    }
  }
}

}  // namespace wdelta
