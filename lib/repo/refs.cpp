// SPDX-License-Identifier: Apache-2.0
#include "repo/refs.hpp"

#include "base/error.hpp"
#include "base/moment.hpp"
#include "repo/ref_entry.hpp"
#include "repo/repository_settings.hpp"
#include "store/reads_at_once.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <functional>
#include <utility>

namespace wdelta {

namespace {

bool is_word(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

std::string entry_key(RefKind kind, const std::string& name, std::uint64_t number) {
  return fmt::format("{}{}/{:0{}}", ref_folder(kind), name, number, k_number_digits);
}

// Where the series of entries with these numbers stands. Entries are counted without gaps and never removed: where one
// is missing, newer ones may be missing too.
RefState state_of(const Store& store, RefKind kind, const std::string& name, std::vector<std::uint64_t> numbers) {
  std::ranges::sort(numbers);
  RefState ref;
  for (const std::uint64_t number : numbers) {
    if (number <= ref.number) continue;  // they are counted from one; a list may show one twice
    while (++ref.number < number) {
      // A listing that was made while others wrote may lack what is there.
      const std::string key = entry_key(kind, name, ref.number);
      if (store.get(key) == nullptr) {
        throw Error(Fault::corrupt, key, fmt::format("is missing, though entry {} is there", number));
      }
    }
  }
  if (ref.number > 0) ref.commit = read_ref_entry(store, entry_key(kind, name, ref.number)).commit;
  return ref;
}

// Of whichever kind.
bool is_entry_key(std::string_view key) {
  const std::string_view last_part = key.substr(key.rfind('/') + 1);
  return is_entry_number(last_part) || parse_contested_key(last_part);
}

// What of all keys below a folder is below each name, by name.
template <typename Take>
void for_each_entry(const std::vector<Store::Listed>& keys, const std::string& folder, Take take) {
  for (const Store::Listed& listed : keys) {
    const std::size_t slash = listed.key.rfind('/');
    if (slash < folder.size()) continue;
    take(listed.key.substr(folder.size(), slash - folder.size()), listed.key.substr(slash + 1), listed);
  }
}

std::map<std::string, RefState> without_deleted(std::map<std::string, RefState> refs) {
  std::erase_if(refs, [](const auto& ref) { return !ref.second.commit; });
  return refs;
}

}  // namespace

std::string ref_folder(RefKind kind) { return kind == RefKind::branch ? "branches/" : "tags/"; }

const char* why_not_a_ref_name(std::string_view name) {
  if (name.empty()) return "is empty";
  if (Digest::parse(name)) return "has the form of a commit's id";
  if (name.size() > 200) return "is longer than 200 characters";
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('/', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    if (part.empty() || !is_word(part.front())) return "has a part that does not begin with a letter, a digit or '_'";
    if (!std::ranges::all_of(part, [](char c) { return is_word(c) || c == '-' || c == '.'; })) {
      return "has a character other than letters, digits, '_', '-', '.' and '/'";
    }
    if (is_entry_number(part)) return "has a part of 16 digits";
    begin = end + 1;
  }
  return nullptr;
}

std::map<std::string, RefState> Refs::list(RefKind kind) const {
  std::map<std::string, RefState> refs;
  // Each is a place of its own, which is there before any is read.
  std::vector<std::pair<RefState*, std::function<RefState()>>> reads;
  const auto read_all = [&] {
    for_each_read(*store_, reads.size(), {}, [&](std::size_t i) { *reads[i].first = reads[i].second(); });
  };
  if (contest_) {
    const Seen seen = look(kind, std::nullopt);
    for (const auto& [name, entries] : seen.series) {
      auto line = entries.line(seen.now_ms);
      if (!line.empty()) reads.emplace_back(&refs[name], [this, line = std::move(line)] { return newest_of(line); });
    }
    read_all();
    return without_deleted(std::move(refs));
  }
  std::map<std::string, std::vector<std::uint64_t>> numbers;
  for_each_entry(store_->list(ref_folder(kind)), ref_folder(kind),
                 [&](const auto& name, const auto& last, const auto&) {
                   if (is_entry_number(last)) numbers[name].push_back(parse_entry_number(last));
                 });
  for (const auto& each : numbers) {
    reads.emplace_back(&refs[each.first],
                       [this, kind, &each] { return state_of(*store_, kind, each.first, each.second); });
  }
  read_all();
  return without_deleted(std::move(refs));
}

std::vector<NamedCommit> Refs::ever_named(RefKind kind) const {
  std::vector<Store::Listed> entries = store_->list(ref_folder(kind));
  // What was withdrawn is listed twice, and names nothing any more.
  std::map<std::string, std::int64_t> withdrawn_ms;  // by write id
  std::erase_if(entries, [&](const Store::Listed& listed) {
    const auto key = parse_contested_key(std::string_view(listed.key).substr(listed.key.rfind('/') + 1));
    const bool is_withdrawal = key && key->is_withdrawal;
    if (is_withdrawal) withdrawn_ms.emplace(key->write, listed.written_ms);
    return is_withdrawal || !is_entry_key(listed.key);
  });
  std::vector<std::optional<Digest>> commits(entries.size());
  for_each_read(*store_, entries.size(), {},
                [&](std::size_t i) { commits[i] = read_ref_entry(*store_, entries[i].key).commit; });
  std::map<std::string, std::uint64_t> newest;
  std::map<std::pair<std::string, std::uint64_t>, std::int64_t> written_ms;  // of all entries of a number, the last
  std::vector<std::pair<std::string, std::uint64_t>> numbered(entries.size());
  std::vector<std::optional<std::int64_t>> until_ms(entries.size());
  for_each_entry(entries, ref_folder(kind), [&](const auto& name, const auto& last, const Store::Listed& listed) {
    const auto contested = parse_contested_key(last);
    const std::uint64_t number = is_entry_number(last) ? parse_entry_number(last) : contested ? contested->number : 0;
    if (is_entry_number(last)) newest[name] = std::max(newest[name], number);
    std::int64_t& latest_ms = written_ms[{name, number}];
    latest_ms = std::max(latest_ms, listed.written_ms);
    const auto i = static_cast<std::size_t>(&listed - entries.data());
    numbered[i] = {name, number};
    if (contested && withdrawn_ms.contains(contested->write)) until_ms[i] = withdrawn_ms.at(contested->write);
  });
  std::vector<NamedCommit> named;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto next = written_ms.find({numbered[i].first, numbered[i].second + 1});
    if (numbered[i].second != 0 && next != written_ms.end())
      until_ms[i] = std::min(next->second, until_ms[i].value_or(next->second));
    if (commits[i]) named.push_back({*commits[i], until_ms[i]});
  }
  // A list may lag behind what was written. Contested entries wait for that themselves.
  for (auto [name, number] : newest) {
    while (number < k_last_entry_number && store_->get(entry_key(kind, name, number + 1)) != nullptr) {
      const RefEntry entry = read_ref_entry(*store_, entry_key(kind, name, ++number));
      if (entry.commit) named.push_back({*entry.commit, {}});
    }
  }
  return named;
}

RefState Refs::read(RefKind kind, const std::string& name) const {
  if (contest_) {
    const Seen seen = look(kind, name);
    const auto found = seen.series.find(name);
    return found == seen.series.end() ? RefState() : newest_of(found->second.line(seen.now_ms));
  }
  std::vector<std::uint64_t> numbers;
  const std::string prefix = ref_folder(kind) + name + "/";
  for (const Store::Listed& listed : store_->list(prefix)) {
    const std::string_view number = std::string_view(listed.key).substr(prefix.size());
    if (is_entry_number(number))
      numbers.push_back(parse_entry_number(number));  // else of a branch whose name begins with this one's
  }
  return state_of(*store_, kind, name, numbers);
}

void Refs::add_entry(RefKind kind, const std::string& name, const RefState& before, const std::optional<Digest>& commit,
                     const Execution& execution) {
  if (const char* reason = why_not_a_ref_name(name)) throw Error(Fault::usage, name, reason);
  if (before.number >= k_last_entry_number)
    throw Error(Fault::corrupt, name, "its newest entry has the last number there is");
  if (contest_) return add_contested(kind, name, before, commit, execution);
  require_exclusive_create();
  add_numbered(kind, name, before, commit);
}

// Where a repository was made is not always where it is now: a copy may lie in a store that takes a key twice, where of
// two writers of an entry both would be told that they have won.
void Refs::require_exclusive_create() const {
  bool is_exclusive = !store_->contest();
  if (is_exclusive && store_->is_remote()) {
    const auto settings = get_text(*store_, k_settings_key, k_longest_settings);
    is_exclusive = !settings || store_->refuses_to_create(k_settings_key, *settings);
  }
  if (is_exclusive) return;
  throw Error(
      Fault::unsupported, store_->name(),
      "the repository's branches are moved by exclusive creation, which this store cannot do",
      "some stores (Ceph) cannot while a bucket keeps versions: suspend that; or push to a new repository here");
}

void Refs::add_numbered(RefKind kind, const std::string& name, const RefState& before,
                        const std::optional<Digest>& commit) {
  const std::string key = entry_key(kind, name, before.number + 1);
  const RefEntry entry{commit, random_hex(k_write_digits), {}};
  const char* const word = kind == RefKind::branch ? "branch" : "tag";
  std::optional<Error> failure;
  bool is_taken = false;  // so the store says
  try {
    is_taken = store_->create(key, to_text(entry));
    if (is_taken && !store_->is_remote()) return;
  } catch (const Error& error) {
    if (error.fault() == Fault::interrupted) throw;
    failure = error;
  }
  // Over a network a reply is lost, or says something else than what was done: what is there tells what became of it.
  bool is_there = false;
  try {
    is_there = store_->get(key) != nullptr;
  } catch (const Error& error) {
    if (!failure || error.fault() == Fault::interrupted) throw;
    if (failure->fault() != Fault::network) throw *failure;
    throw Error(failure->fault(), failure->object(),
                fmt::format("{}; whether it was done, and the {} moved, is not known", failure->what(), word),
                "nothing was lost; push again once the store can be reached");
  }
  if (!is_there && failure) throw *failure;
  if (!is_there && is_taken)
    throw Error(Fault::network, key, "the store says that it took it, and does not have it", "push again");
  // Ours after all, when a store repeated the request behind our back.
  if (read_ref_entry(*store_, key).write == entry.write) return;
  throw Error(Fault::conflict, name, fmt::format("{} was moved by someone else meanwhile", word),
              "nothing was lost; look at the log and push again");
}

}  // namespace wdelta
