// SPDX-License-Identifier: Apache-2.0
#include "engine/sign_rows.hpp"

namespace wdelta {

void SignRows::begin(const MatrixPlace& place) {
  place_ = place;
  changes_.clear();
  indices_.clear();
  begins_.clear();
  *begins_.extend(1) = 0;
}

// The last row goes on where the first change lies in it.
void SignRows::add(const SignKernels& kernels, std::uint32_t first_element, std::span<const std::uint16_t> positions,
                   const void* steps, std::uint8_t width_bytes) {
  constexpr std::size_t k_room = 16;  // for what kernels write behind what there is
  const std::size_t rows = indices_.size();
  const std::size_t changes = changes_.size();
  const SignsOfBlock signs = {positions.data(),
                              steps,
                              width_bytes,
                              static_cast<std::uint32_t>(positions.size()),
                              static_cast<std::uint32_t>(place_.first_element % place_.row_elements) + first_element,
                              static_cast<std::uint32_t>(place_.row_elements),
                              rows == 0 ? ~std::uint32_t{0} : indices_[rows - 1],
                              static_cast<std::uint32_t>(changes)};
  const std::size_t room = positions.size() + k_room;
  begins_.cut(rows);
  const SignsInRows in_rows = {changes_.extend(room), indices_.extend(room), begins_.extend(room)};
  const std::size_t begun = kernels.list_rows(&signs, &in_rows);
  changes_.cut(changes + positions.size());
  indices_.cut(rows + begun);
  begins_.cut(rows + begun);
  *begins_.extend(1) = static_cast<std::uint32_t>(changes_.size());
}

SignRows::Rows::Rows(const SignRows& of, Part part)
    : first_(static_cast<std::uint32_t>(part.begin)), end_(static_cast<std::uint32_t>(part.end)) {
  const std::span<const std::uint32_t> begins = of.begins_.span().first(of.indices_.size());
  const auto first = part.size() == 0 ? begins.end() : std::ranges::upper_bound(begins, first_) - 1;
  const auto at = first - begins.begin();
  indices_ = of.indices_.data() + at;
  begins_ = of.begins_.data() + at;
  count_ = static_cast<std::size_t>(std::lower_bound(first, begins.end(), end_) - first);
}

}  // namespace wdelta
