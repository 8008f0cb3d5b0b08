// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace wdelta {

/// A place in a bucket of the Hugging Face Hub: hf://buckets/NAMESPACE/NAME[/PREFIX].
struct HubLocation {
  std::string bucket;  ///< NAMESPACE/NAME
  std::string prefix;  ///< empty, or ends with '/'

  /// Takes what follows hf://. Throws usage, naming `location`, for what the Hub's own clients refuse as well: names
  /// with other characters than [A-Za-z0-9._-], a revision, empty parts.
  static HubLocation parse(std::string_view path, const std::string& location);
};

}  // namespace wdelta
