// SPDX-License-Identifier: Apache-2.0
// The entry of a branch, its seal put right.
#include "base/error.hpp"
#include "base/output_file.hpp"
#include "fuzz/reseal.hpp"
#include "repo/refs.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace {

using namespace wdelta;

/// A store of one key that nobody writes to.
class OneKeyStore final : public Store {
 public:
  OneKeyStore(std::string key, std::string text) : key_(std::move(key)), text_(std::move(text)) {}
  const std::string& name() const override { return name_; }
  std::shared_ptr<const ByteReader> get(const std::string& key) const override {
    if (key != key_) return nullptr;
    return std::make_shared<MemoryReader>(std::vector<std::uint8_t>(text_.begin(), text_.end()), key);
  }
  void put(const std::string&, std::string_view) override { std::abort(); }
  OutputFile stage() override { std::abort(); }
  std::filesystem::path staging_path() override { std::abort(); }
  void put_staged(const std::string&, OutputFile&&) override { std::abort(); }
  bool create(const std::string&, std::string_view) override { std::abort(); }
  std::vector<Listed> list(const std::string&) const override { return {{key_, text_.size()}}; }
  void remove(const std::string&) override { std::abort(); }
  bool remove_older(const std::string&, std::int64_t) override { std::abort(); }
  void remove_leftovers(std::int64_t, const IsOurs&) override { std::abort(); }

 private:
  std::string name_ = "store";
  std::string key_;
  std::string text_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size_bytes) {
  OneKeyStore store("branches/main/0000000000000001", fuzz::resealed_text(bytes, size_bytes));
  try {
    const RefState state = Refs(store, {}).read(RefKind::branch, "main");
    if (state.number != 1) std::abort();
  } catch (const Error& error) {
    if (error.fault() != Fault::corrupt && error.fault() != Fault::unsupported) std::abort();
  }
  return 0;
}
