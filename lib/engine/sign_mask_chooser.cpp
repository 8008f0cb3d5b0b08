// SPDX-License-Identifier: Apache-2.0
#include "engine/sign_mask_chooser.hpp"

#include "engine/fixed_log2.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <utility>

namespace wdelta {
namespace {

using Part = ChangeSigns::Part;

// Rows and columns are fitted in turn, each to the other: the best approximation of the signs by one row times one
// column is a power iteration. In the first turns lines count as much as they are sure of themselves, which finds in
// two turns what takes six or more where they only say yes or no. What further ones gain falls off quickly.
constexpr int k_weighing_turns = 2;
constexpr int k_fits_of_few = 3;

// Of so many changes or more a sample is weighed first: of 16 parts three, and two more to see what that is worth. Six
// would find a few masks more that barely pay, and so would looking at all of up to 4,096: of a real step with 1 % of
// its elements changed that makes 0.003 % of a delta, for 2 % of the time.
constexpr std::size_t k_many_changes = 1024;
constexpr std::size_t k_parts = 16;
constexpr std::array<std::size_t, 3> k_weighed = {0, 5, 10};
constexpr std::array<std::size_t, 2> k_kept = {3, 13};
// What is found of so many changes stays in the first-level cache until it was said of each of them.
constexpr std::size_t k_stretch_changes = 1024;
// By how many standard deviations sums of signs are further from 0 than by chance where a mask may pay.
constexpr double k_telling_deviations = 3.5;

std::uint64_t cost_of_signs(std::uint64_t agreeing, std::uint64_t all) {
  return n_log2_n(all) - n_log2_n(agreeing) - n_log2_n(all - agreeing);
}

template <std::size_t count>
std::array<Part, count> parts_of(const ChangeSigns& signs, const std::array<std::size_t, count>& indices) {
  const std::size_t all = signs.size();
  std::array<Part, count> parts{};
  std::ranges::transform(indices, parts.begin(), [all](std::size_t index) {
    return Part{all * index / k_parts, all * (index + 1) / k_parts};
  });
  return parts;
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

void set_bit(std::vector<std::uint8_t>& bits, std::size_t at, std::uint32_t bit) {
  bits[at / 8] = static_cast<std::uint8_t>(bits[at / 8] | bit << (at % 8));
}

std::vector<std::uint8_t> packed_columns(std::span<const std::uint32_t> counts) {
  std::vector<std::uint8_t> bits((counts.size() / 2 + 7) / 8);
  for (std::uint8_t& byte : bits) {
    const std::span<const std::uint32_t> eight = counts.first(std::min<std::size_t>(counts.size(), 16));
    std::uint32_t packed = 0;
    for (std::size_t i = 0; i < eight.size(); i += 2) packed |= (eight[i + 1] > eight[i] ? 1U : 0U) << (i / 2);
    byte = static_cast<std::uint8_t>(packed);
    counts = counts.subspan(eight.size());
  }
  return bits;
}

std::uint64_t agreeing_in_columns(std::span<const std::uint32_t> counts) {
  std::uint64_t agreeing = 0;
  for (std::size_t i = 0; i < counts.size(); i += 2) agreeing += std::max(counts[i], counts[i + 1]);
  return agreeing;
}

}  // namespace

// Calls visit(row, where the stretch's changes begin, sum of its signs as the columns weigh them) for each row of a
// stretch of rows, then behind(changes of the stretch), and so on with the next. Sums go from change to change first,
// and are taken apart into rows then: a loop for each row would end with a branch that was not foretold.
template <class Visit, class Behind>
void SignMaskChooser::each_stretch(Visit visit, Behind behind) {
  const std::int16_t* const weights = weights_.data();
  for (std::size_t first = 0, end = 0; first < rows_.row_count(); first = end) {
    const std::size_t begin = rows_.row(first).begin;
    while (end < rows_.row_count() && rows_.row(end).begin < begin + k_stretch_changes) ++end;
    const auto changes = rows_.changes().subspan(begin, rows_.row(end - 1).end - begin);
    sums_up_to_.clear();
    std::int32_t* const sum_up_to = sums_up_to_.extend(changes.size() + 1);
    std::int32_t sum = sum_up_to[0] = 0;
    for (std::size_t i = 0; i < changes.size(); ++i) sum_up_to[i + 1] = sum += weights[changes[i]];
    for (std::size_t i = first; i < end; ++i) {
      const SignRows::Row row = rows_.row(i);
      visit(row, begin, sum_up_to[row.end - begin] - sum_up_to[row.begin - begin]);
    }
    behind(changes);
  }
}

// Calls visit(row, sum of its signs as the columns weigh them) for each row.
template <class Visit>
void SignMaskChooser::each_sum(Visit visit) {
  each_stretch([&](const SignRows::Row& row, std::size_t, std::int32_t sum) { visit(row, sum); }, [](const auto&) {});
}

// Calls visit(change, sum of its row's signs as the columns weigh them) for each change.
template <class Visit>
void SignMaskChooser::each_change(Visit visit) {
  const auto spread_sum = [this](const SignRows::Row& row, std::size_t begin, std::int32_t sum) {
    const std::size_t count = row.end - row.begin;
    sums_of_rows_.cut(row.begin - begin);
    spread(sum, sums_of_rows_.extend(count + k_spread_room), count);
  };
  each_stretch(spread_sum, [&](std::span<const SignRows::SignedColumn> changes) {
    const std::int32_t* const sums = sums_of_rows_.data();
    for (std::size_t i = 0; i < changes.size(); ++i) visit(changes[i], sums[i]);
  });
}

double SignMaskChooser::deviations_of_rows() {
  squares_up_to_.clear();
  std::uint64_t* squares = squares_up_to_.extend(rows_.changes().size() + 1);
  std::uint64_t sum_of_squares = *squares++ = 0;
  for (const SignRows::SignedColumn change : rows_.changes()) {
    const std::int32_t weight = weights_[change];
    *squares++ = sum_of_squares += static_cast<std::uint32_t>(weight * weight);
  }
  const std::uint64_t* const up_to = squares_up_to_.data();
  Deviations deviations;
  each_sum([&](const SignRows::Row& row, std::int32_t sum) {
    deviations.add(sum, static_cast<double>(up_to[row.end] - up_to[row.begin]));
  });
  return deviations.value();
}

double SignMaskChooser::deviations_of_columns() const {
  Deviations deviations;
  for (std::size_t i = 0; i < counts_.size(); i += 2) {
    deviations.add(static_cast<double>(counts_[i]) - counts_[i + 1], static_cast<double>(counts_[i]) + counts_[i + 1]);
  }
  return deviations.value();
}

void SignMaskChooser::set_weight(std::size_t column, std::int32_t weight) {
  weights_[2 * column] = static_cast<std::int16_t>(weight);
  weights_[2 * column + 1] = static_cast<std::int16_t>(-weight);
}

void SignMaskChooser::weigh_columns_alike() {
  const std::size_t columns = rows_.place().row_elements;
  weights_.resize(2 * columns);
  for (std::size_t i = 0; i < columns; ++i) set_weight(i, 1);
}

void SignMaskChooser::weigh_columns(const SignKernels& kernels) {
  const std::size_t columns = rows_.place().row_elements;
  counts_.assign(2 * columns, 0);
  for (const SignRows::SignedColumn change : rows_.changes()) ++counts_[change];
  sums_.resize(columns);
  std::int64_t* const sums = sums_.data();
  for (std::size_t i = 0; i < columns; ++i) sums[i] = std::int64_t{counts_[2 * i]} - counts_[2 * i + 1];
  take_weights(kernels);
  for (int turn = 0; turn < k_weighing_turns; ++turn) {
    // Without what a column would hear of itself, change by change, by way of its rows.
    for (std::size_t i = 0; i < columns; ++i)
      sums[i] = -(std::int64_t{counts_[2 * i]} + counts_[2 * i + 1]) * weights_[2 * i];
    each_change(
        [sums](SignRows::SignedColumn change, std::int64_t sum) { sums[change / 2] += change % 2 == 0 ? sum : -sum; });
    take_weights(kernels);
  }
}

// How sure each column is, in less than 2^8: a row's sum is then less than 2^24, what that adds up to in a column less
// than 2^47, and what comes together of one row after the other less than 2^31.
void SignMaskChooser::take_weights(const SignKernels& kernels) {
  weights_.resize(2 * sums_.size());
  kernels.weigh_columns(sums_.data(), static_cast<std::uint32_t>(sums_.size()), weights_.data());
}

// Leaves the columns weighed, where there are enough changes for a mask of them.
SignMaskChooser::Tellings SignMaskChooser::look_at_sample(const SignKernels& kernels, const ChangeSigns& signs) {
  Tellings tellings{false, false};
  rows_.make(kernels, signs, parts_of(signs, k_weighed));
  weigh_columns_alike();
  tellings.rows = deviations_of_rows() > k_telling_deviations;
  if (signs.size() <= signs.place().row_elements) return tellings;
  weigh_columns(kernels);
  tellings.columns = deviations_of_columns() > k_telling_deviations;
  if (tellings.columns) return tellings;
  // The weights know nothing of those kept.
  rows_.make(kernels, signs, parts_of(signs, k_kept));
  tellings.columns = deviations_of_rows() > k_telling_deviations;
  return tellings;
}

// To the rows, once these were to the columns; lines only say yes or no.
void SignMaskChooser::fit_columns() {
  // Of each signed column two: in rows that are left as they are, and in those that are turned.
  votes_.assign(2 * weights_.size(), 0);
  std::uint32_t* const votes = votes_.data();
  each_change([votes](SignRows::SignedColumn change, std::int32_t sum) {
    ++votes[2 * change + (static_cast<std::uint32_t>(sum) >> 31)];
  });
  turned_counts_.resize(weights_.size());
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    counts_[i] = votes[2 * i] + votes[2 * i + 1];
    turned_counts_[i] = votes[2 * i] + votes[2 * (i ^ 1) + 1];
  }
  for (std::size_t i = 0; i < weights_.size() / 2; ++i) {
    set_weight(i, turned_counts_[2 * i + 1] > turned_counts_[2 * i] ? -1 : 1);
  }
}

// To the columns. Returns how many signs agree.
std::uint64_t SignMaskChooser::fit_rows(std::vector<std::uint8_t>& turned) {
  std::uint64_t together = 0;
  each_sum([&](const SignRows::Row& row, std::int32_t sum) {
    together += static_cast<std::uint32_t>(std::abs(sum));
    set_bit(turned, row.index, static_cast<std::uint32_t>(sum) >> 31);
  });
  return (rows_.changes().size() + together) / 2;
}

SignMask SignMaskChooser::choose(const SignKernels& kernels, const ChangeSigns& signs, std::uint64_t element_count) {
  SignMask mask;
  const std::uint64_t all = signs.size();
  const std::uint64_t columns = signs.place().row_elements;
  const std::uint64_t rows = signs.place().row_count(element_count);
  // A mask saves less than a bit per change.
  if (all <= std::min(columns, rows)) return mask;
  const bool is_sampled = all >= k_many_changes;
  const Tellings tellings = is_sampled ? look_at_sample(kernels, signs) : Tellings{true, true};
  if (!tellings.rows && !tellings.columns) return mask;

  rows_.make(kernels, signs, std::array{signs.all()});
  const auto cost = [&](std::uint64_t agreeing, std::uint64_t mask_bits) {
    return cost_of_signs(agreeing, all) + (mask_bits << 16);
  };
  std::uint64_t least = all << 16;
  if (all > columns) {
    if (!is_sampled) weigh_columns(kernels);
    for (int fits = is_sampled ? 1 : k_fits_of_few; fits > 0; --fits) fit_columns();
    if (const std::uint64_t with_columns = cost(agreeing_in_columns(counts_), columns); with_columns < least) {
      least = with_columns;
      mask = {packed_columns(counts_), {}};
    }
    std::vector<std::uint8_t> turned_rows((rows + 7) / 8);
    if (const std::uint64_t with_both = cost(fit_rows(turned_rows), columns + rows); with_both < least) {
      least = with_both;
      mask = {packed_columns(turned_counts_), std::move(turned_rows)};
    }
  }
  if (tellings.rows) {
    weigh_columns_alike();
    std::vector<std::uint8_t> turned_rows((rows + 7) / 8);
    if (cost(fit_rows(turned_rows), rows) < least) mask = {{}, std::move(turned_rows)};
  }
  return mask;
}

}  // namespace wdelta
