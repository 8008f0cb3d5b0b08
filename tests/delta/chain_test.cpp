// SPDX-License-Identifier: Apache-2.0
#include "base/file.hpp"
#include "delta/deltas.hpp"
#include "delta/rebuilt_file.hpp"
#include "testing/fault.hpp"
#include "testing/scratch.hpp"

#include <doctest/doctest.h>
#include <thread>

namespace wdelta {

using namespace testing;

namespace {

/// The same elements in rows of another length, or as no matrix.
void reshape(TestTensor& tensor, std::mt19937_64& random) {
  std::uint64_t elements = 1;
  for (const std::uint64_t extent : tensor.shape) elements *= extent;
  constexpr std::uint64_t k_rows[] = {0, 2, 50, k_row_elements, 2 * k_row_elements};
  const std::uint64_t row = k_rows[random() % std::size(k_rows)];
  tensor.shape = {elements};
  if (row != 0 && elements % row == 0) tensor.shape = {elements / row, row};
}

/// A file through several steps, some of which change its layout, and the deltas between them.
struct Chain {
  std::vector<PlacedFile> files;
  std::vector<Bytes> deltas;

  Chain(std::size_t steps, bool keeps_layout, std::mt19937_64& random) {
    std::vector<TestTensor> tensors;
    for (const DtypeBits dtype : {DtypeBits{"BF16", 16}, {"F32", 32}, {"U8", 8}, {"F6_E2M3", 6}}) {
      tensors.push_back(random_tensor("t." + std::string(dtype.name), dtype, 65'536 * 2 + 100, random));
    }
    // Of more blocks than a batch.
    tensors.push_back(random_tensor("t.long", {"BF16", 16}, 65'536 * 9 + 50, random));
    tensors.push_back(weights(std::string(k_used_in_part), 65'536 * 6, random));
    files.push_back({"m.safetensors", safetensors_file(tensors)});
    for (std::size_t step = 1; step <= steps; ++step) {
      tensors = with_changes(std::move(tensors), 0.02, random);
      if (!keeps_layout) {
        for (TestTensor& tensor : tensors) reshape(tensor, random);
      }
      if (!keeps_layout && step % 3 == 1) std::shuffle(tensors.begin(), tensors.end(), random);
      if (!keeps_layout && step % 3 == 2) {
        tensors.push_back(random_tensor("new at " + std::to_string(step), {"BF16", 16}, 1000, random));
      }
      files.push_back({"m.safetensors", safetensors_file(tensors)});
      deltas.push_back(make_delta({files[step - 1]}, files[step]).bytes);
    }
  }

  /// The version that deltas [from, to) make of files[from], resolved in one.
  FileVersion version(std::size_t from, std::size_t to, const Run& run = {}) const {
    const PlacedFile& base = files[from];
    FileVersion version =
        whole_version({base.path, base.bytes.size(), blake3(base.bytes)}, reader_of(base), Fault::base_mismatch);
    for (std::size_t i = from; i < to; ++i) version = delta_version(open_delta(deltas[i]), {version}, *run.engine);
    return version;
  }
};

/// Parts of a file: anywhere, or going on behind the one before, or beginning a little before its end.
class Parts {
 public:
  explicit Parts(std::uint64_t size_bytes) : size_bytes_(size_bytes) {}
  struct Part {
    std::uint64_t offset;
    std::uint64_t size_bytes;
  };
  Part next(std::mt19937_64& random, std::uint64_t longest) {
    const std::uint64_t kind = random() % 3;
    const std::uint64_t back = kind == 1 ? std::min<std::uint64_t>(random() % 70'000, end_) : 0;
    const std::uint64_t offset = kind == 0 ? random() % size_bytes_ : end_ - back;
    end_ = offset + std::min<std::uint64_t>(random() % longest, size_bytes_ - offset);
    return {offset, end_ - offset};
  }

 private:
  std::uint64_t size_bytes_;
  std::uint64_t end_ = 0;  // of the last one
};

}  // namespace

TEST_CASE("a chain of deltas applied in one pass gives what applying them in turn gives") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  for (const bool keeps_layout : {true, false}) {
    const Chain chain(6, keeps_layout, random);
    for (std::size_t i = 0; i < chain.deltas.size(); ++i) {
      REQUIRE((apply_delta(chain.deltas[i], {chain.files[i]}) == chain.files[i + 1].bytes));
    }
    for (const Run& run : all_runs()) {
      for (std::size_t from : {0, 2}) {
        for (std::size_t to = from; to < chain.files.size(); to += 2) {
          REQUIRE((written(chain.version(from, to, run), run.threads) == chain.files[to].bytes));
        }
      }
    }
  }
}

TEST_CASE("that what a rebuilt file is made of was written to meanwhile is noticed") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  const Chain chain(2, false, random);
  const ScratchDirectory scratch;
  put_file(scratch / "base", chain.files[0].bytes);
  std::vector<std::shared_ptr<const RebuiltFile>> steps = {
      RebuiltFile::from_file(std::make_shared<File>(File::open(scratch / "base")))};
  for (const Bytes& delta : chain.deltas)
    steps.push_back(RebuiltFile::from_delta(open_delta(delta), {steps.back()}, *Run().engine));
  for (const auto& step : steps) CHECK(fault_of([&] { step->check_unchanged(); }) == std::nullopt);
  put_file(scratch / "base", "shorter");
  for (const auto& step : steps) CHECK(fault_of([&] { step->check_unchanged(); }) == Fault::local);
}

TEST_CASE("a rebuilt file reads at any offset and length as the whole does") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  for (const bool keeps_layout : {true, false}) {
    const Chain chain(3, keeps_layout, random);
    const Bytes& whole = chain.files.back().bytes;
    const FileVersion version = chain.version(0, 3);
    REQUIRE(version.bytes().size_bytes() == whole.size());
    const auto check = [&](std::uint64_t offset, std::uint64_t length) {
      Bytes part(length);
      version.bytes().read_at(offset, part);
      if (!std::equal(part.begin(), part.end(), whole.begin() + static_cast<std::ptrdiff_t>(offset))) {
        FAIL("offset ", offset, ", length ", length);
      }
    };
    check(0, whole.size());
    for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{1}, whole.size() / 2, whole.size() - 1}) {
      check(offset, 0);
      check(offset, 1);
    }
    check(whole.size(), 0);
    Parts parts(whole.size());
    for (int i = 0; i < 600; ++i) {
      const auto [offset, length] = parts.next(random, i % 3 == 0 ? 16 : i % 3 == 1 ? 5'000 : 400'000);
      check(offset, length);
    }
  }
}

TEST_CASE("a rebuilt file that lies in place patches any part of its origin") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  const Chain chain(2, true, random);
  const FileVersion version = chain.version(0, 2);
  REQUIRE(version.rebuilt->in_place_origin() == version.origins.front().file.get());
  Parts parts(chain.files[0].bytes.size());
  for (int i = 0; i < 300; ++i) {
    const auto [offset, length] = parts.next(random, 300'000);
    Bytes part(length);
    version.rebuilt->in_place_origin()->read_at(offset, part);
    version.rebuilt->patch(offset, part);
    REQUIRE(std::equal(part.begin(), part.end(), chain.files[2].bytes.begin() + static_cast<std::ptrdiff_t>(offset)));
  }
}

TEST_CASE("the rest of a block is taken from the part that was made last, and from nothing else") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  const Chain chain(2, true, random);
  const FileVersion version = chain.version(0, 2);
  const auto check = [&](std::uint64_t begin, std::uint64_t end) {
    Bytes part(end - begin);
    version.rebuilt->in_place_origin()->read_at(begin, part);
    version.rebuilt->patch(begin, part);
    REQUIRE(std::equal(part.begin(), part.end(), chain.files[2].bytes.begin() + static_cast<std::ptrdiff_t>(begin)));
  };
  for (const Tensor& tensor : version.rebuilt->header().tensors()) {
    const std::uint64_t begin = tensor.begin;
    const std::uint64_t end = tensor.end;
    check(begin + 10, begin + 20);
    check(begin + 20, begin + 40);
    check(begin + 5, begin + 15);
    // Whole blocks up to the last: the part that was made before says nothing of it.
    check(begin, end);
    check(end - 7, end);
    check(end - 9, end - 5);
    check(end - 5, end);
  }
}

TEST_CASE("a batch that is no coding is refused where its blocks are asked for, and by their name") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  for (const std::size_t damaged : {0, 1}) {
    Chain chain(2, true, random);
    const auto delta = open_delta(chain.deltas[damaged]);
    const DeltaEntry& entry = *delta->find("t.long");
    const DeltaEntry::Place place = entry.place_of(4);
    REQUIRE(entry.place_of(0).end == place.begin);
    REQUIRE(entry.place_of(8).begin == place.end);
    std::fill(chain.deltas[damaged].begin() + static_cast<std::ptrdiff_t>(place.begin),
              chain.deltas[damaged].begin() + static_cast<std::ptrdiff_t>(place.end), std::uint8_t{0});
    for (const Run& run : all_runs()) {
      const FileVersion version = chain.version(0, 2, run);
      const std::uint64_t begin = version.rebuilt->header().find("t.long")->begin;
      const auto read = [&](std::uint64_t first_block, std::uint64_t blocks) {
        const std::uint64_t offset = begin + first_block * 2 * k_block_elements;
        const auto size_bytes =
            std::min<std::uint64_t>(blocks * 2 * k_block_elements, version.identity.size_bytes - offset);
        Bytes part(size_bytes);
        if (run.engine->device() == nullptr) {
          version.bytes().read_at(offset, part);
        } else {
          part = read_on_device(*version.rebuilt, offset, size_bytes);
        }
        const auto expected = chain.files[2].bytes.begin() + static_cast<std::ptrdiff_t>(offset);
        return std::equal(part.begin(), part.end(), expected);
      };
      for (int again = 0; again < 2; ++again) {
        CHECK(read(0, 4));
        CHECK(fault_of([&] { read(0, 6); }) == Fault::corrupt);
        CHECK(message_of([&] { read(0, 6); }).find(": tensor \"t.long\", block 4: ") != std::string::npos);
        CHECK(read(2, 2));
        CHECK(read(8, 2));
      }
    }
  }
}

TEST_CASE("many threads may read one rebuilt file") {
  std::mt19937_64 random(seed());
  const Chain chain(2, false, random);
  const FileVersion version = chain.version(0, 2, {&best_engine()});
  std::atomic<int> wrong = 0;
  {
    std::vector<std::jthread> threads;
    for (unsigned thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&, thread] {
        std::mt19937_64 own(seed() + thread);
        for (int i = 0; i < 30; ++i) {
          const std::uint64_t offset = own() % chain.files[2].bytes.size();
          Bytes part(std::min<std::uint64_t>(200'000, chain.files[2].bytes.size() - offset));
          version.bytes().read_at(offset, part);
          const auto expected = chain.files[2].bytes.begin() + static_cast<std::ptrdiff_t>(offset);
          if (!std::equal(part.begin(), part.end(), expected)) ++wrong;
        }
      });
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("many threads that write one file leave nothing out") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  const std::vector<TestTensor> tensors = {random_tensor("t", {"BF16", 16}, 12'000'000, random)};  // six segments
  const PlacedFile base{"model.safetensors", safetensors_file(tensors)};
  const PlacedFile next{base.path, safetensors_file(with_changes(tensors, 0.01, random))};
  const FileVersion version = version_of(make_delta({base}, next, {&best_engine()}).bytes, {base}, {&best_engine()});
  for (const unsigned threads : {2, 3, 8}) {
    for (int again = 0; again < 4; ++again) {
      CAPTURE(threads);
      REQUIRE((written(version, threads) == next.bytes));
    }
  }
}

}  // namespace wdelta
