// SPDX-License-Identifier: Apache-2.0
#include "store/http/remote_reader.hpp"

#include "base/error.hpp"
#include "store/http/spool.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <fmt/format.h>
#include <mutex>
#include <utility>
#include <vector>

namespace wdelta {

namespace {

constexpr std::uint64_t k_run_pages = 8;    // what one request brings when reads follow each other
constexpr std::uint64_t k_near_pages = 64;  // threads that share a file read it in about this order
constexpr std::uint64_t k_window_pages = 64;

// Ends a fetch that nobody waits for any more.
struct NobodyWaits {};

}  // namespace

struct RemoteReader::State : std::enable_shared_from_this<State> {
  enum class Page : std::uint8_t { absent, coming, here };

  State(RemoteObject remote, const std::filesystem::path& directory)
      : object(std::move(remote)),
        spool(directory, object.identity, object.size_bytes),
        pages((object.size_bytes + Spool::k_page_bytes - 1) / Spool::k_page_bytes, Page::absent) {
    for (const std::uint64_t page : spool.found_pages()) pages[page] = Page::here;
  }

  RemoteObject object;
  Spool spool;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Page> pages;
  std::uint64_t frontier = 0;  // behind the last page that was asked for
  unsigned streak = 0;         // reads in a row that were near it
  std::atomic<bool> is_closed = false;
  std::atomic<bool> has_failed = false;

  std::uint64_t page_end(std::uint64_t page) const {
    return std::min((page + 1) * Spool::k_page_bytes, object.size_bytes);
  }

  // Under the lock: takes a stretch of absent pages from `first` on for the caller to fetch.
  PageRun claim(std::uint64_t first, std::uint64_t most) {
    PageRun run{first, 0};
    while (run.count < most && first + run.count < pages.size() && pages[first + run.count] == Page::absent) {
      pages[first + run.count++] = Page::coming;
    }
    return run;
  }

  // Under the lock: nobody fetches it after all, and nobody has waited for it.
  void unclaim(PageRun run) {
    for (std::uint64_t i = 0; i < run.count; ++i) pages[run.first + i] = Page::absent;
  }

  void set(PageRun run, Page to) {
    const std::lock_guard lock(mutex);
    for (std::uint64_t i = 0; i < run.count; ++i) pages[run.first + i] = to;
    changed.notify_all();
  }

  void fetch(PageRun run, const std::atomic<bool>* given_up) {
    std::vector<std::uint8_t> page;
    PageRun rest = run;
    const auto take = [&](std::span<const std::uint8_t> bytes) {
      if (given_up != nullptr && *given_up) throw NobodyWaits();
      while (!bytes.empty()) {
        if (rest.count == 0) throw Error(Fault::network, object.name, "more bytes came than were asked for");
        const std::uint64_t begin = rest.first * Spool::k_page_bytes;
        const std::uint64_t wanted = page_end(rest.first) - begin;
        const auto piece = bytes.first(std::min<std::size_t>(bytes.size(), wanted - page.size()));
        page.insert(page.end(), piece.begin(), piece.end());
        bytes = bytes.subspan(piece.size());
        if (page.size() < wanted) continue;
        spool.write_page(rest.first, page);
        page.clear();
        set({rest.first, 1}, Page::here);
        ++rest.first;
        --rest.count;
      }
    };
    try {
      page.reserve(Spool::k_page_bytes);
      object.fetch(run.first * Spool::k_page_bytes,
                   page_end(run.first + run.count - 1) - run.first * Spool::k_page_bytes, take);
      if (rest.count > 0) throw Error(Fault::network, object.name, "fewer bytes came than were asked for");
    } catch (const NobodyWaits&) {
      throw;
    } catch (...) {
      has_failed = true;
      set(rest, Page::absent);
      throw;
    }
  }
};

RemoteReader::RemoteReader(RemoteObject object, std::span<const std::uint8_t> beginning,
                           const std::filesystem::path& directory, std::shared_ptr<ReadAhead> read_ahead)
    : object_(std::move(object)),
      directory_(directory),
      read_ahead_(std::move(read_ahead)),
      beginning_(beginning.begin(), beginning.end()),
      exceptions_at_birth_(std::uncaught_exceptions()) {}

RemoteReader::State& RemoteReader::state() const {
  std::call_once(is_begun_, [this] {
    auto state = std::make_shared<State>(object_, directory_);
    for (std::uint64_t page = 0; page < state->pages.size(); ++page) {
      const std::uint64_t begin = page * Spool::k_page_bytes;
      const std::uint64_t size_bytes = state->page_end(page) - begin;
      if (begin + size_bytes > beginning_.size()) break;
      if (state->pages[page] == State::Page::here) continue;
      state->spool.write_page(page, std::span(beginning_).subspan(begin, size_bytes));
      state->pages[page] = State::Page::here;
    }
    state_ = std::move(state);
    beginning_ = {};
  });
  return *state_;
}

RemoteReader::~RemoteReader() {
  if (!state_) return;
  state_->is_closed = true;
  // Where the bytes came and turned out wrong they must not be found again.
  const bool is_broken_off = state_->has_failed || state_->object.stop.stop_requested();
  if (!is_broken_off || std::uncaught_exceptions() <= exceptions_at_birth_) state_->spool.forget();
}

std::uint64_t RemoteReader::size_bytes() const { return object_.size_bytes; }
const std::string& RemoteReader::name() const { return object_.name; }

void RemoteReader::read_at(std::uint64_t offset, std::span<std::uint8_t> bytes) const {
  if (offset > size_bytes() || bytes.size() > size_bytes() - offset) {
    throw Error(Fault::corrupt, name(),
                fmt::format("bytes {} to {} asked for, it has {}", offset, offset + bytes.size(), size_bytes()));
  }
  if (bytes.empty()) return;
  State& state = this->state();
  const std::uint64_t first = offset / Spool::k_page_bytes;
  const std::uint64_t last = (offset + bytes.size() - 1) / Spool::k_page_bytes;

  std::unique_lock lock(state.mutex);
  const bool is_near = first <= state.frontier + k_near_pages && last + k_near_pages >= state.frontier;
  state.streak = is_near ? state.streak + static_cast<unsigned>(last - first) + 1 : 0;
  state.frontier = is_near ? std::max(state.frontier, last + 1) : last + 1;
  // The first pages of a file may be all that is wanted of it: a header.
  const std::uint64_t window = state.streak < 4 ? 0 : std::min<std::uint64_t>(state.streak * 2, k_window_pages);
  for (std::uint64_t page = last + 1; page < std::min(state.frontier + window, state.pages.size());) {
    const PageRun run = state.claim(page, k_run_pages);
    page += std::max<std::uint64_t>(run.count, 1);
    if (run.count == 0) continue;
    const bool is_coming = read_ahead_->submit([shared = state_, run] {
      try {
        if (shared->is_closed) return;
        shared->fetch(run, &shared->is_closed);
      } catch (...) {
        // Whoever needs these pages fetches them itself, and learns why that fails.
      }
    });
    if (!is_coming) {
      state.unclaim(run);
      break;
    }
  }
  for (std::uint64_t page = first; page <= last;) {
    if (state.pages[page] == State::Page::here) {
      ++page;
    } else if (state.pages[page] == State::Page::coming) {
      state.changed.wait(lock);
    } else {
      const PageRun run = state.claim(page, last - page + 1);
      lock.unlock();
      state.fetch(run, nullptr);
      lock.lock();
    }
  }
  lock.unlock();
  state.spool.read_at(offset, bytes);
}

void require_size(const RemoteObject& object, std::uint64_t size_bytes) {
  if (object.size_bytes == size_bytes) return;
  throw Error(Fault::corrupt, object.name, fmt::format("has {} bytes, {} expected", object.size_bytes, size_bytes));
}

std::shared_ptr<const ByteReader> reader_of(FoundObject found, const std::filesystem::path& directory,
                                            std::shared_ptr<ReadAhead> read_ahead) {
  const auto beginning = found.beginning_bytes();
  if (found.is_whole()) {
    return std::make_shared<MemoryReader>(std::vector(beginning.begin(), beginning.end()), found.object.name);
  }
  return std::make_shared<RemoteReader>(std::move(found.object), beginning, directory, std::move(read_ahead));
}

}  // namespace wdelta
