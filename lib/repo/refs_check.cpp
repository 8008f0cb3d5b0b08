// SPDX-License-Identifier: Apache-2.0
#include "repo/refs_check.hpp"

#include "repo/entry_check.hpp"
#include "store/reads_at_once.hpp"

#include <algorithm>
#include <exception>
#include <fmt/format.h>
#include <span>

namespace wdelta {

namespace {

// Entries that are read before they are checked, for each of those that are read at a time.
constexpr std::size_t k_entries_at_once = 64;

/// An entry, or why it cannot be had.
struct ReadEntry {
  std::optional<RefEntry> entry;
  std::exception_ptr failure;

  const RefEntry& get() const {
    if (failure) std::rethrow_exception(failure);
    return *entry;
  }
};

ReadEntry read_entry(const Store& store, const std::string& key) try {
  return {read_ref_entry(store, key), nullptr};
} catch (const Error& error) {
  if (error.fault() == Fault::interrupted) throw;
  return {std::nullopt, std::current_exception()};
}

}  // namespace

void RefsCheck::run(RefKind kind) {
  check_entries(kind);
  const Refs refs = repository_->refs();
  const char* word = kind == RefKind::branch ? "branch" : "tag";
  try {
    const auto current = refs.list(kind);
    for (const auto& [name, ref] : current) names_.emplace(*ref.commit, fmt::format("{} {}", word, name));
    for (const auto& [name, ref] : current) named_.push_back({name, *ref.commit});
    for (const Fork& fork : refs.forks(kind)) {
      named_.push_back(fork);
      execution_->progress->note(
          fmt::format("{} {} has a fork: commit {} is not in its history", word, fork.name, fork.commit.hex()));
    }
  } catch (const Error& error) {
    if (error.fault() == Fault::network) throw;
    record_->report.add(error.object(), error);
  }
}

void RefsCheck::check_entries(RefKind kind) {
  const Refs refs = repository_->refs();
  const Store& store = repository_->store();
  EntryCheck entries(refs);
  const auto listed = store.list(ref_folder(kind));
  const std::size_t most = k_entries_at_once * store.reads_at_once();
  for (std::size_t begin = 0; begin < listed.size(); begin += most) {
    const std::span piece = std::span(listed).subspan(begin, std::min(most, listed.size() - begin));
    std::vector<ReadEntry> read(piece.size());
    for_each_read(store, piece.size(), execution_->stop,
                  [&](std::size_t i) { read[i] = read_entry(store, piece[i].key); });
    for (std::size_t i = 0; i < piece.size(); ++i) {
      const std::string& key = piece[i].key;
      record_->check(piece[i], [&] {
        if (const auto commit = entries.check(key, [&] { return read[i].get(); })) ever_named_.emplace(*commit, key);
      });
    }
  }
}

std::map<Digest, std::string> RefsCheck::named_before() const {
  std::map<Digest, std::string> before = ever_named_;
  for (const auto& [commit, name] : names_) before.erase(commit);
  return before;
}

std::optional<std::string> RefsCheck::name_of(const Digest& commit) const {
  const auto name = names_.find(commit);
  if (name == names_.end()) return {};
  return name->second;
}

}  // namespace wdelta
