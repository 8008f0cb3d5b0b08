// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/reader.hpp"
#include "store/http/read_ahead.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

namespace wdelta {

/// An object as a store's door offers it.
struct RemoteObject {
  std::string name;  ///< for messages
  std::uint64_t size_bytes = 0;
  /// Says which bytes these are (store, key and entity tag): with it a later program may go on with what has arrived.
  /// Empty: it may not.
  std::string identity;
  /// Once it is asked to stop, what has arrived is left for the next program.
  std::stop_token stop;
  using Sink = std::function<void(std::span<const std::uint8_t>)>;
  /// Gives `sink` exactly the bytes from `offset`, `size_bytes` of them, in order, or throws. Does its own repeating:
  /// what was given to the sink is not given again. Called from several threads.
  std::function<void(std::uint64_t offset, std::uint64_t size_bytes, const Sink& sink)> fetch;
};

/// An object that a store was asked for, and what came along with the answer: its first bytes, or all of them.
struct FoundObject {
  RemoteObject object;
  std::string beginning;

  bool is_whole() const { return beginning.size() >= object.size_bytes; }
  std::span<const std::uint8_t> beginning_bytes() const {
    return {reinterpret_cast<const std::uint8_t*>(beginning.data()), beginning.size()};
  }
};

/// Reads an object of a remote store. Pages of 1 MiB go through a file in `directory` (see Spool), so memory stays the
/// same whatever the object's size, what is read twice is fetched once, and a pull that was killed is gone on with.
/// Where reads follow each other, what comes next is fetched meanwhile in parallel requests of some MiB each. Until
/// something is read it takes no memory for the pages and makes no file: whether an object may be as large as its store
/// says is for the reader to find out before.
class RemoteReader final : public ByteReader {
 public:
  /// `beginning`: bytes of the object, from its first on, that have arrived already; may be empty.
  RemoteReader(RemoteObject object, std::span<const std::uint8_t> beginning, const std::filesystem::path& directory,
               std::shared_ptr<ReadAhead> read_ahead);
  /// When a fetch failed or was stopped, what has arrived is left for the next program.
  ~RemoteReader() override;

  std::uint64_t size_bytes() const override;
  void read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const override;
  const std::string& name() const override;
  /// What lies under a key stays as it is, and what has arrived is kept.
  std::optional<std::int64_t> changed_ns() const override { return 0; }

 private:
  struct State;
  State& state() const;

  RemoteObject object_;
  std::filesystem::path directory_;
  std::shared_ptr<ReadAhead> read_ahead_;
  mutable std::once_flag is_begun_;
  mutable std::vector<std::uint8_t> beginning_;  // until something is read
  mutable std::shared_ptr<State> state_;         // null until then
  int exceptions_at_birth_;
};

/// Throws corrupt when an object has not `size_bytes`.
void require_size(const RemoteObject& object, std::uint64_t size_bytes);

/// Reads what was found: from memory where all of it came.
std::shared_ptr<const ByteReader> reader_of(FoundObject found, const std::filesystem::path& directory,
                                            std::shared_ptr<ReadAhead> read_ahead);

}  // namespace wdelta
