// SPDX-License-Identifier: Apache-2.0
#include "engine/sign_mask_chooser.hpp"

#include "engine/symbol_table.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>

namespace wdelta {
namespace {

// Rows and columns are fitted in turn, each to the other: the best approximation of the signs by one row times one
// column is a power iteration. In the first turns lines count as much as they are sure of themselves, which finds in
// two turns what takes six or more where they only say yes or no. What further ones gain falls off quickly.
constexpr int k_weighing_turns = 2;
constexpr int k_most_fits = 3;
// A fit that made signs cheaper by less than this part is the last: the next would gain less still, for all its time.
constexpr std::uint64_t k_worthwhile_part = 24;

// Of so many changes or more a sample is weighed first: of 16 stretches three, and two more to see what that is worth.
// Six would find a few masks more that barely pay, 0.2 % of a delta where there are many of these, and take another
// tenth of the time of coding it.
constexpr std::size_t k_many_changes = 4096;
constexpr std::size_t k_stretches = 16;
constexpr std::size_t k_weighed[] = {0, 5, 10};
constexpr std::size_t k_kept[] = {3, 13};
// By how many standard deviations sums of signs are further from 0 than by chance where a mask may pay.
constexpr double k_telling_deviations = 3.5;

/// n log2 n, in 1/65536 of a bit.
std::uint64_t weight(std::uint64_t n) { return n * log2_fixed(n); }

std::uint64_t cost_of_signs(std::uint64_t agreeing, std::uint64_t all) {
  return weight(all) - weight(agreeing) - weight(all - agreeing);
}

std::uint32_t bit_of(const std::vector<std::uint8_t>& bits, std::uint64_t at) {
  return bits.empty() ? 0 : (bits[at / 8] >> (at % 8)) & 1U;
}

/// Sums of signs, each times a weight. Were a sign as likely the one as the other, the square of a sum would be about
/// the sum of the squares of the weights, with a variance of at most twice the square of that.
class Deviations {
 public:
  void add(double sum, double squares) {
    beyond_chance_ += sum * sum - squares;
    variance_ += 2 * squares * squares;
  }
  double value() const { return variance_ == 0 ? 0 : beyond_chance_ / std::sqrt(variance_); }

 private:
  double beyond_chance_ = 0;
  double variance_ = 0;
};

}  // namespace

void SignMaskChooser::forget_rows() {
  in_columns_.clear();
  rows_.clear();
}

// Behind those that were found before.
void SignMaskChooser::find_rows(std::span<const SignedChange> changes, const MatrixPlace& place) {
  const std::uint64_t first_column = place.first_element % place.row_elements;
  // Division by multiplication, exact: an element and its first column are below 2^23 and a row is at most 2^16 long,
  // so that what rounding the factor up adds to the product is less than 2^40, and the product less than 2^63.
  const std::uint64_t factor = ((std::uint64_t{1} << 40) + place.row_elements - 1) / place.row_elements;
  const std::size_t found = in_columns_.size();
  InColumn* const in_columns = in_columns_.extend(changes.size());
  for (std::size_t i = 0; i < changes.size();) {
    const std::size_t first = i;
    const std::uint64_t row = ((first_column + changes[i].element()) * factor) >> 40;
    const std::uint64_t begin = row * place.row_elements - first_column;  // of the first row below 0: wraps round
    const std::uint64_t end = begin + place.row_elements;
    std::uint32_t negatives = 0;
    for (; i < changes.size() && changes[i].element() < end; ++i) {
      const std::uint32_t negative = changes[i].negative();
      in_columns[i] = {static_cast<std::uint16_t>(changes[i].element() - begin),
                       static_cast<std::int16_t>(0 - negative)};
      negatives += negative;
    }
    rows_.push_back({static_cast<std::uint32_t>(row), static_cast<std::uint32_t>(found + i),
                     static_cast<std::int32_t>(i - first) - 2 * static_cast<std::int32_t>(negatives), 0});
  }
}

// Calls visit(row, changes) for each.
template <class Visit>
void SignMaskChooser::each_row(Visit visit) {
  const InColumn* begin = in_columns_.data();
  for (Row& row : rows_) {
    const InColumn* const end = in_columns_.data() + row.end;
    visit(row, std::span(begin, end));
    begin = end;
  }
}

// Of the row's signs, as the columns see them.
std::int32_t SignMaskChooser::sum_of(std::span<const InColumn> changes) const {
  const std::int16_t* const weights = weights_.data();
  std::int32_t sum = 0;
  for (const InColumn change : changes) sum += change.signed_as(weights[change.column]);
  return sum;
}

double SignMaskChooser::deviations_of_rows() {
  Deviations deviations;
  each_row([&](const Row& row, std::span<const InColumn> changes) {
    deviations.add(row.sum, static_cast<double>(changes.size()));
  });
  return deviations.value();
}

double SignMaskChooser::deviations_of_columns() const {
  Deviations deviations;
  for (const Column& column : columns_) deviations.add(column.sum(), column.changes);
  return deviations.value();
}

double SignMaskChooser::deviations_of_weighted_rows() {
  Deviations deviations;
  each_row([&](const Row&, std::span<const InColumn> changes) {
    std::int64_t squares = 0;
    for (const InColumn change : changes) squares += std::int64_t{weights_[change.column]} * weights_[change.column];
    deviations.add(sum_of(changes), static_cast<double>(squares));
  });
  return deviations.value();
}

// Rows as they are.
void SignMaskChooser::count_columns(std::uint64_t column_count) {
  columns_.assign(column_count, {});
  for (const InColumn change : in_columns_.span()) {
    Column& column = columns_[change.column];
    ++column.changes;
    column.negatives -= static_cast<std::uint32_t>(std::int32_t{change.negative});
  }
}

void SignMaskChooser::weigh_columns() {
  column_sums_.resize(columns_.size());
  weights_.resize(columns_.size());
  std::int64_t* const sums = column_sums_.data();
  for (std::size_t i = 0; i < columns_.size(); ++i) sums[i] = columns_[i].sum();
  scale_weights();
  for (int turn = 0; turn < k_weighing_turns; ++turn) {
    // Without what a column would hear of itself, change by change, by way of its rows.
    for (std::size_t i = 0; i < columns_.size(); ++i) sums[i] = -std::int64_t{columns_[i].changes} * weights_[i];
    each_row([this, sums](const Row&, std::span<const InColumn> changes) {
      const std::int32_t sum = sum_of(changes);
      for (const InColumn change : changes) sums[change.column] += change.signed_as(sum);
    });
    scale_weights();
  }
}

// How sure each column is, in less than 2^8: a row's sum is then less than 2^24, and what that adds up to in a column
// less than 2^47.
void SignMaskChooser::scale_weights() {
  std::uint64_t bits = 0;
  for (const std::int64_t sum : column_sums_) bits |= static_cast<std::uint64_t>(std::abs(sum));
  const int shift = std::max(0, static_cast<int>(std::bit_width(bits)) - 8);
  // Towards 0: what is hardly sure says nothing.
  const std::int64_t up = (std::int64_t{1} << shift) - 1;
  for (std::size_t i = 0; i < column_sums_.size(); ++i) {
    weights_[i] = static_cast<std::int16_t>((column_sums_[i] + ((column_sums_[i] >> 63) & up)) >> shift);
  }
}

// Whether a sample of many changes says so; leaves the columns weighed by it, where there are enough for a mask of
// them.
bool SignMaskChooser::may_pay(std::span<const SignedChange> changes, const MatrixPlace& place) {
  const auto find_rows_of = [&](std::size_t stretch) {
    const std::size_t begin = changes.size() * stretch / k_stretches;
    find_rows(changes.subspan(begin, changes.size() * (stretch + 1) / k_stretches - begin), place);
  };
  forget_rows();
  for (const std::size_t stretch : k_weighed) find_rows_of(stretch);
  double deviations = deviations_of_rows();
  if (changes.size() > place.row_elements) {
    count_columns(place.row_elements);
    deviations = std::max(deviations, deviations_of_columns());
    weigh_columns();
    // The weights know nothing of these.
    forget_rows();
    for (const std::size_t stretch : k_kept) find_rows_of(stretch);
    deviations = std::max(deviations, deviations_of_weighted_rows());
  }
  return deviations > k_telling_deviations;
}

void SignMaskChooser::fit_rows() {
  for (Row& row : rows_) row.is_turned = row.sum < 0 ? 1 : 0;
}

// Rows to the columns, and columns to the rows, where lines only say yes or no.
void SignMaskChooser::fit_rows_and_columns() {
  for (Column& column : columns_) column.negatives = 0;
  Column* const columns = columns_.data();
  each_row([this, columns](Row& row, std::span<const InColumn> changes) {
    const std::int32_t flip = sum_of(changes) >> 31;
    row.is_turned = flip & 1;
    for (const InColumn change : changes) {
      columns[change.column].negatives -= static_cast<std::uint32_t>(change.negative ^ flip);
    }
  });
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    weights_[i] = 2 * columns[i].negatives > columns[i].changes ? -1 : 1;
  }
}

std::uint64_t SignMaskChooser::agreeing_in_rows() const {
  std::uint64_t together = 0;
  for (const Row& row : rows_) together += static_cast<std::uint32_t>(std::abs(row.sum));
  return (in_columns_.size() + together) / 2;
}

std::uint64_t SignMaskChooser::agreeing_in_columns() const {
  std::uint64_t agreeing = 0;
  for (const Column& column : columns_) agreeing += std::max(column.negatives, column.changes - column.negatives);
  return agreeing;
}

std::vector<std::uint8_t> SignMaskChooser::packed_columns() const {
  std::vector<std::uint8_t> bits((columns_.size() + 7) / 8);
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const std::uint32_t is_turned = 2 * columns_[i].negatives > columns_[i].changes ? 1 : 0;
    bits[i / 8] = static_cast<std::uint8_t>(bits[i / 8] | is_turned << (i % 8));
  }
  return bits;
}

std::vector<std::uint8_t> SignMaskChooser::packed_rows(std::uint64_t row_count) const {
  std::vector<std::uint8_t> bits((row_count + 7) / 8);
  for (const Row& row : rows_) {
    std::uint8_t& byte = bits[row.row / 8];
    byte = static_cast<std::uint8_t>(byte | row.is_turned << (row.row % 8));
  }
  return bits;
}

SignMask SignMaskChooser::choose(std::span<SignedChange> changes, const MatrixPlace& place,
                                 std::uint64_t element_count) {
  SignMask mask;
  if (!place.has_rows() || changes.empty()) return mask;
  const std::uint64_t all = changes.size();
  const std::uint64_t columns = place.row_elements;
  const std::uint64_t rows = place.row_count(element_count);
  // A mask saves less than a bit per change.
  if (all <= std::min(columns, rows)) return mask;
  const bool is_sampled = all >= k_many_changes;
  if (is_sampled && !may_pay(changes, place)) return mask;

  const auto cost = [&](std::uint64_t agreeing, std::uint64_t mask_bits) {
    return cost_of_signs(agreeing, all) + (mask_bits << 16);
  };
  std::uint64_t least = all << 16;
  forget_rows();
  find_rows(changes, place);
  if (const std::uint64_t with_rows = cost(agreeing_in_rows(), rows); with_rows < least) {
    least = with_rows;
    fit_rows();
    mask.rows = packed_rows(rows);
  }
  if (all > columns) {
    count_columns(columns);
    if (const std::uint64_t with_columns = cost(agreeing_in_columns(), columns); with_columns < least) {
      least = with_columns;
      mask = {packed_columns(), {}};
    }
    if (!is_sampled) weigh_columns();
    std::uint64_t before = ~std::uint64_t{0};
    for (int fits = 0; fits < k_most_fits; ++fits) {
      fit_rows_and_columns();
      const std::uint64_t with_both = cost(agreeing_in_columns(), columns + rows);
      if (with_both < least) {
        least = with_both;
        mask = {packed_columns(), packed_rows(rows)};
      }
      if (with_both > before - before / k_worthwhile_part) break;
      before = with_both;
    }
  }
  if (mask.is_empty()) return mask;
  std::vector<std::uint8_t> column_flips(columns);
  for (std::uint64_t i = 0; i < columns; ++i) column_flips[i] = static_cast<std::uint8_t>(bit_of(mask.columns, i));
  SignedChange* change = changes.data();
  each_row([&](const Row& row, std::span<const InColumn> of_row) {
    const std::uint32_t row_flip = bit_of(mask.rows, row.row);
    for (const InColumn each : of_row) change++->turn(row_flip ^ column_flips[each.column]);
  });
  return mask;
}

}  // namespace wdelta
