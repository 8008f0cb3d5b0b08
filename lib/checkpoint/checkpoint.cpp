// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/checkpoint.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/leftovers.hpp"
#include "base/path.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace wdelta {

namespace fs = std::filesystem;

namespace {

bool is_left_out(const fs::path& relative) {
  const std::string name = relative.filename().string();
  if (name == ".wdelta" || name == ".git") return true;
  if (name == "huggingface" && relative.parent_path().filename() == ".cache") return true;
  return is_temporary_name(name);
}

CheckpointFile look_at(const fs::path& on_disk, std::string place) {
  if (const char* reason = why_not_a_place(place))
    throw Error(Fault::unsupported, on_disk.string(), fmt::format("its name {}, so it cannot be kept", reason));
  const auto stamp = stamp_of(on_disk);
  if (!stamp) throw Error(Fault::local, on_disk.string(), "vanished, or is a symlink to nothing");
  const auto open = [on_disk]() -> std::shared_ptr<const ByteReader> {
    try {
      return std::make_shared<File>(File::open(on_disk));
    } catch (const Error& error) {
      if (error.fault() != Fault::not_found) throw;
      throw Error(Fault::local, on_disk.string(), "was removed or renamed since it was looked at");
    }
  };
  return {std::move(place), stamp->size_bytes, stamp->executable, open, stamp, std::nullopt};
}

struct Found {
  std::vector<CheckpointFile> files;
  std::vector<std::string> others;
};

void walk(const fs::path& directory, const fs::path& relative, const PathFilter& filter, Found& found) {
  try {
    for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
      const fs::path relative_path = relative / entry.path().filename();
      if (is_left_out(relative_path)) continue;
      if (!entry.is_symlink() && entry.is_directory()) {
        walk(entry.path(), relative_path, filter, found);
        continue;
      }
      const std::string place = relative_path.generic_string();
      if (!filter.takes(place)) continue;
      std::error_code leads_nowhere;
      if (entry.is_regular_file(leads_nowhere) && why_not_a_place(place) == nullptr) {
        found.files.push_back(look_at(entry.path(), place));
      } else {
        found.others.push_back(place);
      }
    }
  } catch (const fs::filesystem_error& error) {
    if (!relative.empty() && error.code() == std::errc::no_such_file_or_directory)
      throw Error(Fault::local, directory.string(), "was removed or renamed since it was looked at");
    throw system_error(error.code().value(), directory.string(), "read directory");
  }
}

// A saver writes its shards one by one and the index last or first: an index that names more than there is means that
// the save is not done, and a commit of it would be worth nothing.
std::optional<Error> missing_shard_of(const CheckpointFile& index, const Checkpoint& checkpoint,
                                      const fs::path& directory) {
  constexpr std::uint64_t k_longest_index = 1'000'000'000;
  const auto file = index.open();
  if (file->size_bytes() > k_longest_index) throw Error(Fault::corrupt, file->name(), "is too large for an index");
  const std::vector<std::uint8_t> text = read_all(*file);
  constexpr const char* k_wait_hint = "it may still be being written: push --wait-stable S waits until it is done";
  ParsedJson json;
  try {
    json = parse_json({reinterpret_cast<const char*>(text.data()), text.size()}, file->name());
  } catch (const Error& error) {
    return Error(Fault::local, error.object(), error.what(), k_wait_hint);
  }
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object()) return std::nullopt;
  const std::string folder = index.path.substr(0, index.path.find_last_of('/') + 1);
  for (const auto& [tensor, shard] : json["weight_map"].items()) {
    if (!shard.is_string()) continue;
    const std::string place = fs::path(folder + shard.get<std::string>()).lexically_normal().generic_string();
    // A commit would lack it.
    if (const char* reason = why_not_a_place(place)) {
      return Error(
          Fault::local, file->name(),
          fmt::format("names shard {:?}, which cannot be kept: its name {}", shard.get<std::string>(), reason));
    }
    std::error_code error;  // of a name that no file can have
    if (checkpoint.find(place) == nullptr && !fs::is_regular_file(directory / place, error)) {
      return Error(Fault::local, file->name(),
                   fmt::format("names shard {:?}, which is not there", shard.get<std::string>()), k_wait_hint);
    }
  }
  return std::nullopt;
}

// A commit of two files that some file systems take for one could not be pulled there, and pull refuses it everywhere.
void require_no_collision(const std::vector<CheckpointFile>& files, const fs::path& directory) {
  std::vector<std::string_view> paths;
  for (const CheckpointFile& file : files) paths.push_back(file.path);
  if (const auto collision = find_collision(std::move(paths))) {
    throw Error(Fault::unsupported, directory.string(),
                fmt::format("holds {:?} and {:?}, which are one where case does not count", collision->first,
                            collision->second),
                "rename one of them");
  }
}

}  // namespace

void require_digest(const CheckpointFile& file, const Digest& found) {
  if (!file.digest || *file.digest == found) return;
  throw Error(Fault::corrupt, file.path,
              fmt::format("is read with digest {}, {} expected: what it is made from is damaged", found.hex(),
                          file.digest->hex()),
              "wdelta verify REPO tells what is damaged");
}

bool is_weights(std::string_view path) { return path.ends_with(".safetensors"); }

bool is_loaded_by_name(std::string_view path) { return is_weights(path) || path.ends_with(".safetensors.index.json"); }

Checkpoint::Checkpoint(std::string name, std::vector<CheckpointFile> files)
    : name_(std::move(name)), files_(std::move(files)) {
  std::ranges::sort(files_, {}, &CheckpointFile::path);
}

Checkpoint Checkpoint::open(const fs::path& path, Shards shards, const PathFilter& filter, Others others) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::none) throw system_error(error.value(), path.string(), "stat");
  if (!fs::exists(status)) throw Error(Fault::not_found, path.string(), "no such file or directory");
  if (!fs::is_directory(status)) {
    Checkpoint checkpoint(path.string(), {look_at(path, path.filename().string())});
    checkpoint.single_file_ = checkpoint.opened_ = true;
    return checkpoint;
  }
  Found found;
  walk(path, {}, filter, found);
  if (others == Others::refuse) {
    for (const std::string& place : found.others) {
      if (fs::is_directory(path / place, error)) {
        throw Error(Fault::local, (path / place).string(), "is a symlink to a directory, which no commit can hold",
                    "push --exclude leaves it out");
      }
      // Looking at it as at a file says what is wrong with it.
      found.files.push_back(look_at(path / place, place));
    }
    found.others.clear();
  }
  Checkpoint checkpoint(path.string(), std::move(found.files));
  checkpoint.opened_ = true;
  checkpoint.filter_ = filter;
  checkpoint.others_ = std::move(found.others);
  std::ranges::sort(checkpoint.others_);
  if (shards == Shards::any) return checkpoint;
  require_no_collision(checkpoint.files_, path);
  if (const auto missing = checkpoint.missing_shard()) throw Error(*missing);
  return checkpoint;
}

std::optional<Error> Checkpoint::missing_shard() const {
  if (single_file_) return std::nullopt;
  for (const CheckpointFile& file : files_) {
    if (!file.path.ends_with(".safetensors.index.json")) continue;
    if (auto missing = missing_shard_of(file, *this, name_)) return missing;
  }
  return std::nullopt;
}

bool Checkpoint::has_stamps_of(const Checkpoint& other) const {
  return std::ranges::equal(files_, other.files_, [](const CheckpointFile& a, const CheckpointFile& b) {
    return a.path == b.path && a.stamp == b.stamp;
  });
}

void Checkpoint::check_unchanged() const {
  if (!opened_) return;
  try {
    // What a commit cannot hold is a change too, where it was refused before.
    const Checkpoint now = open(name_, Shards::any, filter_, Others::tell_apart);
    if (now.has_stamps_of(*this) && now.others_ == others_) return;
  } catch (const Error& error) {
    if (error.fault() != Fault::not_found) throw;
  }
  throw Error(Fault::local, name_, "changed while it was read",
              "try again once it is written; push --wait-stable S waits until it is");
}

const CheckpointFile* Checkpoint::find(std::string_view path) const {
  const auto found = std::ranges::lower_bound(files_, path, {}, &CheckpointFile::path);
  return found != files_.end() && found->path == path ? &*found : nullptr;
}

}  // namespace wdelta
