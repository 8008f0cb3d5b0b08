// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/error.hpp"
#include "store/http/http.hpp"
#include "store/hub/hub_answers.hpp"

#include <set>
#include <string>

namespace wdelta {

/// Calls take(page) with the answer to ask(path) and to those for the pages that follow, where `path` has a query
/// already. Throws network, about `object`, for a listing that never ends or whose next page cannot be had.
template <typename Ask, typename Take>
void for_each_hub_page(const std::string& path, const std::string& object, Ask ask, Take take) {
  std::set<std::string> seen;
  for (std::string cursor;;) {
    const HttpResponse page = ask(path + (cursor.empty() ? "" : "&cursor=" + cursor));
    take(page);
    const auto next = next_cursor(page.all_values("link"), object);
    if (!next) return;
    if (!seen.insert(*next).second)
      throw Error(Fault::network, object, "its listing never ends: a page names itself as the next");
    cursor = *next;
  }
}

}  // namespace wdelta
