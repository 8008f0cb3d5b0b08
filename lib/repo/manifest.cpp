// SPDX-License-Identifier: Apache-2.0
#include "repo/manifest.hpp"

#include "base/base64.hpp"
#include "base/blake3.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "base/path.hpp"
#include "delta/file_identity_json.hpp"

#include <algorithm>
#include <bit>
#include <fmt/format.h>
#include <map>

namespace wdelta {

namespace {

constexpr std::size_t k_longest_title = 200;
constexpr std::uint64_t k_farthest_ancestor = std::uint64_t{1} << 48;

constexpr const char* k_commit_format = "wdelta-commit";

Json number_or_null(const std::optional<std::uint64_t>& number) { return number ? Json(*number) : Json(nullptr); }

std::optional<std::uint64_t> number_or_null_member(const ParsedJson& json, const char* name,
                                                   const std::string& object) {
  if (member(json, name, object).is_null()) return std::nullopt;
  return size_member(json, name, object);
}

Json to_json(const ManifestFile& file) {
  Json json = to_json(file.identity);
  json["executable"] = file.executable;
  if (file.content) {
    if (is_utf8(*file.content)) {
      json["text"] = *file.content;
    } else {
      json["base64"] = to_base64(*file.content);
    }
  }
  return json;
}

ManifestFile manifest_file_from(const ParsedJson& json, const std::string& object) {
  ManifestFile file{file_identity_from(json, object), bool_member(json, "executable", object), std::nullopt};
  if (json.contains("text")) {
    file.content = string_member(json, "text", object);
  } else if (json.contains("base64")) {
    file.content = from_base64(string_member(json, "base64", object));
    if (!file.content)
      throw Error(Fault::corrupt, object, fmt::format("content of {:?} is not base64", file.identity.path));
  }
  if (file.content && file.content->size() != file.identity.size_bytes) {
    throw Error(Fault::corrupt, object,
                fmt::format("content of {:?} has not the size it should have", file.identity.path));
  }
  return file;
}

// Paths are ordered and distinct, none goes through another as if that were a directory, and none is another in other
// case.
void require_distinct(const std::vector<ManifestFile>& files, const std::string& object) {
  for (std::size_t i = 1; i < files.size(); ++i) {
    const std::string& before = files[i - 1].identity.path;
    const std::string& path = files[i].identity.path;
    if (before >= path)
      throw Error(Fault::corrupt, object, fmt::format("path {:?} is out of order or there twice", path));
  }
  std::vector<std::string_view> paths;
  for (const ManifestFile& file : files) paths.push_back(file.identity.path);
  if (const auto collision = find_collision(std::move(paths))) {
    throw Error(Fault::corrupt, object,
                fmt::format("paths {:?} and {:?} collide", collision->first, collision->second));
  }
}

// As now_text() has it. All of it goes into the manifests of commits to come.
std::string time_member(const ParsedJson& json, const std::string& object) {
  constexpr std::string_view k_form = "0000-00-00T00:00:00Z";
  std::string time = string_member(json, "time", object);
  const auto fits = [](char c, char form) { return form == '0' ? c >= '0' && c <= '9' : c == form; };
  if (std::ranges::equal(time, k_form, fits)) return time;
  throw Error(Fault::corrupt, object,
              fmt::format("member \"time\" is {:?}, a time as 2026-11-21T06:15:00Z expected", time.substr(0, 40)));
}

CommitSummary summary_from(const ParsedJson& json, const std::string& object) {
  CommitSummary summary = {size_member(json, "distance", object), digest_member(json, "id", object),
                           time_member(json, object), number_or_null_member(json, "step", object),
                           string_member(json, "message", object)};
  const auto refuse = [&](const std::string& what) {
    throw Error(Fault::corrupt, object, fmt::format("ancestor {} {}", summary.id.hex(), what));
  };
  if (summary.distance > k_farthest_ancestor)
    refuse(fmt::format("is {} commits back, at most {} expected", summary.distance, k_farthest_ancestor));
  if (summary.title.size() > k_longest_title || summary.title.find('\n') != std::string::npos)
    refuse(fmt::format("has no title of one line of at most {} bytes", k_longest_title));
  return summary;
}

}  // namespace

const ManifestFile* Manifest::find(std::string_view path) const {
  const auto found = std::ranges::lower_bound(
      files, path, {}, [](const ManifestFile& file) -> std::string_view { return file.identity.path; });
  return found != files.end() && found->identity.path == path ? &*found : nullptr;
}

std::uint64_t Manifest::size_bytes() const {
  std::uint64_t total = 0;
  for (const ManifestFile& file : files) total += file.identity.size_bytes;
  return total;
}

std::vector<Digest> Manifest::stored_digests() const {
  std::vector<Digest> digests;
  for (const ManifestFile& file : files) {
    if (!file.content) digests.push_back(file.identity.digest);
  }
  return digests;
}

std::string to_text(const Manifest& manifest) {
  Json meta = Json::object();
  for (const auto& [key, value] : manifest.meta) meta[key] = value;
  Json files = Json::array();
  for (const ManifestFile& file : manifest.files) files.push_back(to_json(file));
  Json ancestors = Json::array();
  for (const CommitSummary& ancestor : manifest.ancestors) {
    ancestors.push_back({{"distance", ancestor.distance},
                         {"id", ancestor.id.hex()},
                         {"time", ancestor.time},
                         {"step", number_or_null(ancestor.step)},
                         {"message", ancestor.title}});
  }
  const Json json = {{"format", k_commit_format},
                     {"version", 1},
                     {"parent", manifest.parent ? Json(manifest.parent->hex()) : Json(nullptr)},
                     {"time", manifest.time},
                     {"author", manifest.author},
                     {"message", manifest.message},
                     {"step", number_or_null(manifest.step)},
                     {"meta", meta},
                     {"files", files},
                     {"recipes", manifest.recipes.hex()},
                     {"ancestors", ancestors}};
  return json.dump() + "\n";
}

Manifest manifest_from(std::string_view text, const std::string& object) {
  const ParsedJson json = parse_json(text, object);
  require_format(json, k_commit_format, object);
  Manifest manifest;
  if (!member(json, "parent", object).is_null()) manifest.parent = digest_member(json, "parent", object);
  manifest.time = time_member(json, object);
  manifest.author = string_member(json, "author", object);
  manifest.message = string_member(json, "message", object);
  manifest.step = number_or_null_member(json, "step", object);
  const ParsedJson& meta = member(json, "meta", object);
  if (!meta.is_object()) throw Error(Fault::corrupt, object, "member \"meta\" is not an object");
  for (const auto& [key, value] : meta.items())
    manifest.meta.emplace_back(key, string_member(meta, key.c_str(), object));
  // What hashes a file takes memory for all of its segments: 32 bytes for four MiB.
  constexpr std::uint64_t k_largest_file_bytes = std::uint64_t{1} << 45;
  // So that sums of them, with what a disk holds already, stay below 2^63.
  constexpr std::uint64_t k_most_bytes = std::uint64_t{1} << 62;
  std::uint64_t left_bytes = k_most_bytes;
  for (const ParsedJson& file : array_member(json, "files", object)) {
    manifest.files.push_back(manifest_file_from(file, object));
    const std::uint64_t size_bytes = manifest.files.back().identity.size_bytes;
    if (size_bytes > k_largest_file_bytes) {
      throw Error(Fault::corrupt, object,
                  fmt::format("{:?} has {} bytes, at most {} expected", manifest.files.back().identity.path, size_bytes,
                              k_largest_file_bytes));
    }
    if (size_bytes > left_bytes) throw Error(Fault::corrupt, object, "its files are larger than any disk");
    left_bytes -= size_bytes;
  }
  require_distinct(manifest.files, object);
  manifest.recipes = digest_member(json, "recipes", object);
  std::uint64_t distance = 0;
  for (const ParsedJson& value : array_member(json, "ancestors", object)) {
    manifest.ancestors.push_back(summary_from(value, object));
    const CommitSummary& ancestor = manifest.ancestors.back();
    if (ancestor.distance <= distance ||
        (distance == 0 && (ancestor.distance != 1 || ancestor.id != manifest.parent))) {
      throw Error(Fault::corrupt, object, "its ancestors are out of order");
    }
    distance = ancestor.distance;
  }
  if (manifest.parent.has_value() == manifest.ancestors.empty()) {
    throw Error(Fault::corrupt, object, "its ancestors do not begin with its parent");
  }
  return manifest;
}

std::span<const std::uint8_t> proven_content(const ManifestFile& file, const std::string& object) {
  const std::span bytes(reinterpret_cast<const std::uint8_t*>(file.content->data()), file.content->size());
  if (const Digest found = blake3(bytes); found != file.identity.digest) {
    throw Error(Fault::corrupt, object,
                fmt::format("content of {:?} in the manifest has digest {}, {} expected", file.identity.path,
                            found.hex(), file.identity.digest.hex()));
  }
  return bytes;
}

CommitSummary summary_of(const Digest& id, const Manifest& manifest, std::uint64_t distance) {
  std::string title = manifest.message.substr(0, manifest.message.find('\n'));
  if (title.size() > k_longest_title) {
    title.resize(k_longest_title);
    while (!is_utf8(title)) title.pop_back();
  }
  return {distance, id, manifest.time, manifest.step, title};
}

std::string in_words(const CommitSummary& summary) {
  return fmt::format("{} ({}, {}, {:?})", summary.id.hex(),
                     summary.step ? fmt::format("step {}", *summary.step) : "no step", summary.time, summary.title);
}

std::span<const CommitSummary> ancestors_in_row(const Manifest& manifest) {
  std::size_t count = 0;
  while (count < manifest.ancestors.size() && manifest.ancestors[count].distance == count + 1) ++count;
  return std::span(manifest.ancestors).first(count);
}

// The recent ones in a row are the parent's, moved by one. Of those farther back the farthest in each stretch from 2^k
// to 2^(k+1) stays: as all move on by one with each commit, none can be kept at exactly 2^k.
std::vector<CommitSummary> ancestors_of_child(const Digest& id, const Manifest& manifest) {
  std::vector<CommitSummary> kept = {summary_of(id, manifest, 1)};
  for (CommitSummary ancestor : manifest.ancestors) {
    ++ancestor.distance;
    const bool replaces = ancestor.distance > k_recent_ancestors && kept.back().distance > k_recent_ancestors &&
                          std::bit_floor(kept.back().distance) == std::bit_floor(ancestor.distance);
    if (replaces) kept.pop_back();
    kept.push_back(ancestor);
  }
  return kept;
}

}  // namespace wdelta
