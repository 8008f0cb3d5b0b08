// SPDX-License-Identifier: Apache-2.0
#include "repo/object_writer.hpp"

#include "base/blake3.hpp"
#include "base/reader_digest.hpp"

namespace wdelta {

Digest ObjectWriter::put_whole(const ByteReader& file, const std::string& path) {
  OutputFile staged = store_->stage();
  const Digest digest = copy_and_digest(file, staged, *execution_);
  const std::string object = digest.hex() + (is_weights(path) ? ".safetensors" : "");
  store_->put_staged(object_key(object), std::move(staged));
  recipes_.push_back({digest, file.size_bytes(), {object, 0, file.size_bytes()}, false, {}});
  stored_bytes_ += file.size_bytes();
  return digest;
}

void ObjectWriter::put_delta(DeltaWriter::Finished&& delta, const DeltaDescription& description) {
  const std::string object = delta.file_digest.hex() + ".safetensors";
  store_->put_staged(object_key(object), std::move(delta.output));
  Recipe recipe{description.result.digest, description.result.size_bytes, {object, 0, delta.size_bytes}, true, {}};
  for (const FileIdentity& base : description.base) recipe.base.push_back(base.digest);
  recipes_.push_back(std::move(recipe));
  stored_bytes_ += delta.size_bytes;
}

void ObjectWriter::put_packed(std::string content, const Digest& digest) {
  in_pack_.push_back({digest, content.size(), {"", pack_.size(), content.size()}, false, {}});
  pack_ += content;
  if (pack_.size() >= k_pack_bytes) finish();
}

void ObjectWriter::finish() {
  if (in_pack_.empty()) return;
  const std::string object = blake3(std::span(reinterpret_cast<const std::uint8_t*>(pack_.data()), pack_.size())).hex();
  store_->put(object_key(object), pack_);
  for (Recipe& recipe : in_pack_) {
    recipe.bytes.object = object;
    recipes_.push_back(std::move(recipe));
  }
  stored_bytes_ += pack_.size();
  in_pack_.clear();
  pack_.clear();
}

}  // namespace wdelta
