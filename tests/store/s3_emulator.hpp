// SPDX-License-Identifier: Apache-2.0
// The S3 of tests/services, run by a unit test.
#pragma once

#include "store/access.hpp"

#include <csignal>
#include <filesystem>
#include <string>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace wdelta::testing {

/// An emulator in a process of its own, gone with this.
class S3Emulator {
 public:
  S3Emulator() {
    int ends[2];
    if (::pipe(ends) != 0) return;
    child_ = ::fork();
    if (child_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::dup2(ends[1], STDOUT_FILENO);
      const std::string program = WDELTA_TESTDATA "/../tests/services/s3_emulator.py";
      ::execlp("python3", "python3", "-B", program.c_str(), static_cast<char*>(nullptr));
      ::_exit(127);
    }
    ::close(ends[1]);
    // "export NAME=value" lines; the last one ends them.
    std::string lines;
    char piece[512];
    for (ssize_t count = 0; lines.find("no_proxy=") == std::string::npos;) {
      if ((count = ::read(ends[0], piece, sizeof piece)) <= 0) break;
      lines.append(piece, static_cast<std::size_t>(count));
    }
    ::close(ends[0]);
    access_.s3.endpoint = value(lines, "AWS_ENDPOINT_URL=");
    access_.s3.key_id = value(lines, "AWS_ACCESS_KEY_ID=");
    access_.s3.secret = value(lines, "AWS_SECRET_ACCESS_KEY=");
    access_.s3.region = value(lines, "AWS_REGION=");
  }
  S3Emulator(const S3Emulator&) = delete;
  ~S3Emulator() {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }

  Access access(const std::filesystem::path& staging) const {
    Access access = access_;
    access.staging_directory = staging;
    return access;
  }

 private:
  static std::string value(const std::string& lines, const std::string& name) {
    const std::size_t at = lines.find(name);
    if (at == std::string::npos) return "";
    const std::size_t begin = at + name.size();
    return lines.substr(begin, lines.find('\n', begin) - begin);
  }

  pid_t child_ = -1;
  Access access_;
};

}  // namespace wdelta::testing
