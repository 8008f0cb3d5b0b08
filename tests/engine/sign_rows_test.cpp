// SPDX-License-Identifier: Apache-2.0
#include "engine/sign_rows.hpp"

#include "elements.hpp"
#include "engine/block.hpp"
#include "engine/engine.hpp"

#include <algorithm>
#include <doctest/doctest.h>

namespace wdelta {

using namespace testing;

TEST_CASE("every change is found in its row and its column, whatever a row's length and how many it has") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  std::vector<SignRows> signs_of_engine(engines().size());  // whose memory is used again
  for (const std::uint64_t row : {2, 3, 31, 64, 100, 512, 1000, 20'000, 65535, 65536}) {
    for (const std::uint64_t apart : {1, 2, 40, 3000}) {
      const MatrixPlace place{row, random() % 200'000};
      for (SignRows& signs : signs_of_engine) signs.begin(place);
      std::vector<std::uint32_t> indices;  // of the rows, change by change
      std::vector<SignRows::SignedColumn> columns;
      for (std::uint32_t first = 0; first < 3 * k_block_elements; first += k_block_elements) {
        std::vector<std::uint16_t> positions;
        std::vector<std::uint8_t> steps;
        for (std::uint64_t i = random() % (2 * apart); i < k_block_elements; i += 1 + random() % (2 * apart - 1)) {
          positions.push_back(static_cast<std::uint16_t>(i));
          steps.push_back(static_cast<std::uint8_t>(1 + random() % 255));
          const std::uint64_t at = place.first_element + first + i;
          indices.push_back(static_cast<std::uint32_t>(at / row - place.first_element / row));
          columns.push_back(static_cast<std::uint32_t>(2 * (at % row)) + steps.back() % 2);
        }
        std::vector<std::uint8_t> wide(steps.size() * 4);
        for (std::size_t i = 0; i < steps.size(); ++i) wide[i * 4] = steps[i];
        for (std::size_t e = 0; e < engines().size(); ++e) {
          if (!engines()[e].usable()) continue;
          const SignKernels& kernels = engines()[e].kernels->signs;
          if (first == 0) signs_of_engine[e].add(kernels, first, positions, steps.data(), 1);
          if (first != 0) signs_of_engine[e].add(kernels, first, positions, wide.data(), 4);
        }
      }
      // All of them, some, and none.
      std::size_t begin = random() % (columns.size() + 1);
      std::size_t end = random() % (columns.size() + 1);
      if (begin > end) std::swap(begin, end);
      for (const SignRows::Part part : {SignRows::Part{0, columns.size()}, {begin, end}, {begin, begin}}) {
        std::vector<SignRows::Row> expected;
        for (std::size_t i = part.begin; i < part.end; ++i) {
          if (expected.empty() || expected.back().index != indices[i])
            expected.push_back({indices[i], static_cast<std::uint32_t>(i), 0});
          expected.back().end = static_cast<std::uint32_t>(i + 1);
        }
        for (std::size_t e = 0; e < engines().size(); ++e) {
          if (!engines()[e].usable()) continue;
          const SignRows& signs = signs_of_engine[e];
          const SignRows::Rows rows = signs.rows_in(part);
          std::vector<SignRows::Row> found;
          for (std::size_t i = 0; i < rows.size(); ++i) found.push_back(rows[i]);
          CAPTURE(engines()[e].name);
          CAPTURE(row);
          CAPTURE(apart);
          CAPTURE(part.begin);
          CAPTURE(part.end);
          CHECK(std::ranges::equal(signs.changes(), columns));
          CHECK(std::ranges::equal(found, expected, [](const SignRows::Row& one, const SignRows::Row& other) {
            return one.index == other.index && one.begin == other.begin && one.end == other.end;
          }));
        }
      }
    }
  }
}

}  // namespace wdelta
