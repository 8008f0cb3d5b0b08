// SPDX-License-Identifier: Apache-2.0
#include "repo/object_writer.hpp"

#include "base/blake3.hpp"
#include "base/output_file.hpp"
#include "base/output_reader.hpp"
#include "base/reader_digest.hpp"
#include "base/steady_reader.hpp"
#include "repo/gc_plan.hpp"

#include <array>
#include <utility>

namespace wdelta {

namespace {
std::string object_name(const Digest& digest, bool safetensors) {
  return digest.hex() + (safetensors ? ".safetensors" : "");
}
}  // namespace

Digest ObjectWriter::put_whole(const std::shared_ptr<const ByteReader>& file, const std::string& path) {
  const std::uint64_t size_bytes = file->size_bytes();
  if (size_bytes <= k_pack_file_bytes) {
    execution_->progress->advance(size_bytes);
    return put_whole(read_all(*file), path);
  }
  const auto keep = [&](const Digest& digest, const std::string& object) {
    recipes_.push_back({digest, size_bytes, {object, 0, size_bytes}, false, {}});
    count(recipes_.back());
    return digest;
  };
  if (store_->is_remote()) {
    // The file itself is what is sent: a copy would take as much room again.
    auto steady = std::make_shared<const SteadyReader>(file, *execution_);
    const Digest digest = steady->digest();
    if (has(digest)) {
      execution_->progress->advance(size_bytes);
      return digest;
    }
    std::string object = object_name(digest, is_weights(path));
    for (std::uint64_t zeros = 1; is_doomed(object); ++zeros) {
      auto longer = std::make_shared<ResizedReader>(steady, size_bytes + zeros);
      steady = std::make_shared<const SteadyReader>(std::move(longer), *execution_);
      object = object_name(steady->digest(), false);
    }
    sender_.send(object_key(object), std::move(steady));
    return keep(digest, object);
  }
  OutputFile staged = store_->stage();
  const Digest digest = copy_and_digest(*file, staged, *execution_);
  if (has(digest)) return digest;
  const std::string object = object_name(digest, is_weights(path));
  store_->put_staged(object_key(object), std::move(staged));
  return keep(digest, object);
}

Digest ObjectWriter::put_whole(std::span<const std::uint8_t> file, const std::string& path) {
  const Digest digest = blake3(file);
  if (!has(digest)) {
    pack({digest, file.size(), {"", 0, file.size()}, false, {}}, file,
         is_weights(path) ? Content::safetensors : Content::other);
  }
  return digest;
}

void ObjectWriter::put_copy(const FileIdentity& file, const ModelCommit& from, const ModelFile& source) {
  if (has(file.digest)) return;
  // No byte can be added to a copy, but there are two names for it.
  std::string object = object_name(file.digest, is_weights(file.path));
  if (is_doomed(object)) object = object_name(file.digest, !is_weights(file.path));
  // gc looks at its plan again before it removes anything.
  if (is_doomed(object)) store_->remove(k_gc_plan_key);
  store_->put_copy(object_key(object), from, source);
  recipes_.push_back({file.digest, file.size_bytes, {object, 0, file.size_bytes}, false, {}});
  put_.insert(file.digest);
}

void ObjectWriter::refer(const FileIdentity& file, const ModelCommit& from, const ModelFile& source) {
  if (has(file.digest)) return;
  Recipe recipe{file.digest, file.size_bytes, {"", 0, file.size_bytes}, false, {}};
  recipe.reference = ModelReference{from, source.path, source.etag};
  recipes_.push_back(std::move(recipe));
  put_.insert(file.digest);
}

void ObjectWriter::put_delta(DeltaWriter::Finished&& delta, const DeltaDescription& description) {
  Recipe recipe{description.result.digest, description.result.size_bytes, {"", 0, delta.size_bytes}, true, {}};
  for (const FileIdentity& base : description.base) recipe.base.push_back(base.digest);
  if (delta.size_bytes <= k_pack_file_bytes) {
    std::vector<std::uint8_t> bytes(delta.size_bytes);
    delta.output.read_at(0, bytes);
    return pack(std::move(recipe), bytes, Content::safetensors);
  }
  recipe.bytes.object = object_name(delta.file_digest, true);
  for (std::uint64_t zeros = 0; is_doomed(recipe.bytes.object); ++zeros) {
    NoProgress silent;
    delta.output.write_at(delta.size_bytes + zeros, std::array<std::uint8_t, 1>{});
    const OutputReader longer(delta.output, "");
    recipe.bytes.object = object_name(digest_of(longer, {execution_->threads, &silent, execution_->stop}), false);
  }
  store_->put_staged(object_key(recipe.bytes.object), std::move(delta.output));
  recipes_.push_back(std::move(recipe));
  count(recipes_.back());
}

// What a plan of gc names may be removed at any moment: gc looks at an object's age before, but stores that can remove
// a key only if it is old are few, and one that is put in between would go with it. The same bytes then have zero bytes
// behind them, and so another name. In a directory nothing that is put goes (store/directory_store).
bool ObjectWriter::is_doomed(const std::string& object) {
  if (!store_->is_remote()) return false;
  if (!doomed_) {
    const std::optional<GcPlan> plan = read_gc_plan(*store_);
    doomed_.emplace();
    if (plan) doomed_->insert(plan->keys.begin(), plan->keys.end());
  }
  return doomed_->contains(object_key(object));
}

void ObjectWriter::pack(Recipe recipe, std::span<const std::uint8_t> bytes, Content content) {
  recipe.bytes.offset = pack_.size();
  pack_.append(bytes.begin(), bytes.end());
  count(recipe);
  in_pack_.push_back(std::move(recipe));
  last_in_pack_ = content;
  if (pack_.size() >= k_pack_bytes) finish_pack();
}

void ObjectWriter::count(const Recipe& recipe) {
  put_.insert(recipe.digest);
  stored_bytes_ += recipe.bytes.length;
}

void ObjectWriter::finish() {
  finish_pack();
  sender_.wait();
}

void ObjectWriter::finish_pack() {
  if (in_pack_.empty()) return;
  // What is alone in its pack is an object as any other.
  std::string object = object_name(blake3(pack_), in_pack_.size() == 1 && last_in_pack_ == Content::safetensors);
  while (is_doomed(object)) {
    pack_.push_back('\0');
    object = object_name(blake3(pack_), false);
  }
  store_->put(object_key(object), pack_);
  for (Recipe& recipe : in_pack_) {
    recipe.bytes.object = object;
    recipes_.push_back(std::move(recipe));
  }
  in_pack_.clear();
  pack_.clear();
}

}  // namespace wdelta
