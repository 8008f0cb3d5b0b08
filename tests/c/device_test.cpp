// SPDX-License-Identifier: Apache-2.0
#include "base/reader_digest.hpp"
#include "c/device_tensor.hpp"
#include "c/host_memories.hpp"
#include "c/joined_reader.hpp"
#include "c/memory_copy.hpp"
#include "c/reference_copy.hpp"
#include "c/stretches.hpp"
#include "c/tensor_fill.hpp"
#include "checkpoint/tensor_layout.hpp"
#include "repo/world.hpp"
#include "testing/fault.hpp"
#include "testing/host_device.hpp"
#include "testing/random.hpp"

#include <atomic>
#include <cstdint>
#include <doctest/doctest.h>
#include <memory>
#include <random>
#include <span>
#include <vector>

namespace wdelta {

using namespace testing;

namespace {

using Bytes = std::vector<std::uint8_t>;

GivenTensor tensor_of(std::string name, Bytes& bytes) {
  GivenTensor tensor;
  tensor.shape = {std::move(name), dtype_named("BF16"), {bytes.size() / 2}};
  tensor.size_bytes = bytes.size();
  tensor.elements = bytes.data();
  tensor.device = WDELTA_CUDA;
  return tensor;
}

std::shared_ptr<const ByteReader> on_device(std::string name, Bytes& bytes) {
  return device_reader_of(tensor_of(std::move(name), bytes), host_device());
}

Bytes all_on_device(const DeviceReadable& reader, std::uint64_t offset, std::size_t size_bytes) {
  Bytes read(size_bytes);
  const auto stream = host_device().make_stream();
  reader.read_to_device(offset, read.data(), size_bytes, *stream);
  stream->wait();
  return read;
}

// A checkpoint of tensors whose copies are on the device.
MemoryFiles file_on_device(std::vector<Bytes>& tensors) {
  std::vector<TensorShape> shapes;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    shapes.push_back({"t" + std::to_string(i), dtype_named("BF16"), {tensors[i].size() / 2}});
  FileLayout layout = lay_out(shapes, {}).files.front();
  const auto file = std::make_shared<JoinedReader>(layout.front, layout.path);
  for (const FileLayout::Part& part : layout.parts) {
    file->append(
        keep_on_device(*on_device(shapes[part.tensor].name, tensors[part.tensor]), host_device(), SilentExecution(2)));
  }
  return {{layout.path, file}};
}

}  // namespace

TEST_CASE("a copy on a device is what it was made of, and what lies on that device does not leave it") {
  std::mt19937_64 random(3);
  DeviceTraffic& traffic = host_device().traffic();
  for (const std::size_t size : {std::size_t{0}, std::size_t{2}, std::size_t{1} << 20, (std::size_t{9} << 20) + 6}) {
    Bytes bytes = random_bytes(random, size);
    const Bytes before = bytes;
    traffic.forget();
    const auto copy = keep_on_device(*on_device("t", bytes), host_device(), SilentExecution(2));
    CHECK(traffic.uploaded_bytes + traffic.downloaded_bytes == 0);
    for (std::uint8_t& byte : bytes) byte ^= 1;
    CHECK((read_all(*copy) == before));
    CHECK((all_on_device(dynamic_cast<const DeviceReadable&>(*copy), 0, size) == before));
    const MemoryReader from_host(bytes, "t");
    copy->overwrite(from_host, SilentExecution(2));
    CHECK((read_all(*copy) == bytes));
    CHECK((read_all(*keep_on_host(*copy, SilentExecution(2))) == bytes));
  }
}

TEST_CASE("a device copies by itself to memory of the host, which is pinned once for all copies that lie there") {
  std::mt19937_64 random(testing::seed());
  CAPTURE(testing::seed());
  HostDevice device;
  DeviceTraffic& traffic = device.traffic();
  const std::size_t large = 2 * k_stretch_bytes + 6;
  for (const bool can_pin : {false, true}) {
    traffic.can_pin = can_pin;
    const auto memories = std::make_shared<HostMemories>();
    for (int push = 0; push < 3; ++push) {
      for (const std::size_t size : {std::size_t{0}, std::size_t{2}, k_stretch_bytes - 1, large}) {
        CAPTURE(size);
        Bytes bytes = random_bytes(random, size);
        const Bytes before = bytes;
        const auto source = device_reader_of(tensor_of("t", bytes), device);
        traffic.forget();
        const auto copy = keep_on_host(*source, SilentExecution(2), {memories, &device});
        if (size == large) CHECK((traffic.waits == 1) == can_pin);
        for (std::uint8_t& byte : bytes) byte ^= 1;
        CHECK((read_all(*copy) == before));
        copy->overwrite(*source, SilentExecution(2));
        CHECK((read_all(*copy) == bytes));
        CHECK(traffic.pinned_bytes == (can_pin && (size == large || push > 0) ? large : 0));
      }
    }
  }
  CHECK(traffic.pinned_bytes == 0);
}

TEST_CASE("memory that copies had is given out again, and freed once a push had no use for it") {
  constexpr std::size_t size = k_stretch_bytes;
  HostDevice device;
  const std::atomic<std::uint64_t>& pinned_bytes = device.traffic().pinned_bytes;
  HostMemories memories;
  const auto taken = [&] {
    auto memory = memories.take(size);
    CHECK(memory->is_pinned_for(device, SilentExecution(2)));
    return memory;
  };
  auto one = taken();
  auto two = taken();
  CHECK(pinned_bytes == 2 * size);
  const std::uint8_t* const place = one->bytes().data();
  memories.give_back(std::move(one));
  memories.give_back(std::move(two));
  memories.free_unused();
  CHECK(memories.take(size + 1)->bytes().size() == size + 1);
  CHECK(pinned_bytes == 2 * size);
  one = taken();
  CHECK(one->bytes().data() == place);
  CHECK(pinned_bytes == 2 * size);
  memories.give_back(std::move(one));
  memories.free_unused();  // the one that nobody took
  CHECK(pinned_bytes == size);
  CHECK(taken()->bytes().data() == place);
  CHECK(pinned_bytes == 0);
  memories.give_back(taken());
  memories.free_unused();
  CHECK(pinned_bytes == size);
  memories.free_unused();
  CHECK(pinned_bytes == 0);
  memories.give_back(taken());
  memories.free_all();
  CHECK(pinned_bytes == 0);
}

TEST_CASE("a file of parts on the host and on a device has the same bytes on both, for every range") {
  std::mt19937_64 random(4);
  Bytes first = random_bytes(random, 30), second = random_bytes(random, 2), third = random_bytes(random, 44);
  JoinedReader file(random_bytes(random, 24), "f");
  CHECK_FALSE(file.is_on(host_device()));
  file.append(std::make_shared<MemoryReader>(first, "a"));
  file.append(on_device("b", second));
  file.append(std::make_shared<MemoryReader>(Bytes(), "empty"));
  file.append(on_device("c", third));
  CHECK(file.is_on(host_device()));
  const Bytes all = read_all(file);
  REQUIRE(all.size() == 100);
  for (std::size_t begin = 0; begin <= all.size(); ++begin) {
    for (std::size_t end = begin; end <= all.size(); ++end) {
      const Bytes wanted(all.begin() + static_cast<std::ptrdiff_t>(begin),
                         all.begin() + static_cast<std::ptrdiff_t>(end));
      Bytes read(end - begin);
      file.read_at(begin, read);
      REQUIRE((read == wanted));
      REQUIRE((all_on_device(file, begin, end - begin) == wanted));
    }
  }
}

TEST_CASE("a target on a device is filled where it is") {
  std::mt19937_64 random(5);
  Bytes bytes(1000);
  const Bytes wanted = random_bytes(random, bytes.size());
  const auto target = device_target_of(tensor_of("t", bytes), host_device());
  target->write_at(0, std::span(wanted).first(300));
  target->write_at(300, std::span(wanted).subspan(300));
  CHECK((bytes == wanted));
}

TEST_CASE("a tensor on a device with gaps, turned round or backwards, is read and filled as one on the host") {
  std::mt19937_64 random(6);
  const std::uint64_t shape[] = {7, 5};
  const std::int64_t all_strides[][2] = {{16, 1}, {1, 7}, {-5, 1}, {2, 33}};
  for (const auto& strides : all_strides) {
    const Strided strided(shape, strides, 2, "t");
    Bytes memory = random_bytes(random, 2048);
    GivenTensor tensor = tensor_of("t", memory);
    tensor.elements = memory.data() + 1024;
    tensor.size_bytes = 70;
    tensor.strided = strided;
    Bytes wanted(70);
    strided.gather(tensor.elements, 0, wanted);
    const auto reader = device_reader_of(tensor, host_device());
    CHECK((read_all(*reader) == wanted));
    Bytes part(9);
    reader->read_at(31, part);
    CHECK(std::equal(part.begin(), part.end(), wanted.begin() + 31));

    const Bytes filling = random_bytes(random, 70);
    Bytes filled = memory;
    strided.scatter(filling, 0, filled.data() + 1024);
    const auto target = device_target_of(tensor, host_device());
    target->write_at(0, std::span(filling).first(33));
    target->write_at(33, std::span(filling).subspan(33));
    CHECK((memory == filled));
  }
}

// Tensors to be filled, with other bytes around them.
class FilledTensors {
 public:
  static constexpr std::size_t k_margin = 64;
  enum class Place { device, device_with_gaps, host };

  FilledTensors(std::span<const Bytes> wanted, Place place) : wanted_(wanted) {
    for (const Bytes& bytes : wanted) memory_.emplace_back(2 * bytes.size() + 2 * k_margin, std::uint8_t{0x99});
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      GivenTensor tensor = tensor_of("t" + std::to_string(i), memory_[i]);
      tensor.elements += k_margin;
      tensor.size_bytes = wanted[i].size();
      if (place == Place::device_with_gaps) {
        const std::uint64_t shape[] = {wanted[i].size() / 2};
        const std::int64_t strides[] = {2};
        tensor.strided = Strided(shape, strides, 2, "t");
      }
      if (place == Place::host) tensor.device = WDELTA_HOST;
      targets_.push_back(place == Place::host ? target_of(tensor) : device_target_of(tensor, host_device()));
      strides_ = place == Place::device_with_gaps ? 2 : 1;
    }
  }
  std::shared_ptr<const TensorTarget> target(std::size_t i) const { return targets_[i]; }
  bool is_filled(std::size_t i) const {
    Bytes expected(memory_[i].size(), 0x99);
    for (std::size_t at = 0; at < wanted_[i].size(); ++at)
      expected[k_margin + at / 2 * 2 * strides_ + at % 2] = wanted_[i][at];
    return memory_[i] == expected;
  }

 private:
  std::span<const Bytes> wanted_;
  std::vector<Bytes> memory_;
  std::vector<std::shared_ptr<const TensorTarget>> targets_;
  std::size_t strides_ = 1;
};

// Fills tensors of a file that has `digest`, or only the one named t1, in the places by turns.
void check_fill(const ByteReader& file, const Digest& digest, std::span<const Bytes> wanted,
                std::initializer_list<FilledTensors::Place> places, bool only_t1 = false) {
  const SafetensorsHeader header = SafetensorsHeader::read(file);
  std::vector<FilledTensors> by_place;
  by_place.reserve(places.size());
  for (const auto place : places) by_place.emplace_back(wanted, place);
  std::vector<FilledPart> parts;
  std::vector<std::pair<const FilledTensors*, std::size_t>> filled;
  for (const Tensor& tensor : header.tensors()) {
    const auto index = static_cast<std::size_t>(tensor.name.back() - '0');
    if (only_t1 && index != 1) continue;
    const FilledTensors& tensors = by_place[parts.size() % by_place.size()];
    parts.push_back({tensor.begin, tensor.end, tensors.target(index)});
    filled.emplace_back(&tensors, index);
  }
  fill_tensors({&file, &digest, "file"}, parts, SilentExecution(3));
  for (const auto& [tensors, index] : filled) CHECK(tensors->is_filled(index));
}

TEST_CASE("tensors are filled with what a file has, wherever they lie") {
  std::mt19937_64 random(testing::seed());
  CAPTURE(testing::seed());
  std::vector<Bytes> tensors;
  for (const std::size_t size : {std::size_t{2} << 20, std::size_t{7'000'002}, std::size_t{600}})
    tensors.push_back(random_bytes(random, size));
  const MemoryFiles on_device = file_on_device(tensors);
  const ByteReader& there = *on_device.begin()->second;
  const MemoryReader here(read_all(there), "here");
  const Digest digest = digest_of(here, SilentExecution(1));
  Digest other = digest;
  other.bytes[0] ^= 1;
  using Place = FilledTensors::Place;
  std::uint64_t waits[2] = {};
  for (const bool can_pin : {false, true}) {
    host_device().traffic().can_pin = can_pin;
    for (const ByteReader* file : {&there, static_cast<const ByteReader*>(&here)}) {
      for (const bool only_t1 : {false, true}) {
        host_device().traffic().forget();
        check_fill(*file, digest, tensors, {Place::device}, only_t1);
        if (file == &here && !only_t1) waits[can_pin ? 1 : 0] = host_device().traffic().waits;
        check_fill(*file, digest, tensors, {Place::host}, only_t1);
        check_fill(*file, digest, tensors, {Place::device_with_gaps}, only_t1);
        check_fill(*file, digest, tensors, {Place::device, Place::host}, only_t1);
      }
      for (const Place place : {Place::device, Place::host})
        CHECK(fault_of([&] { check_fill(*file, other, tensors, {place}); }) == Fault::corrupt);
    }
  }
  // Straight out of the memory that pieces were read into, or by way of other memory.
  CHECK(waits[1] < waits[0] * 2 / 3);
  CHECK(host_device().traffic().pinned_bytes == 0);
}

TEST_CASE("a push from a device compares there, and what comes to the host is what changed") {
  constexpr std::uint64_t k_segment_bytes = std::uint64_t{4} << 20;
  std::mt19937_64 random(6);
  const World world;
  std::vector<Bytes> tensors;
  for (const std::size_t size : {std::size_t{32} << 20, std::size_t{600}, std::size_t{400} << 10})
    tensors.push_back(random_bytes(random, size));
  // Numbers as weights are, of a few exponents.
  for (Bytes& tensor : tensors) {
    for (std::size_t i = 1; i < tensor.size(); i += 2) tensor[i] = static_cast<std::uint8_t>(0x3a | (tensor[i] & 0x83));
  }
  PushOptions options;
  options.state_directory = world / "host";
  options.anchor = AnchorChoice::never;
  ReferenceCopy reference;
  for (int step = 0; step < 3; ++step) {
    const MemoryFiles files = file_on_device(tensors);
    std::vector<CheckpointFile> opened;
    for (const auto& [path, file] : files) {
      opened.push_back({path, file->size_bytes(), false, [file = file] { return file; }, std::nullopt, std::nullopt});
    }
    options.at_hand = reference.at_hand();
    Repository repository = world.repository();
    host_device().traffic().forget();
    const PushReport report = push(repository, Checkpoint("memory", std::move(opened)), {}, options,
                                   host_device_engine(), SilentExecution(2));
    CHECK(report.created);
    CHECK_FALSE(report.compared_with_repository);
    if (step > 0) {
      CHECK(report.kept.change_count > 0);
      // The end of a file that is no whole segment is hashed on the host.
      CHECK(host_device().traffic().downloaded_bytes.load() < 8 * report.kept.change_count + 2 * k_segment_bytes);
      CHECK(host_device().traffic().uploaded_bytes.load() < report.checkpoint_bytes / 20);
    }
    const Bytes wanted = read_all(*files.begin()->second);
    reference.keep(report.id, files);
    CHECK(reference.size_bytes() == report.checkpoint_bytes);
    world.pull("main", world / "out");
    CHECK((files_below(world / "out") == Files{{"model.safetensors", std::string(wanted.begin(), wanted.end())}}));
    for (Bytes& tensor : tensors) {
      for (std::size_t i = 0; i < tensor.size() / 200; ++i) tensor[random() % (tensor.size() / 2) * 2] ^= 1;
    }
  }
  CHECK(world.verify() == std::vector<std::string>());
}

}  // namespace wdelta
