// SPDX-License-Identifier: Apache-2.0
// Which commit a user means: wdelta(1), "Revisions".
#include "base/ascii.hpp"
#include "base/error.hpp"
#include "repo/repository.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fmt/format.h>

namespace wdelta {

namespace {

constexpr std::size_t k_shortest_prefix = 8;

std::optional<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Digest tip_of_main(const Repository& repository) {
  const RefState main = repository.refs().read(RefKind::branch, k_main_branch);
  if (!main.commit) {
    throw Error(
        Fault::not_found, k_main_branch,
        fmt::format("branch {} {}", main.number == 0 ? "has no commit yet in" : "was deleted in", repository.name()),
        main.number == 0 ? "" : "wdelta log --all REPO shows every commit there is");
  }
  return *main.commit;
}

Commit newest_with_step(const Repository& repository, std::uint64_t step) {
  Commit tip = repository.commit(tip_of_main(repository));
  if (tip.manifest.step == step) return tip;
  const auto row = ancestors_in_row(tip.manifest);
  if (const auto near = std::ranges::find(row, step, &CommitSummary::step); near != row.end())
    return repository.commit(*near);
  std::optional<CommitSummary> found;
  repository.walk(std::move(tip), [&](const CommitSummary& commit) {
    if (commit.step == step) found = commit;
    return !found;
  });
  if (!found)
    throw Error(Fault::not_found, fmt::format("step:{}", step),
                fmt::format("no commit on main of {} has that step", repository.name()));
  return repository.commit(*found);
}

std::optional<Digest> by_prefix(const Repository& repository, const std::string& prefix) {
  if (!is_hex(prefix, prefix.size()) || prefix.size() < k_shortest_prefix || prefix.size() > 64) return std::nullopt;
  std::optional<Digest> found;
  for (const Store::Listed& listed : repository.store().list("commits/")) {
    const auto id = commit_of_key(listed.key);
    if (!id || !id->hex().starts_with(prefix)) continue;
    if (found) throw Error(Fault::usage, prefix, "more than one commit begins with these digits", "give more of them");
    found = id;
  }
  return found;
}

Commit named(const Repository& repository, const std::string& name) {
  if (name.empty()) return repository.commit(tip_of_main(repository));
  if (name.starts_with("step:")) {
    const auto step = parse_number(std::string_view(name).substr(5));
    if (!step) throw Error(Fault::usage, name, "a step is a number");
    return newest_with_step(repository, *step);
  }
  // Whoever has a whole id need trust nobody: no name goes before it.
  if (const auto id = Digest::parse(name)) {
    const auto held = repository.store().get(commit_key(*id));  // so that over a network it is asked for once
    if (held) return repository.commit(*id);
  }
  if (why_not_a_ref_name(name) == nullptr) {
    for (const RefKind kind : {RefKind::branch, RefKind::tag}) {
      const RefState ref = repository.refs().read(kind, name);
      if (ref.commit) return repository.commit(*ref.commit);
    }
  }
  if (const auto id = by_prefix(repository, name)) return repository.commit(*id);
  throw Error(Fault::not_found, name, fmt::format("is no branch, tag or commit of {}", repository.name()),
              "wdelta log REPO lists the commits; an id needs 8 digits or more");
}

}  // namespace

Commit Repository::commit_at(const std::string& revision) const {
  std::string name = revision;
  std::uint64_t back = 0;
  for (std::size_t tilde; (tilde = name.rfind('~')) != std::string::npos; name.resize(tilde)) {
    const std::string count = name.substr(tilde + 1);
    const auto steps = count.empty() ? std::optional<std::uint64_t>(1) : parse_number(count);
    if (!steps || *steps > (1u << 30)) throw Error(Fault::usage, revision, "a number is expected behind '~'");
    back += *steps;
  }
  Commit start = named(*this, name);
  if (back == 0) return start;
  if (const auto row = ancestors_in_row(start.manifest); back <= row.size()) return commit(row[back - 1]);
  std::optional<CommitSummary> found;
  walk(std::move(start), [&](const CommitSummary& commit) {
    if (commit.distance == back) found = commit;
    return !found;
  });
  if (!found) throw Error(Fault::not_found, revision, "goes back behind the first commit");
  return commit(*found);
}

Location parse_location(const std::string& text, const std::string& default_repository) {
  const std::size_t at = text.rfind('@');
  if (at == std::string::npos) return {text, ""};
  const auto directory = directory_named(text);
  std::error_code ignored;
  if (directory && std::filesystem::exists(*directory, ignored)) return {text, ""};
  Location location{text.substr(0, at), text.substr(at + 1)};
  // As git has it. In a script it is a variable that is not set, which must not come to mean the tip of main, or all.
  if (location.revision.empty()) {
    throw Error(Fault::usage, text, "names no revision behind its '@'",
                "leave the '@' out for the repository, or the tip of its branch main");
  }
  if (location.repository.empty()) location.repository = default_repository;
  if (location.repository.empty()) {
    throw Error(Fault::usage, text, "names no repository", "set WDELTA_REPO, or write REPO@REV");
  }
  return location;
}

}  // namespace wdelta
