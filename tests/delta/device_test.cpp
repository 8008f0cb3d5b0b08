// SPDX-License-Identifier: Apache-2.0
#include "delta/deltas.hpp"
#include "engine/cuda/emulated_device.hpp"
#include "testing/fault.hpp"
#include "testing/host_device.hpp"
#include "testing/scratch.hpp"

#include <doctest/doctest.h>

namespace wdelta {

using namespace testing;

namespace {

constexpr DtypeBits k_bf16_bits = {"BF16", 16};
constexpr std::uint64_t k_segment_elements = Blake3Tree::k_segment_bytes / 2;

std::vector<TestTensor> several_segments(std::mt19937_64& random) {
  std::vector<TestTensor> tensors;
  tensors.push_back(weights("embedding", 2 * k_segment_elements + 64 * 100, random));
  tensors.push_back(random_tensor("norm", {"F32", 32}, 1000, random));
  tensors.push_back(weights("up", k_segment_elements / 2, random));
  tensors.push_back(weights(std::string(k_used_in_part), k_segment_elements, random));
  tensors.push_back(random_tensor("scales", {"F32", 32}, 300'001, random));
  tensors.push_back(random_tensor("codes", {"U8", 8}, 700'003, random));
  tensors.push_back(random_tensor("steps", {"I64", 64}, 70'000, random));
  tensors.push_back({"biases", "BF16", {200'000}, Bytes(400'000)});
  tensors.push_back(weights("down", k_segment_elements, random));
  return tensors;
}

PlacedFile file_of(const std::vector<TestTensor>& tensors, std::size_t padding = 0) {
  return {"m.safetensors", safetensors_file(tensors, {}, padding)};
}

/// A file that lies on the device, as that of a trainer does.
class FileOnDevice final : public ByteReader, public DeviceReadable {
 public:
  FileOnDevice(Device& device, PlacedFile file)
      : device_(&device), file_(std::move(file)), memory_(device.allocate(file_.bytes.size())) {
    const auto stream = device.make_stream();
    stream->upload(memory_->begin(), file_.bytes.data(), file_.bytes.size());
    stream->wait();
  }

  std::uint64_t size_bytes() const override { return file_.bytes.size(); }
  void read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const override {
    read_bytes_ += bytes.size();
    std::copy_n(file_.bytes.data() + offset, bytes.size(), bytes.data());
  }
  const std::string& name() const override { return file_.path; }
  bool is_on(const Device& device) const override { return &device == device_; }
  void read_to_device(std::uint64_t offset, void* to, std::size_t size_bytes, DeviceStream& stream) const override {
    stream.copy(to, static_cast<const std::uint8_t*>(memory_->begin()) + offset, size_bytes);
  }
  /// By the host.
  std::uint64_t read_bytes() const { return read_bytes_; }

 private:
  Device* device_;
  PlacedFile file_;
  std::unique_ptr<DeviceMemory> memory_;
  mutable std::atomic<std::uint64_t> read_bytes_ = 0;
};

/// Of files that lie on the engine's device, where segments are worked on some at a time.
Bytes delta_on_device(const std::vector<PlacedFile>& base, const PlacedFile& next, const Run& run) {
  Device& device = *run.engine->device();
  std::vector<BaseFile> files;
  for (const PlacedFile& file : base)
    files.push_back({file.path, RebuiltFile::from_file(std::make_shared<FileOnDevice>(device, file))});
  return make_delta(files, next.path, std::make_shared<FileOnDevice>(device, next), run).bytes;
}

void require_same_delta(const std::vector<PlacedFile>& base, const PlacedFile& next) {
  const MadeDelta expected = make_delta(base, next);
  for (const unsigned threads : {1U, 5U}) {
    CAPTURE(threads);
    const MadeDelta made = make_delta(base, next, {&host_device_engine(), threads});
    REQUIRE((made.bytes == expected.bytes));
    REQUIRE(made.change.description.change_count == expected.change.description.change_count);
    REQUIRE((apply_delta(made.bytes, base, {&host_device_engine(), threads}) == next.bytes));
    REQUIRE((delta_on_device(base, next, {&host_device_engine(), threads}) == expected.bytes));
  }
}

}  // namespace

TEST_CASE("a device makes the deltas that a processor makes, of files of several segments") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  const auto tensors = several_segments(random);
  const PlacedFile base = file_of(tensors);
  for (const double density : {0.0, 0.00005, 0.01, 0.2, 0.9}) {
    CAPTURE(density);
    require_same_delta({base}, file_of(with_changes(tensors, density, random)));
  }
}

TEST_CASE("the kernels of devices, run by the host, make the deltas that a processor makes, and apply them") {
  static EmulatedDevice device;
  static const DeviceAnswer answer{&device, "emulated"};
  Engine engine = best_engine();
  engine.name = "emulated device";
  engine.find_device = []() -> const DeviceAnswer& { return answer; };
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  const std::vector<TestTensor> tensors = {
      weights("odd", 70'000, random), random_tensor("scales", {"F32", 32}, 40'001, random),
      weights(std::string(k_used_in_part), 400'000, random), weights("large", 2 * k_segment_elements + 100'000, random),
      random_tensor("codes", {"U8", 8}, 140'003, random)};
  const PlacedFile base = file_of(tensors, 1);
  for (const double density : {0.001, 0.1}) {
    CAPTURE(density);
    const PlacedFile next = file_of(with_changes(tensors, density, random), 8);
    const MadeDelta expected = make_delta({base}, next);
    for (const unsigned threads : {1U, 3U}) {
      const Run run{&engine, threads};
      const std::uint64_t launches = device.launches();
      REQUIRE((make_delta({base}, next, run).bytes == expected.bytes));
      CHECK(device.launches() > launches);
      REQUIRE((delta_on_device({base}, next, run) == expected.bytes));
      REQUIRE((apply_delta(expected.bytes, {base}, run) == next.bytes));
    }
  }
}

TEST_CASE("a device makes the same deltas whatever runs its segments are in") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  auto tensors = several_segments(random);
  tensors.push_back(weights("head", 7 * k_segment_elements, random));
  const PlacedFile base = file_of(tensors);
  const PlacedFile next = file_of(with_changes(tensors, 0.001, random));
  for (const SegmentRuns runs : {SegmentRuns{1, 1}, SegmentRuns{4, 1}, SegmentRuns{6, 1}, SegmentRuns{8, 2}}) {
    CAPTURE(runs.longest);
    const Bytes expected = make_delta({base}, next, {.runs = runs}).bytes;
    for (Run run : all_runs()) {
      if (run.engine->device() == nullptr) continue;
      CAPTURE(run.engine->name);
      CAPTURE(run.threads);
      run.runs = runs;
      REQUIRE((delta_on_device({base}, next, run) == expected));
    }
  }
}

TEST_CASE("a device makes the same deltas where tensors are shifted, moved, new, or gone") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  const auto tensors = several_segments(random);
  const PlacedFile base = file_of(tensors);
  auto next = with_changes(tensors, 0.01, random);
  for (const std::size_t padding : {1, 8, 40'000, 100'000}) {
    CAPTURE(padding);
    require_same_delta({base}, file_of(next, padding));
    require_same_delta({file_of(tensors, padding)}, file_of(next));
  }
  std::shuffle(next.begin(), next.end(), random);
  require_same_delta({base}, file_of(next));
  next.push_back(weights("new", 64 * 1500, random));
  next.erase(next.begin() + 2);
  require_same_delta({base}, file_of(next));
  PlacedFile other = file_of({weights("else", k_segment_elements, random)});
  other.path = "n.safetensors";
  require_same_delta({other, base}, file_of(next));
  require_same_delta({}, file_of(next));
  require_same_delta({base}, file_of({next.front()}));
}

TEST_CASE("files of one segment, and of less, are hashed by the host") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  for (const std::uint64_t count : {0, 64, 64 * 1000, 64 * 32'768 - 500, 64 * 32'768}) {
    CAPTURE(count);
    const std::vector<TestTensor> tensors = {weights("w", count, random)};
    require_same_delta({file_of(tensors)}, file_of(with_changes(tensors, 0.01, random)));
  }
}

TEST_CASE("files that are no safetensors files take a device too, where it is of use") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  const PlacedFile base{"m.bin", weights("w", 3 * k_segment_elements + 7 * 64, random).bytes};
  const PlacedFile next{"m.bin", with_changes(base.bytes, 2, 0.01, random)};
  for (const BlockChoice choice : {BlockChoice::automatic, BlockChoice::unknown_bytes, BlockChoice::classed}) {
    const Bytes expected = make_opaque_delta({base}, next, "BF16", {&engines().back(), 1, choice}).bytes;
    for (const unsigned threads : {1U, 4U}) {
      const Run run{&host_device_engine(), threads, choice};
      REQUIRE((make_opaque_delta({base}, next, "BF16", run).bytes == expected));
      REQUIRE((apply_delta(expected, {base}, run) == next.bytes));
    }
  }
}

TEST_CASE("of what a device compares only changes come home, and it hashes what it can") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  const std::vector<TestTensor> tensors = {weights("w", 6 * k_segment_elements, random)};
  const PlacedFile base = file_of(tensors);
  const PlacedFile next = file_of(with_changes(tensors, 0.01, random));
  DeviceTraffic& traffic = host_device().traffic();
  traffic.forget();
  const MadeDelta made = make_delta({base}, next, {&host_device_engine(), 2});
  const std::uint64_t changes = made.change.description.change_count;
  CHECK(traffic.uploaded_bytes < base.bytes.size() + next.bytes.size() + 14 * (std::uint64_t{256} << 10));
  // Positions, steps and ranks of two bytes each; contexts and classes of one.
  CHECK(traffic.downloaded_bytes >= 8 * changes);
  CHECK(traffic.downloaded_bytes < 8 * changes + 20'000);
  CHECK(traffic.hashed_bytes == 12 * Blake3Tree::k_segment_bytes);
}

namespace {

/// A file through some steps. Up to the last, each element that moves goes where its column says, so that deltas have
/// sign masks; some elements go anywhere.
struct Steps {
  std::vector<PlacedFile> files;
  std::vector<Bytes> deltas;

  Steps(std::size_t steps, std::mt19937_64& random) {
    auto tensors = several_segments(random);
    files.push_back(file_of(tensors));
    while (files.size() <= steps) {
      for (TestTensor& tensor : tensors) {
        if (tensor.shape.size() == 2) {
          for (std::size_t i = random() % 64; i < tensor.bytes.size() / 2; i += 1 + random() % 128) {
            const bool is_negative = tensor.bytes[2 * i + 1] >= 0x80;
            const bool is_up = i % k_row_elements < k_row_elements / 2;
            tensor.bytes[2 * i] = static_cast<std::uint8_t>(tensor.bytes[2 * i] + (is_up != is_negative ? 1 : -1));
          }
        } else {
          tensor = with_changes({tensor}, 0.02, random).front();
        }
      }
      files.push_back(file_of(tensors));
      deltas.push_back(make_delta({files[files.size() - 2]}, files.back(), {&best_engine()}).bytes);
    }
  }

  FileVersion version(std::size_t from, std::size_t to, const Engine& engine) const {
    FileVersion version = whole_version({files[from].path, files[from].bytes.size(), blake3(files[from].bytes)},
                                        reader_of(files[from]), Fault::base_mismatch);
    for (std::size_t i = from; i < to; ++i) version = delta_version(open_delta(deltas[i]), {version}, engine);
    return version;
  }
};

}  // namespace

TEST_CASE("a device takes blocks through a chain of ten deltas, and squashes it to the delta that a processor makes") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  const Steps steps(10, random);
  DeviceTraffic& traffic = host_device().traffic();
  for (const unsigned threads : {1U, 4U}) {
    traffic.forget();
    REQUIRE((written(steps.version(0, 10, host_device_engine()), threads) == steps.files[10].bytes));
    // Of bf16 all but the blocks that segments cut, of the others all that are large enough.
    CHECK(traffic.patched_blocks > 10 * 60);
    CHECK(traffic.masked_blocks > 10 * 60);
    // One launch for each step of a segment, and one more where a tensor of another type begins.
    CHECK(traffic.patches <= 10 * (steps.files[10].bytes.size() / Blake3Tree::k_segment_bytes + 1 + 3));
    REQUIRE((written(steps.version(3, 5, host_device_engine()), threads) == steps.files[5].bytes));
  }
  write_version(steps.version(2, 6, host_device_engine()), nullptr, SilentExecution(2));

  const auto squashed = [&](const Engine& engine) {
    const FileVersion base = steps.version(0, 3, engine);
    const FileVersion next = steps.version(0, 9, engine);
    return make_delta({{base.identity.path, base.rebuilt}}, next.identity.path, next.rebuilt, {&engine, 2}).bytes;
  };
  traffic.forget();
  const Bytes made = squashed(host_device_engine());
  CHECK(traffic.patched_blocks > 12 * 60);
  REQUIRE((made == squashed(engines().back())));
}

TEST_CASE("a rebuilt file is read on a device at any offset and length") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  const Steps steps(2, random);
  const FileVersion version = steps.version(0, 2, host_device_engine());
  const Bytes& whole = steps.files[2].bytes;
  REQUIRE(version.rebuilt->is_on(host_device()));
  CHECK_FALSE(version.rebuilt->is_on(HostDevice()));
  for (int i = 0; i < 40; ++i) {
    const std::uint64_t offset = i == 0 ? 0 : random() % whole.size();
    const std::uint64_t most = i % 3 == 0 ? whole.size() : i % 3 == 1 ? 1000 : 600'000;
    const std::size_t size_bytes = std::min<std::uint64_t>(1 + random() % most, whole.size() - offset);
    const Bytes read = read_on_device(*version.rebuilt, offset, size_bytes);
    if (!std::equal(read.begin(), read.end(), whole.begin() + static_cast<std::ptrdiff_t>(offset)))
      FAIL("offset ", offset, ", length ", size_bytes);
  }
}

TEST_CASE("a device refuses what a processor refuses, in the same words") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  const std::vector<TestTensor> tensors = {weights("w", k_segment_elements, random)};
  const PlacedFile base = file_of(tensors);
  const Bytes delta = make_delta({base}, file_of(with_changes(tensors, 0.01, random))).bytes;
  // Elements of a base that is another one are in other classes.
  PlacedFile wrong = base;
  std::fill(wrong.bytes.end() - 4'000'000, wrong.bytes.end(), std::uint8_t{1});
  const auto told = [](auto&& act) {
    try {
      act();
    } catch (const Error& error) {
      CHECK(error.fault() == Fault::corrupt);
      return error.object() + ": " + error.what();
    }
    return std::string("no error");
  };
  const auto file_on = [&](const Engine& engine) {
    return RebuiltFile::from_delta(open_delta(delta), {RebuiltFile::from_file(reader_of(wrong))}, engine);
  };
  Bytes bytes(base.bytes.size());
  const std::string by_processor = told([&] { file_on(best_engine())->read_at(0, bytes); });
  CHECK(by_processor.find("outside its class") != std::string::npos);
  CHECK(told([&] { read_on_device(*file_on(host_device_engine()), 0, bytes.size()); }) == by_processor);
  for (const Engine* engine : {&best_engine(), &host_device_engine()}) {
    try {
      apply_delta(delta, {wrong}, {engine});
      FAIL("no error");
    } catch (const Error& error) {
      CHECK(error.fault() == Fault::base_mismatch);
    }
  }
}

TEST_CASE("files that lie on the device are compared there, and little but changes comes home") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  const std::vector<TestTensor> tensors = {weights("w", 4 * k_segment_elements, random)};
  const PlacedFile base = file_of(tensors);
  const PlacedFile next = file_of(with_changes(tensors, 0.01, random));
  const auto base_on_device = std::make_shared<FileOnDevice>(host_device(), base);
  const auto next_on_device = std::make_shared<FileOnDevice>(host_device(), next);
  DeviceTraffic& traffic = host_device().traffic();
  traffic.forget();
  const MadeDelta made = make_delta({{base.path, RebuiltFile::from_file(base_on_device)}}, next.path, next_on_device,
                                    {&host_device_engine(), 2});
  CHECK((made.bytes == make_delta({base}, next).bytes));
  CHECK(traffic.uploaded_bytes < 20'000);
  // In each segment two blocks of the base are looked at to choose classes, and of few changes next is too; the ends of
  // both files are hashed by the host.
  CHECK(traffic.downloaded_bytes < 8 * made.change.description.change_count + 5 * 4 * 131'072 + 20'000);
  // Headers, and what is looked at to find where tensors come from.
  CHECK(base_on_device->read_bytes() + next_on_device->read_bytes() < 20'000);
}

TEST_CASE("memory of a device is bounded, and given back") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  DeviceTraffic& traffic = host_device().traffic();
  DeviceTraffic& pinned = host_device().pinned();
  const Run run{&host_device_engine(), 2};
  const auto expect_bounded = [&](std::int64_t least_bytes, std::int64_t batch_bytes, const auto& work) {
    { const DeviceMemories::User last(host_device().memories()); }
    traffic.most_held_bytes = pinned.most_held_bytes = 0;
    {
      const DeviceMemories::User user(host_device().memories());
      work();
    }
    CHECK(traffic.held_bytes == 0);
    CHECK(pinned.held_bytes == 0);
    // Two that are coded, and two ahead.
    CHECK(traffic.most_held_bytes <= least_bytes + 4 * batch_bytes);
    CHECK(pinned.most_held_bytes <= 4 * (std::int64_t{32} << 20));
  };
  for (const DtypeBits dtype : {DtypeBits{"U8", 8}, k_bf16_bits, DtypeBits{"F32", 32}}) {
    const std::vector<TestTensor> tensors = {
        random_tensor("w", dtype, 8 * k_segment_elements * 16 / dtype.bits, random)};
    const PlacedFile base = file_of(tensors);
    auto next = with_changes(tensors, 0.2, random);
    std::ranges::reverse(next);
    const PlacedFile changed = file_of(next);
    expect_bounded(0, std::int64_t{64} << 20,
                   [&] { apply_delta(make_delta({base}, changed, run).bytes, {base}, run); });
    expect_bounded(static_cast<std::int64_t>(base.bytes.size() + changed.bytes.size()), std::int64_t{2 * 64} << 20,
                   [&] { delta_on_device({base}, changed, run); });
  }
}

TEST_CASE("where little memory of a device is free, fewer work there, and make the same") {
  std::mt19937_64 random(seed());
  CAPTURE(seed());
  const std::vector<TestTensor> tensors = {weights("w", 12 * k_segment_elements, random)};
  const PlacedFile base = file_of(tensors);
  const PlacedFile next = file_of(with_changes(tensors, 0.01, random));
  const Bytes expected = make_delta({base}, next).bytes;
  const Run run{&host_device_engine(), 12};
  DeviceTraffic& traffic = host_device().traffic();
  const std::int64_t before = traffic.room_bytes;
  const RoomOfHostDevice room(before);
  for (const bool is_kept : {false, true}) {
    CAPTURE(is_kept);
    { const DeviceMemories::User last(host_device().memories()); }
    const DeviceMemories::User user(host_device().memories());
    // What another diff gave back is room too.
    if (is_kept) delta_on_device({base}, next, run);
    const auto files_bytes = static_cast<std::int64_t>(base.bytes.size() + next.bytes.size());
    traffic.room_bytes = traffic.held_bytes + files_bytes + (is_kept ? 1 << 20 : 128 << 20);
    const Bytes made = delta_on_device({base}, next, run);
    const Bytes applied = apply_delta(made, {base}, run);
    traffic.room_bytes = before;
    REQUIRE((made == expected));
    REQUIRE((applied == next.bytes));
  }
}

TEST_CASE("a device that is lost is an error with a way out, and leaves nothing") {
  std::mt19937_64 random(seed());
  const std::vector<TestTensor> tensors = {weights("w", 4 * k_segment_elements, random)};
  const PlacedFile base = file_of(tensors);
  const PlacedFile next = file_of(with_changes(tensors, 0.01, random));
  DeviceTraffic& traffic = host_device().traffic();
  for (const std::uint64_t waits : {0, 1, 2, 5, 9}) {
    CAPTURE(waits);
    std::optional<DeviceMemories::User> user(std::in_place, host_device().memories());
    traffic.forget();
    traffic.waits_until_lost = waits;
    try {
      make_delta({base}, next, {&host_device_engine(), 2});
      FAIL("no error");
    } catch (const Error& error) {
      CHECK(error.fault() == Fault::local);
      CHECK(error.hint().find("--engine auto") != std::string::npos);
    }
    traffic.waits_until_lost = UINT64_MAX;
    user.reset();
    CHECK(traffic.held_bytes == 0);
  }
}

}  // namespace wdelta
