// SPDX-License-Identifier: Apache-2.0
#include "engine/sign_rows.hpp"

#include "engine/element.hpp"

namespace wdelta {

void ChangeSigns::begin(const MatrixPlace& place) {
  place_ = place;
  blocks_.clear();
  positions_.clear();
  negatives_.clear();
}

void ChangeSigns::add(std::uint32_t first_element, std::span<const std::uint16_t> positions, const void* steps,
                      std::uint8_t width_bytes) {
  positions_.append(positions.data(), positions.size());
  blocks_.push_back({first_element, positions_.size()});
  std::uint8_t* __restrict const negatives = negatives_.extend(positions.size());
  with_narrow_width(width_bytes, [&]<class T>(T) {
    // Odd steps go down.
    const auto* const of_width = static_cast<const T*>(steps);
    for (std::size_t i = 0; i < positions.size(); ++i) negatives[i] = static_cast<std::uint8_t>(of_width[i] & 1U);
  });
}

void SignRows::make(const ChangeSigns& signs, std::span<const ChangeSigns::Part> parts) {
  place_ = signs.place();
  changes_.clear();
  rows_.clear();
  for (const ChangeSigns::Part part : parts) {
    signs.each_block(part, [this](std::uint32_t first_element, std::span<const std::uint16_t> positions,
                                  const std::uint8_t* negatives) { add(first_element, positions, negatives); });
  }
}

// Most rows have a dozen changes or so, never the same number: each change is asked for its row, so that no branch
// depends on where rows end.
void SignRows::add(std::uint32_t first_element, std::span<const std::uint16_t> positions,
                   const std::uint8_t* negatives) {
  const std::uint64_t first = place_.first_element % place_.row_elements + first_element;
  // Division by multiplication, exact: an element and its first column are below 2^23 and a row is at most 2^16 long,
  // so that what rounding the factor up adds to the product is less than 2^40, and the product less than 2^63.
  const std::uint64_t row_factor = ((std::uint64_t{1} << 40) + place_.row_elements - 1) / place_.row_elements;
  const std::size_t before = changes_.size();
  SignedColumn* __restrict const changes = changes_.extend(positions.size());
  // The last row goes on where the first change lies in it.
  std::size_t row_count = rows_.size();
  std::uint64_t index = row_count == 0 ? ~std::uint64_t{0} : rows_[row_count - 1].index;
  rows_.extend(positions.size());
  Row* __restrict const rows = rows_.data();
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const std::uint64_t at = first + positions[i];
    const std::uint64_t index_here = (at * row_factor) >> 40;
    row_count += index_here == index ? 0 : 1;
    index = index_here;
    rows[row_count - 1] = {static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(before + i + 1)};
    changes[i] = static_cast<SignedColumn>(2 * (at - index * place_.row_elements)) | negatives[i];
  }
  rows_.cut(row_count);
}

}  // namespace wdelta
