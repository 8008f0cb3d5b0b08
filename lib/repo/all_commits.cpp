// SPDX-License-Identifier: Apache-2.0
#include "repo/all_commits.hpp"

#include "base/error.hpp"

#include <map>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>

namespace wdelta {

namespace {

struct Node {
  CommitSummary commit;
  std::optional<Digest> parent;
  std::size_t child_count = 0;
};
using Nodes = std::map<Digest, Node>;

/// Adds a commit and those of its ancestors that are not known yet.
void add_line(Nodes& nodes, const Repository& repository, const Digest& tip, const Execution& execution) {
  Node* child = nullptr;
  repository.walk(tip, [&](const CommitSummary& commit) {
    execution.check_stop();
    const auto [node, is_new] = nodes.try_emplace(commit.id);
    if (child != nullptr) {
      child->parent = commit.id;
      ++node->second.child_count;
    }
    if (!is_new) return false;
    node->second.commit = commit;
    child = &node->second;
    return true;
  });
}

std::vector<CommitSummary> newest_first(Nodes nodes, const std::string& repository) {
  const auto is_older = [](const Node* a, const Node* b) {
    return std::tie(a->commit.time, a->commit.id) < std::tie(b->commit.time, b->commit.id);
  };
  std::priority_queue<Node*, std::vector<Node*>, decltype(is_older)> ready(is_older);  // all their children were given
  for (auto& [id, node] : nodes) {
    if (node.child_count == 0) ready.push(&node);
  }
  std::vector<CommitSummary> commits;
  while (!ready.empty()) {
    Node* const node = ready.top();
    ready.pop();
    if (node->parent) {
      Node& parent = nodes.at(*node->parent);
      if (--parent.child_count == 0) ready.push(&parent);
    }
    commits.push_back(std::move(node->commit));
  }
  // No commit can name itself, but a manifest may tell anything of those that are farther behind it.
  if (commits.size() != nodes.size()) {
    throw Error(Fault::corrupt, repository, "what its manifests tell of their ancestors goes in a circle",
                "run wdelta verify REPO");
  }
  return commits;
}

}  // namespace

std::vector<CommitSummary> all_commits(const Repository& repository, const Execution& execution) {
  Nodes nodes;
  for (const RefKind kind : {RefKind::branch, RefKind::tag}) {
    for (const auto& [name, ref] : repository.refs().list(kind)) add_line(nodes, repository, *ref.commit, execution);
  }
  for (const Store::Listed& listed : repository.store().list("commits/")) {
    const auto id = commit_of_key(listed.key);
    if (!id || nodes.contains(*id)) continue;
    try {
      add_line(nodes, repository, *id, execution);
    } catch (const Error& error) {
      // Where gc has taken it meanwhile, as nothing names it, there is nothing to show.
      if (error.fault() != Fault::corrupt || repository.store().get(listed.key) != nullptr) throw;
    }
  }
  return newest_first(std::move(nodes), repository.name());
}

}  // namespace wdelta
