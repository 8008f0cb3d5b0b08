// SPDX-License-Identifier: Apache-2.0
#include "engine/skipped_rows.hpp"

#include "engine/element.hpp"
#include "engine/told_numbers.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace wdelta {
namespace {

constexpr std::uint32_t k_order_bits = 4;
constexpr std::uint32_t k_orders = 1U << k_order_bits;

std::uint64_t bits_in_order(std::span<const std::uint32_t> numbers, std::uint32_t order) {
  std::uint64_t bits = 0;
  for (const std::uint32_t number : numbers) bits += short_code::bits(number, order);
  return bits;
}

std::uint32_t shortest_order(std::span<const std::uint32_t> numbers) {
  std::uint32_t best = 0;
  std::uint64_t least = bits_in_order(numbers, 0);
  for (std::uint32_t order = 1; order < k_orders; ++order) {
    const std::uint64_t bits = bits_in_order(numbers, order);
    if (bits >= least) continue;
    least = bits;
    best = order;
  }
  return best;
}

}  // namespace

// Rows and, once more, those that go on behind a block.
std::uint64_t RowParts::before(std::uint64_t block) const {
  if (block == 0) return 0;
  const std::uint64_t end = std::min(block * k_block_elements, element_count_);
  const std::uint64_t rows = row_of(end - 1) - row_of(0) + 1;
  // Blocks begin with a row where this many, or a multiple, lie before them in the tensor.
  const std::uint64_t turn = place_.row_elements / std::gcd(place_.row_elements, std::uint64_t{k_block_elements});
  const std::uint64_t first_block = place_.first_element / k_block_elements;
  const std::uint64_t last_block = first_block + block - 1;
  return rows + (block - 1) - (last_block / turn - first_block / turn);
}

std::uint64_t RowParts::count() const { return before((element_count_ + k_block_elements - 1) / k_block_elements); }

std::uint64_t RowParts::of(std::uint64_t element) const {
  const std::uint64_t block = element / k_block_elements;
  return before(block) + row_of(element) - row_of(block * k_block_elements);
}

ElementRange RowParts::at(std::uint64_t number) const {
  std::uint64_t block = 0;  // the last one with so few before it
  for (std::uint64_t end = (element_count_ + k_block_elements - 1) / k_block_elements; end - block > 1;) {
    const std::uint64_t middle = block + (end - block) / 2;
    (before(middle) <= number ? block : end) = middle;
  }
  const std::uint64_t block_begin = block * k_block_elements;
  const std::uint64_t block_end = std::min(block_begin + k_block_elements, element_count_);
  const std::uint64_t row = row_of(block_begin) + number - before(block);
  const std::uint64_t row_begin = row * place_.row_elements;  // in the tensor
  return {std::max(row_begin, place_.first_element + block_begin) - place_.first_element,
          std::min(row_begin + place_.row_elements - place_.first_element, block_end)};
}

void SkippedRows::write(BitWriter& bits) const {
  const std::uint32_t order = shortest_order(numbers);
  bits.write(order, k_order_bits);
  for (const std::uint32_t number : numbers) short_code::write(number, order, bits);
}

std::uint64_t told_bits(const SkippedRows& skipped) {
  return k_order_bits + bits_in_order(skipped.numbers, shortest_order(skipped.numbers));
}

SkippedRows SkippedRows::read(BitReader& bits, const RowParts& parts) {
  const std::uint32_t order = bits.read(k_order_bits);
  SkippedRows skipped;
  bool are_any = false;
  for (std::uint64_t left = parts.count(); left > 0;) {
    const auto most =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(left, std::numeric_limits<std::int32_t>::max()));
    const std::uint32_t number = short_code::read(bits, order, most);
    require_whole(bits);
    if (number > most) refuse_group_parameters("more rows are skipped than it has");
    skipped.numbers.push_back(number);
    are_any |= number != 0;
    left -= number;
    if (left > 0) --left;  // one that is not skipped
  }
  if (!are_any) refuse_group_parameters("no row is skipped");
  return skipped;
}

std::vector<ElementRange> kept_ranges(const SkippedRows& skipped, const RowParts& parts) {
  std::vector<ElementRange> kept;
  const std::uint64_t count = parts.count();
  std::uint64_t next = 0;
  for (const std::uint32_t number : skipped.numbers) {
    next += number;
    if (next == count) break;
    const ElementRange part = parts.at(next++);
    if (!kept.empty() && kept.back().end == part.begin && part.begin % k_block_elements != 0) {
      kept.back().end = part.end;
    } else {
      kept.push_back(part);
    }
  }
  return kept;
}

std::span<const ElementRange> kept_in_block(std::span<const ElementRange> kept, std::uint64_t block) {
  const auto first = std::ranges::lower_bound(kept, block * k_block_elements, {}, &ElementRange::begin);
  const auto end = std::ranges::lower_bound(kept, (block + 1) * k_block_elements, {}, &ElementRange::begin);
  return {first, end};
}

}  // namespace wdelta
