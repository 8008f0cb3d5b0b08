// SPDX-License-Identifier: Apache-2.0
#include "repo/object_writer.hpp"

#include "base/blake3.hpp"
#include "base/reader_digest.hpp"

#include <utility>

namespace wdelta {

namespace {
std::string object_name(const Digest& digest, bool safetensors) {
  return digest.hex() + (safetensors ? ".safetensors" : "");
}
}  // namespace

Digest ObjectWriter::put_whole(const ByteReader& file, const std::string& path) {
  if (file.size_bytes() <= k_pack_file_bytes) {
    execution_->progress->advance(file.size_bytes());
    return put_whole(read_all(file), path);
  }
  OutputFile staged = store_->stage();
  const Digest digest = copy_and_digest(file, staged, *execution_);
  if (has(digest)) return digest;
  const std::string object = object_name(digest, is_weights(path));
  store_->put_staged(object_key(object), std::move(staged));
  recipes_.push_back({digest, file.size_bytes(), {object, 0, file.size_bytes()}, false, {}});
  count(recipes_.back());
  return digest;
}

Digest ObjectWriter::put_whole(std::span<const std::uint8_t> file, const std::string& path) {
  const Digest digest = blake3(file);
  if (!has(digest)) {
    pack({digest, file.size(), {"", 0, file.size()}, false, {}}, file,
         is_weights(path) ? Content::safetensors : Content::other);
  }
  return digest;
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
  store_->put_staged(object_key(recipe.bytes.object), std::move(delta.output));
  recipes_.push_back(std::move(recipe));
  count(recipes_.back());
}

void ObjectWriter::pack(Recipe recipe, std::span<const std::uint8_t> bytes, Content content) {
  recipe.bytes.offset = pack_.size();
  pack_.append(bytes.begin(), bytes.end());
  count(recipe);
  in_pack_.push_back(std::move(recipe));
  last_in_pack_ = content;
  if (pack_.size() >= k_pack_bytes) finish();
}

void ObjectWriter::count(const Recipe& recipe) {
  put_.insert(recipe.digest);
  stored_bytes_ += recipe.bytes.length;
}

void ObjectWriter::finish() {
  if (in_pack_.empty()) return;
  // What is alone in its pack is an object as any other.
  const Digest digest = blake3(std::span(reinterpret_cast<const std::uint8_t*>(pack_.data()), pack_.size()));
  const std::string object = object_name(digest, in_pack_.size() == 1 && last_in_pack_ == Content::safetensors);
  store_->put(object_key(object), pack_);
  for (Recipe& recipe : in_pack_) {
    recipe.bytes.object = object;
    recipes_.push_back(std::move(recipe));
  }
  in_pack_.clear();
  pack_.clear();
}

}  // namespace wdelta
