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

void SignRows::make(const SignKernels& kernels, const ChangeSigns& signs, std::span<const ChangeSigns::Part> parts) {
  place_ = signs.place();
  changes_.clear();
  indices_.clear();
  begins_.clear();
  for (const ChangeSigns::Part part : parts) {
    signs.each_block(part, [&](std::uint32_t first_element, std::span<const std::uint16_t> positions,
                               const std::uint8_t* negatives) { add(kernels, first_element, positions, negatives); });
  }
  *begins_.extend(1) = static_cast<std::uint32_t>(changes_.size());
}

// The last row goes on where the first change lies in it.
void SignRows::add(const SignKernels& kernels, std::uint32_t first_element, std::span<const std::uint16_t> positions,
                   const std::uint8_t* negatives) {
  constexpr std::size_t k_room = 16;  // for what kernels write behind what there is
  const std::size_t rows = indices_.size();
  const std::size_t changes = changes_.size();
  const SignsOfBlock signs = {positions.data(),
                              negatives,
                              static_cast<std::uint32_t>(positions.size()),
                              static_cast<std::uint32_t>(place_.first_element % place_.row_elements) + first_element,
                              static_cast<std::uint32_t>(place_.row_elements),
                              rows == 0 ? ~std::uint32_t{0} : indices_[rows - 1],
                              static_cast<std::uint32_t>(changes)};
  const std::size_t room = positions.size() + k_room;
  const SignsInRows in_rows = {changes_.extend(room), indices_.extend(room), begins_.extend(room)};
  const std::size_t begun = kernels.list_rows(&signs, &in_rows);
  changes_.cut(changes + positions.size());
  indices_.cut(rows + begun);
  begins_.cut(rows + begun);
}

}  // namespace wdelta
