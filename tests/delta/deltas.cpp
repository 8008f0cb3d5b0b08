// SPDX-License-Identifier: Apache-2.0
#include "delta/deltas.hpp"

#include "base/json.hpp"
#include "base/output_file.hpp"
#include "delta/container.hpp"
#include "testing/host_device.hpp"
#include "testing/scratch.hpp"

#include <algorithm>

namespace wdelta::testing {

std::shared_ptr<const ByteReader> reader_of(const PlacedFile& file) {
  return std::make_shared<MemoryReader>(file.bytes, file.path);
}

std::vector<Run> all_runs() {
  std::vector<Run> runs;
  for (const unsigned threads : {1u, 2u, 5u}) {
    for (const Engine& engine : engines()) {
      if (engine.usable()) runs.push_back({&engine, threads, BlockChoice::automatic});
    }
    runs.push_back({&host_device_engine(), threads, BlockChoice::automatic});
  }
  return runs;
}

MadeDelta make_delta(const std::vector<PlacedFile>& base, const PlacedFile& next, const Run& run) {
  std::vector<BaseFile> files;
  for (const PlacedFile& file : base) files.push_back({file.path, RebuiltFile::from_file(reader_of(file))});
  return make_delta(files, next.path, reader_of(next), run);
}

MadeDelta make_delta(const OrderedBase& base, const std::string& path, const std::shared_ptr<const ByteReader>& next,
                     const Run& run) {
  ScratchDirectory scratch;
  const SilentExecution execution(run.threads);
  MadeDelta made{{}, diff_file(base, path, next, scratch / "delta", run.coding(), *run.engine, execution)};
  made.change.delta->output.commit(Overwrite::no, Durability::cached);
  made.bytes = bytes_of(get_file(scratch / "delta"));
  return made;
}

MadeDelta make_opaque_delta(const std::vector<PlacedFile>& base, const PlacedFile& next, std::string_view dtype,
                            const Run& run) {
  ScratchDirectory scratch;
  const SilentExecution execution(run.threads);
  std::optional<OpaqueBase> file;
  if (!base.empty()) file = {base.front().path, reader_of(base.front())};
  MadeDelta made{{},
                 diff_opaque_file(file, next.path, reader_of(next), *dtype_named(dtype), scratch / "delta",
                                  run.coding(), *run.engine, execution)};
  made.change.delta->output.commit(Overwrite::no, Durability::cached);
  made.bytes = bytes_of(get_file(scratch / "delta"));
  return made;
}

std::shared_ptr<const DeltaReader> open_delta(const Bytes& delta) {
  return std::make_shared<DeltaReader>(DeltaReader::open(std::make_shared<MemoryReader>(delta, "delta")));
}

FileVersion version_of(const Bytes& delta, const std::vector<PlacedFile>& base, const Run& run) {
  const auto opened = open_delta(delta);
  opened->check_payload(SilentExecution());
  std::vector<FileVersion> versions;
  for (const FileIdentity& wanted : opened->description().base) {
    const auto file = std::ranges::find(base, wanted.path, &PlacedFile::path);
    if (file == base.end()) throw Error(Fault::base_mismatch, wanted.path, "not given to the test");
    versions.push_back(whole_version(wanted, reader_of(*file), Fault::base_mismatch));
  }
  return delta_version(opened, versions, *run.engine);
}

Bytes written(const FileVersion& version, unsigned threads) {
  ScratchDirectory scratch;
  OutputFile output(scratch / "out");
  write_version(version, &output, SilentExecution(threads));
  output.commit(Overwrite::no, Durability::cached);
  return bytes_of(get_file(scratch / "out"));
}

Bytes read_on_device(const RebuiltFile& file, std::uint64_t offset, std::size_t size_bytes) {
  Device& device = *file.engine()->device();
  const auto stream = device.make_stream();
  const auto memory = device.allocate(size_bytes);
  file.read_to_device(offset, memory->begin(), size_bytes, *stream);
  Bytes bytes(size_bytes);
  stream->download(bytes.data(), memory->begin(), size_bytes);
  stream->wait();
  return bytes;
}

Bytes apply_delta(const Bytes& delta, const std::vector<PlacedFile>& base, const Run& run) {
  return written(version_of(delta, base, run), run.threads);
}

Bytes forged(const Bytes& delta, const std::function<void(Json& header)>& edit) {
  std::uint64_t length = 0;
  for (std::size_t i = 8; i > 0; --i) length = length << 8 | delta[i - 1];
  const auto payload = delta.begin() + static_cast<std::ptrdiff_t>(8 + length);
  Json header = Json::parse(delta.begin() + 8, payload);
  edit(header);
  if (header["__metadata__"].contains("digest")) header["__metadata__"]["digest"] = std::string(64, '0');
  Bytes front = raw_safetensors(header.dump(), {});
  if (header["__metadata__"].contains("digest")) seal_front(front);
  front.insert(front.end(), payload, delta.end());
  return front;
}

Bytes with_changes(Bytes bytes, std::size_t width_bytes, double density, std::mt19937_64& random) {
  std::bernoulli_distribution often(std::min(1.0, density * 1.75));
  std::bernoulli_distribution seldom(density / 4);
  for (std::size_t begin = 0; begin + width_bytes <= bytes.size(); begin += width_bytes) {
    if (!(bytes[begin + width_bytes - 1] % 2 != 0 ? often(random) : seldom(random))) continue;
    const std::size_t touched = random() % 8 == 0 ? width_bytes : 1;
    for (std::size_t i = 0; i < touched; ++i) bytes[begin + i] = static_cast<std::uint8_t>(random());
  }
  return bytes;
}

TestTensor weights(std::string name, std::uint64_t count, std::mt19937_64& random) {
  count -= count % k_row_elements;
  TestTensor tensor = random_tensor(std::move(name), {"BF16", 16}, count, random);
  tensor.shape = {count / k_row_elements, k_row_elements};
  for (std::size_t i = 1; i < tensor.bytes.size(); i += 2) {
    tensor.bytes[i] = static_cast<std::uint8_t>((tensor.bytes[i] & 0x80) | (0x38 + random() % 8));
  }
  return tensor;
}

std::vector<TestTensor> with_changes(std::vector<TestTensor> tensors, double density, std::mt19937_64& random) {
  for (TestTensor& tensor : tensors) {
    const std::size_t width = dtype_named(tensor.dtype)->width_bytes;
    const bool is_used_in_part = tensor.name == k_used_in_part;
    const Bytes before = is_used_in_part ? tensor.bytes : Bytes();
    tensor.bytes = with_changes(std::move(tensor.bytes), width, is_used_in_part ? 10 * density : density, random);
    for (std::size_t row = 0; row < before.size(); row += 2 * k_row_elements) {
      if (random() % 10 == 0) continue;
      std::copy_n(before.begin() + static_cast<std::ptrdiff_t>(row), 2 * k_row_elements,
                  tensor.bytes.begin() + static_cast<std::ptrdiff_t>(row));
    }
  }
  return tensors;
}

}  // namespace wdelta::testing
