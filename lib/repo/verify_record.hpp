// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/error.hpp"
#include "base/execution.hpp"
#include "repo/verify.hpp"
#include "store/store.hpp"

#include <string>

namespace wdelta {

/// What a look through a repository has found so far. A network that fails ends the look, whatever was looked at: all
/// else lies behind it.
class VerifyRecord {
 public:
  explicit VerifyRecord(const Execution& execution) : execution_(&execution) {}

  /// Runs `body`: what it throws is said of `object`.
  template <typename Body>
  void check(const std::string& object, Body body) {
    try {
      body();
    } catch (const Error& error) {
      if (error.fault() == Fault::network) throw;
      report.add(object, error);
    }
  }
  /// The same of what is listed, which counts.
  template <typename Body>
  void check(const Store::Listed& listed, Body body) {
    ++report.checked;
    report.checked_bytes += listed.size_bytes;
    execution_->check_stop();
    check(listed.key, body);
  }
  void offer_repair() {
    if (report.hint.empty()) report.hint = "wdelta push --repair --base DIR REPO restores what is lost from a copy";
  }

  VerifyReport report;

 private:
  const Execution* execution_;
};

}  // namespace wdelta
