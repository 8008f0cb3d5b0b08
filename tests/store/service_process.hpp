// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <string>
#include <string_view>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace wdelta::testing {

/// An emulator of tests/services in a process of its own, gone with this.
class ServiceProcess {
 public:
  /// Returns once it has printed `last`.
  ServiceProcess(const std::string& program, std::string_view last) {
    int output[2];
    int input[2];
    if (::pipe(output) != 0 || ::pipe(input) != 0) return;
    child_ = ::fork();
    if (child_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::dup2(output[1], STDOUT_FILENO);
      ::dup2(input[0], STDIN_FILENO);
      ::close(input[1]);
      const std::string path = WDELTA_TESTDATA "/../tests/services/" + program;
      ::execlp("python3", "python3", "-B", path.c_str(), static_cast<char*>(nullptr));
      ::_exit(127);
    }
    ::close(output[1]);
    ::close(input[0]);
    input_ = input[1];
    char piece[512];
    for (ssize_t count = 0; told_.find(last) == std::string::npos;) {
      if ((count = ::read(output[0], piece, sizeof piece)) <= 0) break;
      told_.append(piece, static_cast<std::size_t>(count));
    }
    ::close(output[0]);
  }
  ServiceProcess(const ServiceProcess&) = delete;
  ~ServiceProcess() {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
    ::close(input_);
  }

  const std::string& told() const { return told_; }
  /// What follows `name` on its line.
  std::string value(std::string_view name) const {
    const std::size_t at = told_.find(name);
    if (at == std::string::npos) return "";
    const std::size_t begin = at + name.size();
    return told_.substr(begin, told_.find('\n', begin) - begin);
  }

 private:
  pid_t child_ = -1;
  int input_ = -1;  // the Hub's ends when this does
  std::string told_;
};

}  // namespace wdelta::testing
