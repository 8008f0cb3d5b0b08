// SPDX-License-Identifier: Apache-2.0
// The words of doctest that the tests of base and engine use, for machines without it: found only where CMake found no
// doctest. Unlike doctest this shows no values of what was compared: CAPTURE what must be known.
#pragma once

#include <atomic>
#include <cstdio>
#include <exception>
#include <functional>
#include <iostream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace doctest {

struct String : std::string {
  using std::string::string;
};
template <typename Value>
struct StringMaker;

struct skip {
  explicit skip(bool skips = true) : is_skipped(skips) {}
  bool is_skipped;
};

namespace absent {

struct Case {
  std::string name;
  const char* file = "";
  int line = 0;
  void (*body)() = nullptr;
  bool is_skipped = false;
};
inline Case operator*(Case test, const skip& decorator) {
  test.is_skipped = decorator.is_skipped;
  return test;
}
/// TEST_CASE("name" * decorator) begins with this, for no operator takes a literal and nothing of ours.
struct Unnamed {};
inline Case operator*(Unnamed, const char* name) { return {name}; }

inline std::vector<Case>& cases() {
  static std::vector<Case> all;
  return all;
}
struct Registration {
  Registration(Case test, const char* file, int line, void (*body)()) {
    test.file = file;
    test.line = line;
    test.body = body;
    cases().push_back(std::move(test));
  }
};

inline std::atomic<unsigned long>& checks() {
  static std::atomic<unsigned long> count = 0;
  return count;
}
inline std::atomic<unsigned long>& failures() {
  static std::atomic<unsigned long> count = 0;
  return count;
}

/// What CAPTURE and INFO say, asked only where a check fails. One list for each thread.
using Sayings = std::vector<const std::function<std::string()>*>;
inline Sayings& sayings() {
  thread_local Sayings list;
  return list;
}
class Saying {
 public:
  explicit Saying(std::function<std::string()> say) : say_(std::move(say)) { sayings().push_back(&say_); }
  Saying(const Saying&) = delete;
  ~Saying() { sayings().pop_back(); }

 private:
  std::function<std::string()> say_;
};

template <typename... Values>
std::string text_of(const Values&... values) {
  std::ostringstream text;
  const auto add = [&](const auto& value) {
    if constexpr (requires { text << value; }) {
      text << value;
    } else {
      text << "{?}";
    }
  };
  (add(values), ...);
  return text.str();
}

/// Ends a test case.
struct Ended {};

inline void fail(const char* file, int line, const std::string& what) {
  ++failures();
  std::ostringstream text;
  text << file << ':' << line << ": " << what << '\n';
  for (const auto* say : sayings()) text << "  " << (*say)() << '\n';
  std::cout << text.str();
}
inline void check(bool holds, const char* file, int line, const char* what) {
  ++checks();
  if (!holds) fail(file, line, what);
}
inline void require(bool holds, const char* file, int line, const char* what) {
  check(holds, file, line, what);
  if (!holds) throw Ended();
}

/// As doctest's own program: its options but `-tc=PART` are taken and not heeded.
inline int run(int argc, char** argv) {
  std::string wanted;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.starts_with("-tc=")) wanted = word.substr(4);
  }
  unsigned long passed = 0, failed = 0, skipped = 0;
  for (const Case& test : cases()) {
    if (test.name.find(wanted) == std::string::npos) continue;
    if (test.is_skipped) {
      std::cout << "skipped: " << test.name << '\n';
      ++skipped;
      continue;
    }
    const unsigned long before = failures();
    try {
      test.body();
    } catch (const Ended&) {
    } catch (const std::exception& error) {
      fail(test.file, test.line, std::string("threw: ") + error.what());
    } catch (...) {
      fail(test.file, test.line, "threw");
    }
    if (failures() == before) {
      ++passed;
    } else {
      ++failed;
      std::cout << "failed: " << test.name << '\n';
    }
  }
  std::cout << "test cases: " << passed + failed << " | " << passed << " passed | " << failed << " failed | " << skipped
            << " skipped\nassertions: " << checks() << " | " << failures() << " failed\n";
  return failed == 0 ? 0 : 1;
}

}  // namespace absent

class Context {
 public:
  Context(int argc, char** argv) : argc_(argc), argv_(argv) {}
  int run() { return absent::run(argc_, argv_); }

 private:
  int argc_;
  char** argv_;
};

}  // namespace doctest

#define WDELTA_JOIN_(a, b) a##b
#define WDELTA_JOIN(a, b) WDELTA_JOIN_(a, b)
#define WDELTA_TEST_CASE(body, name)                                                                         \
  static void body();                                                                                        \
  static const doctest::absent::Registration WDELTA_JOIN(body, _registered)(name, __FILE__, __LINE__, body); \
  static void body()
#define TEST_CASE(name) WDELTA_TEST_CASE(WDELTA_JOIN(wdelta_case_, __COUNTER__), doctest::absent::Unnamed() * name)
#define CHECK(...) \
  doctest::absent::check(static_cast<bool>(__VA_ARGS__), __FILE__, __LINE__, "CHECK( " #__VA_ARGS__ " )")
#define CHECK_FALSE(...) \
  doctest::absent::check(!static_cast<bool>(__VA_ARGS__), __FILE__, __LINE__, "CHECK_FALSE( " #__VA_ARGS__ " )")
#define REQUIRE(...) \
  doctest::absent::require(static_cast<bool>(__VA_ARGS__), __FILE__, __LINE__, "REQUIRE( " #__VA_ARGS__ " )")
#define REQUIRE_FALSE(...) \
  doctest::absent::require(!static_cast<bool>(__VA_ARGS__), __FILE__, __LINE__, "REQUIRE_FALSE( " #__VA_ARGS__ " )")
#define FAIL(...)                                                                     \
  do {                                                                                \
    doctest::absent::fail(__FILE__, __LINE__, doctest::absent::text_of(__VA_ARGS__)); \
    throw doctest::absent::Ended();                                                   \
  } while (false)
#define FAIL_CHECK(...) doctest::absent::fail(__FILE__, __LINE__, doctest::absent::text_of(__VA_ARGS__))
#define MESSAGE(...) (std::cout << doctest::absent::text_of(__VA_ARGS__) << '\n')
#define INFO(...)                                           \
  const doctest::absent::Saying WDELTA_JOIN(wdelta_saying_, \
                                            __COUNTER__)([&] { return doctest::absent::text_of(__VA_ARGS__); })
#define CAPTURE(value) INFO(#value " := ", value)
#define CHECK_THROWS_AS(expression, Thrown)                                                                      \
  do {                                                                                                           \
    bool wdelta_threw = false;                                                                                   \
    try {                                                                                                        \
      static_cast<void>(expression);                                                                             \
    } catch (const Thrown&) {                                                                                    \
      wdelta_threw = true;                                                                                       \
    }                                                                                                            \
    doctest::absent::check(wdelta_threw, __FILE__, __LINE__, "CHECK_THROWS_AS( " #expression ", " #Thrown " )"); \
  } while (false)

#define CHECK_NOTHROW(...)                                                                          \
  do {                                                                                              \
    bool wdelta_threw = false;                                                                      \
    try {                                                                                           \
      static_cast<void>(__VA_ARGS__);                                                               \
    } catch (...) {                                                                                 \
      wdelta_threw = true;                                                                          \
    }                                                                                               \
    doctest::absent::check(!wdelta_threw, __FILE__, __LINE__, "CHECK_NOTHROW( " #__VA_ARGS__ " )"); \
  } while (false)

#ifdef DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
int main(int argc, char** argv) { return doctest::absent::run(argc, argv); }
#endif
