// SPDX-License-Identifier: Apache-2.0
#include "output_path.hpp"

#include "base/error.hpp"

#include <system_error>

namespace wdelta::cmd {

bool is_or_lies_in(const std::filesystem::path& path, const std::filesystem::path& input) {
  std::error_code ignored;
  if (std::filesystem::equivalent(path, input, ignored)) return true;
  // A symlink at `path` is replaced itself, so it is where that lies that counts.
  auto at = std::filesystem::weakly_canonical(std::filesystem::absolute(path, ignored).parent_path(), ignored);
  for (;; at = at.parent_path()) {
    if (std::filesystem::equivalent(at, input, ignored)) return true;
    if (!at.has_relative_path()) return false;
  }
}

void require_file_name(const std::string& output) {
  if (output == "-")
    throw Error(Fault::usage, output, "nothing is written to stdout", "name a file, or ./- if that is its name");
}

}  // namespace wdelta::cmd
