// SPDX-License-Identifier: Apache-2.0
#include "store/http/remote_download.hpp"

#include "base/blake3.hpp"
#include "base/buffer.hpp"
#include "base/error.hpp"
#include "base/parallel.hpp"
#include "store/http/spool.hpp"

#include <algorithm>
#include <vector>

namespace wdelta {

namespace {

// What one request brings: of a small object less, so that there is something to do for each transfer.
constexpr std::uint64_t k_fewest_run_pages = 8;
constexpr std::uint64_t k_most_run_pages = 16;

class Download {
 public:
  Download(const RemoteObject& object, const std::filesystem::path& directory, const Execution& transfers)
      : object_(&object), execution_(&transfers), spool_(directory, object.identity, object.size_bytes) {
    is_here_.resize((object.size_bytes + Spool::k_page_bytes - 1) / Spool::k_page_bytes);
    for (const std::uint64_t page : spool_.found_pages()) {
      if (!is_here_[page]) execution_->progress->advance(page_bytes(page));
      is_here_[page] = true;
    }
  }

  void take(std::span<const std::uint8_t> beginning) {
    for (std::uint64_t page = 0; page < is_here_.size(); ++page) {
      if (page * Spool::k_page_bytes + page_bytes(page) > beginning.size()) return;
      if (!is_here_[page]) write_page(page, beginning.subspan(page * Spool::k_page_bytes, page_bytes(page)));
      is_here_[page] = true;
    }
  }

  void fetch_rest() {
    const std::vector<PageRun> runs = missing();
    parallel_for(runs.size(), *execution_, [&] {
      return [&, page = Buffer()](std::size_t index) mutable { fetch(runs[index], page.of_size(Spool::k_page_bytes)); };
    });
  }

  Digest finish(OutputFile& output) {
    const Digest digest = spool_.digest();
    if (spool_.move_into(output)) return digest;
    output.reserve(object_->size_bytes);
    Buffer buffer;
    for (std::uint64_t page = 0; page < is_here_.size(); ++page) {
      execution_->check_stop();
      const auto bytes = buffer.of_size(page_bytes(page));
      spool_.read_at(page * Spool::k_page_bytes, bytes);
      output.write_at(page * Spool::k_page_bytes, bytes);
    }
    spool_.forget();
    return digest;
  }

 private:
  std::size_t page_bytes(std::uint64_t page) const {
    return static_cast<std::size_t>(std::min(Spool::k_page_bytes, object_->size_bytes - page * Spool::k_page_bytes));
  }

  std::vector<PageRun> missing() const {
    const std::uint64_t shares = std::max<std::uint64_t>(execution_->threads, 1) * 2;
    const std::uint64_t most = std::clamp(is_here_.size() / shares, k_fewest_run_pages, k_most_run_pages);
    std::vector<PageRun> runs;
    for (std::uint64_t page = 0; page < is_here_.size(); ++page) {
      if (is_here_[page]) continue;
      const bool goes_on = !runs.empty() && runs.back().first + runs.back().count == page;
      if (!goes_on || runs.back().count == most) runs.push_back({page, 0});
      ++runs.back().count;
    }
    return runs;
  }

  void write_page(std::uint64_t page, std::span<const std::uint8_t> bytes) {
    spool_.write_page(page, bytes);
    execution_->progress->advance(bytes.size());
  }

  void fetch(PageRun run, std::span<std::uint8_t> room) {
    const std::uint64_t end = run.first + run.count;
    std::size_t filled = 0;
    object_->fetch(run.first * Spool::k_page_bytes,
                   (end - 1) * Spool::k_page_bytes + page_bytes(end - 1) - run.first * Spool::k_page_bytes,
                   [&](std::span<const std::uint8_t> bytes) {
                     while (!bytes.empty()) {
                       if (run.first == end)
                         throw Error(Fault::network, object_->name, "more bytes came than were asked for");
                       const auto page = room.first(page_bytes(run.first));
                       const auto piece = bytes.first(std::min(bytes.size(), page.size() - filled));
                       std::ranges::copy(piece, page.begin() + static_cast<std::ptrdiff_t>(filled));
                       filled += piece.size();
                       bytes = bytes.subspan(piece.size());
                       if (filled < page.size()) continue;
                       write_page(run.first++, page);
                       filled = 0;
                     }
                   });
    if (run.first != end) throw Error(Fault::network, object_->name, "fewer bytes came than were asked for");
  }

  const RemoteObject* object_;
  const Execution* execution_;
  Spool spool_;
  std::vector<bool> is_here_;  // as far as it was before fetch_rest()
};

}  // namespace

Digest download(const FoundObject& found, OutputFile& output, const std::filesystem::path& directory,
                const Execution& transfers) {
  if (found.is_whole()) {
    output.append(found.beginning);
    transfers.progress->advance(found.beginning.size());
    return blake3(found.beginning_bytes());
  }
  Download download(found.object, directory, transfers);
  download.take(found.beginning_bytes());
  download.fetch_rest();
  return download.finish(output);
}

}  // namespace wdelta
