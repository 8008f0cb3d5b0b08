// SPDX-License-Identifier: Apache-2.0
#include "repo/repository.hpp"

#include "base/blake3.hpp"
#include "base/error.hpp"
#include "repo/ref_entry.hpp"
#include "repo/refs.hpp"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <mutex>
#include <utility>

namespace wdelta {

namespace {

constexpr std::uint64_t k_longest_document = std::uint64_t{1} << 30;

std::string book_folder(const Digest& commit) { return "recipes/" + commit.hex() + "/"; }

constexpr std::string_view k_text_suffix = ".json";
constexpr std::string_view k_frame_suffix = ".json.zst";

struct BookName {
  Digest digest;
  bool is_frame = false;
};

// What the key of a book says of it; nothing where it is none.
std::optional<BookName> book_named(const std::string& key) {
  const std::string name = std::filesystem::path(key).filename().string();
  for (const bool is_frame : {false, true}) {
    const std::string_view suffix = is_frame ? k_frame_suffix : k_text_suffix;
    if (!name.ends_with(suffix)) continue;
    const auto digest = Digest::parse(std::string_view(name).substr(0, name.size() - suffix.size()));
    if (digest) return BookName{*digest, is_frame};
  }
  return std::nullopt;
}

}  // namespace

std::string commit_key(const Digest& id) { return "commits/" + id.hex() + ".json"; }

std::optional<Digest> commit_of_key(const std::string& key) {
  const auto id = Digest::parse(std::filesystem::path(key).stem().string());
  return id && commit_key(*id) == key ? id : std::nullopt;
}

std::optional<Digest> commit_of_book(const std::string& key) {
  const std::filesystem::path path = key;
  const auto commit = Digest::parse(path.parent_path().filename().string());
  const bool is_book = commit && book_named(key) && key == book_folder(*commit) + path.filename().string();
  return is_book ? commit : std::nullopt;
}

namespace {

// How branches of a new repository in `store` are contested, if they are.
std::optional<Contest> contest_for(Store& store) {
  if (const std::optional<Contest> contest = store.contest()) return contest;
  // A store that overwrites what it was told to create only. What it is otherwise nobody knows: such stores list at
  // once as a rule, in whole seconds at worst.
  if (!store.has_exclusive_create()) return Contest{std::chrono::seconds(5), std::chrono::seconds(1)};
  return std::nullopt;
}

}  // namespace

class Repository::Models {
 public:
  explicit Models(std::shared_ptr<const ModelHub> hub) : hub_(std::move(hub)) {}
  Models(const Access& access, const Execution& execution) : access_(access), execution_(execution) {}

  const ModelHub& get() {
    const std::lock_guard lock(mutex_);
    if (!hub_) {
      if (!access_) throw Error(Fault::unsupported, "models of the Hub", "cannot be reached from here");
      hub_ = open_model_hub(*access_, execution_);
    }
    return *hub_;
  }

 private:
  std::mutex mutex_;
  std::optional<Access> access_;
  Execution execution_;
  std::shared_ptr<const ModelHub> hub_;
};

Repository::Repository(std::unique_ptr<Store> store, RepositorySettings settings, std::shared_ptr<Models> models)
    : store_(std::move(store)), settings_(std::move(settings)), models_(std::move(models)) {}

const ModelHub& Repository::models() const { return models_->get(); }

Repository Repository::open(const std::string& location, const Access& access, const Execution& execution) {
  auto store = open_store(location, access, execution);
  auto settings = read_settings(*store);
  if (!settings) {
    throw Error(Fault::not_found, location, "there is no wdelta repository here",
                "wdelta push CHECKPOINT REPO makes one");
  }
  return {std::move(store), std::move(*settings), std::make_shared<Models>(access, execution)};
}

Repository Repository::open_or_create(const std::string& location, const Access& access, const Execution& execution) {
  return open_or_create(open_store(location, access, execution), std::make_shared<Models>(access, execution));
}

Repository Repository::open_or_create(std::unique_ptr<Store> store, std::shared_ptr<const ModelHub> models) {
  return open_or_create(std::move(store), std::make_shared<Models>(std::move(models)));
}

Repository Repository::open_or_create(std::unique_ptr<Store> store, std::shared_ptr<Models> models) {
  auto settings = read_settings(*store);
  if (settings) return {std::move(store), std::move(*settings), std::move(models)};
  const auto is_probe = [](const Store::Listed& listed) { return is_probe_key(listed.key); };
  if (std::ranges::all_of(store->list(""), is_probe)) {
    const std::optional<Contest> contest = contest_for(*store);
    const std::string text = to_text(new_settings(contest));
    if (contest) {
      store->put(k_settings_key, text);
      store->flush();
    } else {
      store->create(k_settings_key, text);
    }
  }
  // Of several that create at once, the first one's counts, or where that cannot be, the last one's: they differ in
  // nothing but the id, by which a push finds what it remembers.
  settings = read_settings(*store);
  if (!settings) {
    throw Error(Fault::usage, store->name(), "is neither a repository nor empty", "name a place where nothing is yet");
  }
  return {std::move(store), std::move(*settings), std::move(models)};
}

Commit Repository::commit(const Digest& id) const {
  const std::string key = commit_key(id);
  const auto text = get_text(*store_, key, k_longest_document);
  if (!text) {
    throw Error(Fault::corrupt, name() + "/" + key, "is missing, a branch, tag or commit names it",
                "run wdelta verify REPO");
  }
  if (blake3(*text) != id) throw Error(Fault::corrupt, name() + "/" + key, "its bytes are not what its name says");
  return {id, manifest_from(*text, name() + "/" + key)};
}

// The id of a manifest tells that it is what was pushed, not that what it says of other commits is so.
Commit Repository::commit(const CommitSummary& told) const {
  Commit found = commit(told.id);
  const CommitSummary itself = summary_of(found.id, found.manifest, told.distance);
  if (itself == told) return found;
  throw Error(Fault::corrupt, name() + "/" + commit_key(told.id),
              fmt::format("is {}, and a commit after it tells of {}", in_words(itself), in_words(told)),
              "run wdelta verify REPO");
}

std::optional<std::vector<StoredBook>> Repository::try_to_read(std::span<const Store::Listed> listed) const {
  std::vector<StoredBook> books;
  for (const Store::Listed& each : listed) {
    if (!commit_of_book(each.key)) continue;
    const std::string object = name() + "/" + each.key;
    auto bytes = get_text(*store_, each.key, k_longest_document);
    if (!bytes) return std::nullopt;
    const BookName name = *book_named(each.key);
    if (blake3(*bytes) != name.digest) throw Error(Fault::corrupt, object, "its bytes are not what its name says");
    books.push_back({each.key, book_from(BookBytes{std::move(*bytes), name.is_frame}, object), each.written_ms});
  }
  return books;
}

// gc replaces books by shorter ones: where one vanished there is another one now.
std::vector<StoredBook> Repository::read_books(const Digest& commit) const {
  constexpr int k_attempts = 3;
  const std::string folder = book_folder(commit);
  for (int attempt = 0; attempt < k_attempts; ++attempt) {
    // Where a listing may lag behind what was written, it may behind what was removed.
    if (attempt > 0 && settings_.contest) wait_steadily(settings_.contest->settle, {});
    if (auto books = try_to_read(store_->list(folder))) return std::move(*books);
  }
  throw Error(Fault::corrupt, name() + "/" + folder, "lists recipe books that are missing");
}

std::vector<StoredBook> Repository::read_books(const Digest& commit, std::span<const Store::Listed> listed) const {
  auto books = try_to_read(listed);
  return books ? std::move(*books) : read_books(commit);
}

void Repository::put_commit(const Digest& id, const std::string& manifest_text, const BookBytes& book) {
  manifest_from(manifest_text, "the new commit");
  put_book(id, book);
  store_->put(commit_key(id), manifest_text);
}

std::string Repository::put_book(const Digest& commit, const BookBytes& book) {
  std::string key = book_folder(commit) + book.digest().hex();
  key += book.is_frame ? k_frame_suffix : k_text_suffix;
  store_->put(key, book.bytes);
  return key;
}

namespace {

RecipeGraph graph_of(const std::vector<StoredBook>& books) {
  RecipeGraph graph;
  for (const StoredBook& stored : books) {
    graph.add(stored.book.recipes);
    if (stored.book.squashed) graph.mark_squashed(*stored.book.squashed);
  }
  graph.settle();
  return graph;
}

}  // namespace

RecipeGraph Repository::recipes(const Commit& commit) const { return graph_of(read_books(commit.id)); }

RecipeGraph Repository::recipes(const Commit& commit, std::span<const Store::Listed> listed) const {
  return graph_of(read_books(commit.id, listed));
}

void Repository::walk(Commit from, const std::function<bool(const CommitSummary&)>& visit) const {
  std::uint64_t walked = 0;
  for (Commit read = std::move(from);;) {
    if (!visit(summary_of(read.id, read.manifest, walked))) return;
    // The last of the row is read itself, for what lies behind it.
    const std::span<const CommitSummary> row = ancestors_in_row(read.manifest);
    if (row.empty()) return;
    for (CommitSummary ancestor : row.first(row.size() - 1)) {
      ancestor.distance += walked;
      if (!visit(ancestor)) return;
    }
    walked += row.size();
    read = commit(row.back());
  }
}

}  // namespace wdelta
