// SPDX-License-Identifier: Apache-2.0
#include "revisions.hpp"

#include "base/printable.hpp"
#include "format.hpp"
#include "repo/repository.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

namespace wdelta::cmd {

namespace {

// So many commits are looked at, and so many are offered to someone who typed nothing of a revision yet.
constexpr std::size_t k_most_commits = 1000;
constexpr std::size_t k_newest_commits = 20;

// Shells hand on what was typed.
std::string without_tilde(const std::string& path) {
  const char* home = std::getenv("HOME");
  return path.starts_with("~/") && home != nullptr ? home + path.substr(1) : path;
}

std::string described(const CommitSummary& commit) {
  std::string title = printable(commit.title);
  std::size_t end = std::min<std::size_t>(title.size(), 60);
  while (end < title.size() && (static_cast<unsigned char>(title[end]) & 0xc0) == 0x80) --end;  // inside a character
  title.resize(end);
  return title;
}

// Steps are looked for on main only.
enum class Steps { offered, hidden };

class Revisions {
 public:
  Revisions(Repository repository, std::string prefix)
      : repository_(std::move(repository)), prefix_(std::move(prefix)) {}

  void add_refs(RefKind kind) {
    for (const auto& [name, ref] : repository_.refs().list(kind)) {
      // A key is whatever someone called it; only what can be a name is offered to a shell.
      if (why_not_a_ref_name(name) != nullptr) continue;
      add(name, kind == RefKind::branch ? "branch" : "tag");
      if (kind == RefKind::branch) tips_[name] = *ref.commit;
    }
  }

  void add_commits() {
    if (const auto main = tips_.find(k_main_branch); main != tips_.end()) add_history(main->second, Steps::offered);
    for (const auto& [name, tip] : tips_) {
      if (name != k_main_branch) add_history(tip, Steps::hidden);
    }
  }

  std::vector<Candidate> take() { return std::move(found_); }

 private:
  void add(const std::string& text, std::string description) {
    if (text.starts_with(prefix_) && seen_.insert(text).second) found_.push_back({text, std::move(description)});
  }

  void add_history(const Digest& tip, Steps steps) {
    std::size_t count = 0;
    repository_.walk(tip, [&](const CommitSummary& commit) {
      if (!visited_.insert(commit.id).second) return false;
      if (steps == Steps::offered && commit.step) add("step:" + std::to_string(*commit.step), described(commit));
      add(commit.id.hex().substr(0, 12), described(commit));
      return ++count < (prefix_.empty() ? k_newest_commits : k_most_commits);
    });
  }

  Repository repository_;
  std::string prefix_;
  std::map<std::string, Digest> tips_;
  std::set<Digest> visited_;
  std::set<std::string> seen_;
  std::vector<Candidate> found_;
};

template <typename Function>
void despite_errors(Function function) {
  try {
    function();
  } catch (const std::exception&) {
    // What a damaged repository still shows is offered, the rest is missing.
  }
}

}  // namespace

std::vector<Candidate> revision_candidates(const std::string& repository, const std::string& prefix,
                                           RevisionKinds kinds) {
  std::vector<Candidate> found;
  despite_errors([&] {
    // A shell that completes a word should not wait for a network.
    if (!directory_named(repository)) return;
    Revisions revisions(Repository::open(without_tilde(repository)), prefix);
    if (kinds != RevisionKinds::tags) despite_errors([&] { revisions.add_refs(RefKind::branch); });
    if (kinds != RevisionKinds::branches) despite_errors([&] { revisions.add_refs(RefKind::tag); });
    if (kinds == RevisionKinds::all) despite_errors([&] { revisions.add_commits(); });
    found = revisions.take();
  });
  return found;
}

}  // namespace wdelta::cmd
