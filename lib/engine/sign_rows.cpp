// SPDX-License-Identifier: Apache-2.0
#include "engine/sign_rows.hpp"

#include "engine/element.hpp"

namespace wdelta {
namespace {

// So many changes are looked at at once, which compilers make vectors of: most rows have fewer, and no branch asks how
// many.
constexpr std::size_t k_at_once = 32;

/// How many of these ascending positions are below `end`.
std::size_t count_below(std::span<const std::uint16_t> positions, std::uint16_t end) {
  std::size_t i = 0;
  while (positions.size() - i >= k_at_once) {
    const std::uint16_t* const some = positions.data() + i;
    std::uint16_t below = 0;
    for (std::size_t k = 0; k < k_at_once; ++k) below = static_cast<std::uint16_t>(below + (some[k] < end ? 1 : 0));
    i += below;
    if (below < k_at_once) return i;
  }
  while (i < positions.size() && positions[i] < end) ++i;
  return i;
}

template <class Step>
SignRows::SignedColumn signed_column(std::uint16_t position, std::uint16_t first, Step step) {
  // Odd steps go down.
  return 2U * static_cast<std::uint16_t>(position - first) + static_cast<std::uint32_t>(step & 1);
}

}  // namespace

void SignRows::begin(const MatrixPlace& place) {
  place_ = place;
  first_column_ = place.first_element % place.row_elements;
  // Division by multiplication, exact: an element and its first column are below 2^23 and a row is at most 2^16 long,
  // so that what rounding the factor up adds to the product is less than 2^40, and the product less than 2^63.
  row_factor_ = ((std::uint64_t{1} << 40) + place.row_elements - 1) / place.row_elements;
  changes_.clear();
  rows_.clear();
}

void SignRows::add(std::uint32_t first_element, std::span<const std::uint16_t> positions, const void* steps,
                   std::uint8_t width_bytes) {
  with_narrow_width(width_bytes,
                    [&]<class T>(T) { add_steps(first_element, positions, static_cast<const T*>(steps)); });
}

template <class Step>
void SignRows::add_steps(std::uint32_t first_element, std::span<const std::uint16_t> positions, const Step* steps) {
  const std::size_t before = changes_.size();
  const std::size_t count = positions.size();
  SignedColumn* __restrict const changes = changes_.extend(count + k_at_once);
  const std::uint64_t row_elements = place_.row_elements;
  std::uint64_t index = ~std::uint64_t{0};
  std::uint64_t end = 0;  // of the row, as a position
  for (std::size_t i = 0; i < count;) {
    ++index;
    end += row_elements;
    if (i == 0 || positions[i] >= end) {
      const std::uint64_t at = first_column_ + first_element + positions[i];
      index = (at * row_factor_) >> 40;
      end = (index + 1) * row_elements - first_column_ - first_element;
    }
    const auto first = static_cast<std::uint16_t>(end - row_elements);  // that of the row may lie before the block
    const std::size_t row_end =
        end > 0xffff ? count : i + count_below(positions.subspan(i), static_cast<std::uint16_t>(end));
    for (; i < row_end; i += k_at_once) {
      if (count - i >= k_at_once) {
        for (std::size_t k = i; k < i + k_at_once; ++k) changes[k] = signed_column(positions[k], first, steps[k]);
      } else {
        for (std::size_t k = i; k < count; ++k) changes[k] = signed_column(positions[k], first, steps[k]);
      }
    }
    i = row_end;
    const auto row_changes_end = static_cast<std::uint32_t>(before + i);
    if (rows_.size() != 0 && rows_[rows_.size() - 1].index == index) {
      rows_[rows_.size() - 1].end = row_changes_end;
    } else {
      *rows_.extend(1) = {static_cast<std::uint32_t>(index), row_changes_end};
    }
  }
  changes_.cut(before + count);
}

}  // namespace wdelta
