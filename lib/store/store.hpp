// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/digest.hpp"
#include "base/execution.hpp"
#include "base/output_file.hpp"
#include "base/reader.hpp"
#include "store/access.hpp"
#include "store/model_hub.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace wdelta {

/// What writers that race on a store must know of it when its create() has more than one winner; between them
/// wdelta-repository(5), "Contested entries", decides.
struct Contest {
  std::chrono::milliseconds settle{};  ///< a listing made this long after a write shows it, to everybody
  std::chrono::milliseconds tick{1};   ///< how coarse the store is with times, through whichever of its doors
};

/// That of buckets of the Hugging Face Hub, the same through its own API and through its gateway for S3, which tells
/// times to the second. Nothing says how long the Hub takes to show a file to everybody.
inline constexpr Contest k_hub_contest{std::chrono::seconds(3), std::chrono::seconds(1)};

/// Holds bytes by key. A key is a place as base/path.hpp has it, "objects/ab/abcd…". One object of this class may be
/// used by several threads.
///
/// Contract, kept by every implementation and tested by one suite: what get() returns was once put whole under that
/// key; put() of the same key replaces it in one step; of any number of create() calls for one key exactly one returns
/// true, unless contest() says otherwise; what was put survives a crash of the machine once flush() or a later create()
/// returned; get() and list() of the same object of this class know everything that it put.
class Store {
 public:
  virtual ~Store() = default;

  /// How a user names it, for messages.
  virtual const std::string& name() const = 0;

  /// The bytes under `key`, or null when there are none. Only "there are none" is null: all else is thrown.
  virtual std::shared_ptr<const ByteReader> get(const std::string& key) const = 0;
  struct Wanted {
    std::string key;
    std::uint64_t size_bytes = 0;
  };
  /// Writes all bytes of an object into an empty output as they arrive, once; returns their digest. Where stores keep
  /// what has arrived for a program that comes after one that was killed, they do so in `directory`, which should be on
  /// the output's file system; without one in a place of their own. Nothing when get() does as well or there is no such
  /// object. Throws corrupt when it has another size.
  virtual std::optional<Digest> get_into(OutputFile& output, const Wanted& wanted,
                                         const std::filesystem::path& directory, const Execution& execution) const;
  /// Where what get() reads lies on this machine while it is read, as large as what was read; nothing where it does
  /// not.
  virtual std::optional<std::filesystem::path> spooling_path() const { return std::nullopt; }
  /// Keeps a small object.
  virtual void put(const std::string& key, std::string_view bytes) = 0;
  /// The same at once, by a request that is not sent again when the store may have carried it out, which could give a
  /// key that others have seen already a later time. Throws network when that cannot be told.
  virtual void put_once(const std::string& key, std::string_view bytes);
  /// A file to write a large object into, whose digest and so whose key is known only at its end.
  virtual OutputFile stage() = 0;
  /// Where stage() makes its files; for writers that need more than one.
  virtual std::filesystem::path staging_path() = 0;
  /// Keeps what was written into a staged file.
  virtual void put_staged(const std::string& key, OutputFile&& staged) = 0;
  /// Keeps a large object whose bytes are at hand: without a copy of them on this machine, where the store is another.
  /// Reports to the progress of `execution` what is read or sent.
  virtual void put_bytes(const std::string& key, const ByteReader& bytes, const Execution& execution);
  /// Whether it is known, by one small request, that an object of that size is there.
  virtual bool has(const Wanted&) const { return false; }
  /// Whether it is reached over a network: then bytes are better read twice than copied once.
  virtual bool is_remote() const { return false; }
  /// From how many threads small objects are best read at a time: 1 where no answer has to be waited for.
  virtual unsigned reads_at_once() const { return 1; }
  /// Sends what a store gathers to make few requests of many objects. Nobody else need see an object before; nobody
  /// sees one without those that were put before the flush that came before it.
  virtual void flush() {}
  /// Whether the service behind it can copy files of models on the Hub, so that their bytes do not go through here.
  virtual bool can_copy_models() const { return false; }
  /// Keeps such a copy; as put() otherwise. `file` is in the Hub's content store. Throws unsupported where that cannot
  /// be.
  virtual void put_copy(const std::string& key, const ModelCommit& from, const ModelFile& file);
  /// Keeps a small object unless the key is taken; whether it did. Throws network when that cannot be told because the
  /// reply was lost.
  virtual bool create(const std::string& key, std::string_view bytes) = 0;
  /// Something where create() cannot promise one winner. There it never sends its request a second time, which could
  /// give a key that others have seen already a later time.
  virtual std::optional<Contest> contest() const { return std::nullopt; }
  /// Whether create() keeps its promise here. May write a key and remove it; for when a repository is made.
  virtual bool has_exclusive_create() { return true; }
  /// The same of a store that may be another one than then: tries to create a key that is there, with the bytes that it
  /// has, so that it changes nothing where that succeeds.
  virtual bool refuses_to_create(const std::string& /*key*/, std::string_view /*bytes*/) { return true; }

  struct Listed {
    std::string key;
    std::uint64_t size_bytes = 0;
    std::int64_t written_ms = 0;  ///< when, in milliseconds since 1970 by the store's clock, never by this machine's
  };
  /// All keys that begin with `prefix`, ordered, each once. A prefix ends with '/' or is empty.
  virtual std::vector<Listed> list(const std::string& prefix) const = 0;
  struct TimedListing {
    std::vector<Listed> keys;
    std::optional<std::int64_t> now_ms;  ///< by the store's clock, up to a tick before this listing was made
  };
  /// The same, and what time it is, where the store says so along the way.
  virtual TimedListing list_with_time(const std::string& prefix) const { return {list(prefix), std::nullopt}; }
  /// Bytes that there is room for, where the store can tell.
  virtual std::optional<std::uint64_t> free_bytes() const { return std::nullopt; }
  /// Forgets a key; no error when there is none.
  virtual void remove(const std::string& key) = 0;
  /// Forgets a key unless it was written at `time_s` or later by the store's clock; whether it did. What a put() of the
  /// same key writes meanwhile stays in a directory; over a network there is a moment between the look and the removal.
  virtual bool remove_older(const std::string& key, std::int64_t time_s) = 0;
  /// The same for many keys, for stores where every request counts.
  virtual void remove_all(std::span<const std::string> keys);
  /// Those that were forgotten.
  virtual std::vector<std::string> remove_all_older(std::span<const std::string> keys, std::int64_t time_s);
  /// Brings back what a remove_older() that was killed had taken away to look at it once more.
  virtual void bring_back() {}
  /// Whether a key is one that whoever uses the store may have written.
  using IsOurs = std::function<bool(const std::string& key)>;
  /// Removes what writers that were killed before `time_s` left behind.
  /// Of uploads that were not finished only those of keys that are ours: others may be writing beside us.
  virtual void remove_leftovers(std::int64_t time_s, const IsOurs& is_ours) = 0;
};

/// A listing in its order, with each key in it once: made while others write, one may show a key again on its next
/// page. Of two times of one key the later counts.
std::vector<Store::Listed> in_order(std::vector<Store::Listed> keys);

/// A key of its own for what a store writes, for a moment, to find out what it can do.
std::string new_probe_key();
/// Whether it is one: it says nothing of whether anything is there.
bool is_probe_key(std::string_view key);

/// Reads a document of at most `limit_bytes`; nothing when it is not there. Throws corrupt when it is larger.
std::optional<std::string> get_text(const Store& store, const std::string& key, std::uint64_t limit_bytes);

/// Opens the store that `location` names: file:///PATH or a plain path is a directory, s3://BUCKET[/PREFIX] is on S3 or
/// what speaks its protocol, hf://buckets/NAMESPACE/NAME[/PREFIX] is a bucket of the Hugging Face Hub. Nothing needs to
/// be there yet. Throws unsupported for a scheme that has no store. Remote stores are told of `access`, and report to
/// and are stopped by `execution`, which may have no Progress.
std::unique_ptr<Store> open_store(const std::string& location, const Access& access = {},
                                  const Execution& execution = {});
/// Whether `location` has a scheme, as in s3://bucket.
bool has_scheme(std::string_view location);
/// The directory that a location names: a plain path, or what a file URL (RFC 8089) says. Nothing when the store is
/// elsewhere. Throws usage for a file URL that names no directory of this machine.
std::optional<std::filesystem::path> directory_named(const std::string& location);

}  // namespace wdelta
