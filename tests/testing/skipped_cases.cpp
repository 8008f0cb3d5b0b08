// SPDX-License-Identifier: Apache-2.0
// doctest counts the cases that a decorator skips; this names them.
#include <doctest/doctest.h>
#include <ostream>

namespace {

class SkippedCases final : public doctest::IReporter {
 public:
  explicit SkippedCases(const doctest::ContextOptions& options) : out_(*options.cout), no_skip_(options.no_skip) {}
  void test_case_skipped(const doctest::TestCaseData& test) override {
    if (test.m_skip && !no_skip_) out_ << "skipped: " << test.m_name << '\n';
  }

  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_start(const doctest::TestCaseData&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}

 private:
  std::ostream& out_;
  bool no_skip_;
};

DOCTEST_REGISTER_LISTENER("skipped", 1, SkippedCases);

}  // namespace
