// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace wdelta {

/// Goes through an XML document and tells of every element when it ends: its path, as "ListBucketResult/Contents/Key",
/// and the text right inside it, entities decoded. Attributes and name prefixes are passed over. Throws network, naming
/// `object`, for what is no XML or nested deeper than 16.
void scan_xml(std::string_view text, const std::string& object,
              const std::function<void(const std::string& path, const std::string& text)>& on_element);

}  // namespace wdelta
