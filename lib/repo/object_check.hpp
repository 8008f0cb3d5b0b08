// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/reader.hpp"
#include "repo/repository.hpp"
#include "repo/verify_record.hpp"

#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace wdelta {

/// Checks the objects of a repository against their names.
class ObjectCheck {
 public:
  /// All must outlive the check.
  ObjectCheck(const Repository& repository, VerifyDepth depth, const Execution& execution, VerifyRecord& record)
      : repository_(&repository), depth_(depth), execution_(&execution), record_(&record) {}

  /// Looks at all that are listed; their bytes too unless the depth is quick, several at a time.
  void run();
  /// In bytes; nothing if it is not there. One that was pushed since run() listed them is checked now.
  std::optional<std::uint64_t> size_of(const std::string& name);
  /// Some that were read, by name, for who needs them again: not empty where the depth is deep, and the store has what
  /// it fetches lie in a place that has room for that.
  const std::map<std::string, std::shared_ptr<const ByteReader>>& kept() const { return kept_; }

 private:
  /// What an object turned out to be; neither digest nor failure where it lies behind a network that failed.
  struct Found {
    std::optional<Digest> digest;
    std::exception_ptr failure;
    std::shared_ptr<const ByteReader> kept;  // else null
  };

  std::vector<Found> read(const std::vector<Store::Listed>& objects);
  bool look_again(const std::string& name);
  [[noreturn]] void refuse(const std::string& key, const Digest& digest);

  const Repository* repository_;
  VerifyDepth depth_;
  const Execution* execution_;
  VerifyRecord* record_;
  std::exception_ptr cut_off_;  // what the network failed with
  std::map<std::string, std::uint64_t> sizes_bytes_;
  std::map<std::string, std::shared_ptr<const ByteReader>> kept_;
};

}  // namespace wdelta
