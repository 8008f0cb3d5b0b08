// SPDX-License-Identifier: Apache-2.0
#include "engine/sign_mask_chooser.hpp"

#include "engine/column_votes.hpp"
#include "engine/fixed_log2.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

namespace wdelta {
namespace {

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
constexpr std::initializer_list<std::size_t> k_weighed = {0, 5, 10};
constexpr std::initializer_list<std::size_t> k_kept = {3, 13};
// What is found of so many changes stays in the first-level cache until it was said of each of them.
constexpr std::size_t k_stretch_changes = 1024;
// Rows of so many changes or more, on average, are gone through one by one (bench-engine, Zen 4, matrices whose rows
// have 115: 5.3 GB/s all at once, 5.5 so; 41, foretold: 10.0 and 10.5; by hand, of
// 29 and 41 that come around too late to be foretold, the same).
constexpr std::size_t k_long_row_changes = 32;
// By how many standard deviations sums of signs are further from 0 than by chance where a mask may pay.
constexpr double k_telling_deviations = 3.5;

std::uint64_t cost_of_signs(std::uint64_t agreeing, std::uint64_t all) {
  return n_log2_n(all) - n_log2_n(agreeing) - n_log2_n(all - agreeing);
}

// Of sums of signs, each times a weight. Were a sign as likely the one as the other, the square of a sum would be about
// the sum of the squares of the weights, with a variance of at most twice the square of that.
double deviations(double beyond_chance, double variance) {
  return variance == 0 ? 0 : beyond_chance / std::sqrt(variance);
}

// Calls visit(change) for each. What is done of a change is so little that a branch for each is felt, and GCC unrolls
// nothing at -O2 (bench-engine, Zen 4, rows of 115 changes: 5.7 GB/s with plain loops, 5.85 so).
template <class Visit>
[[gnu::always_inline]] inline void each_of(std::span<const SignRows::SignedColumn> changes, Visit visit) {
  constexpr std::size_t k_at_once = 8;
  const SignRows::SignedColumn* at = changes.data();
  const SignRows::SignedColumn* const end = at + changes.size();
  for (const SignRows::SignedColumn* const whole = end - changes.size() % k_at_once; at != whole; at += k_at_once) {
    visit(at[0]), visit(at[1]), visit(at[2]), visit(at[3]), visit(at[4]), visit(at[5]), visit(at[6]), visit(at[7]);
  }
  for (; at != end; ++at) visit(*at);
}

// What a row says, said of each of its changes. Most rows have a dozen changes or so, never the same number: a loop
// over so many would end with a branch that was not foretold. `values` has room for k_spread_room more.
constexpr std::size_t k_spread_room = 32;

template <class T>
void spread(T value, T* values, std::size_t changes) {
  for (std::size_t i = 0; i < changes; i += k_spread_room) {
    std::fill_n(values + i, k_spread_room, value);  // the next row overwrites what goes too far
  }
}

// Turns each sign, a byte, where the byte in its place is 1.
void turn(std::span<std::uint8_t> signs, const std::uint8_t* turned) {
  std::size_t i = 0;
  for (std::uint64_t word, of_word; i + sizeof(word) <= signs.size(); i += sizeof(word)) {
    std::memcpy(&word, signs.data() + i, sizeof(word));
    std::memcpy(&of_word, turned + i, sizeof(word));
    word ^= of_word;
    std::memcpy(signs.data() + i, &word, sizeof(word));
  }
  for (; i < signs.size(); ++i) signs[i] ^= turned[i];
}

void set_bit(std::vector<std::uint8_t>& bits, std::size_t at, std::uint32_t bit) {
  bits[at / 8] = static_cast<std::uint8_t>(bits[at / 8] | bit << (at % 8));
}

}  // namespace

void SignMaskChooser::look_at(std::initializer_list<std::size_t> sixteenths) {
  const std::size_t all = signs_->size();
  parts_.clear();
  for (const std::size_t i : sixteenths) parts_.push_back({all * i / k_parts, all * (i + 1) / k_parts});
}

void SignMaskChooser::look_at_all() { parts_.assign(1, signs_->all()); }

std::span<const SignRows::SignedColumn> SignMaskChooser::changes_of(const SignRows::Row& row) const {
  return signs_->changes().subspan(row.begin, row.size());
}

// Calls visit(row, where the stretch's changes begin, sum of its signs as the columns weigh them) for each row of a
// stretch of rows, then behind(changes of the stretch), and so on with the next. Sums go from change to change first,
// and are taken apart into rows then: a loop for each row would end with a branch that was not foretold. (So it is of
// real weights, where a row has 5 changes or 14: diff takes 1 to 2 % longer with such loops. bench-engine, whose blocks
// come around again, has them foretold.)
template <class Visit, class Behind>
void SignMaskChooser::each_stretch(Visit visit, Behind behind) {
  const std::int8_t* const weights = weights_.data();
  for (const SignRows::Part part : parts_) {
    const SignRows::Rows rows = signs_->rows_in(part);
    for (std::size_t first = 0, end = 0; first < rows.size(); first = end) {
      const std::size_t begin = rows[first].begin;
      while (end < rows.size() && rows[end].begin < begin + k_stretch_changes) ++end;
      const auto changes = signs_->changes().subspan(begin, rows[end - 1].end - begin);
      sums_up_to_.clear();
      std::int32_t* const sum_up_to = sums_up_to_.extend(changes.size() + 1);
      std::int32_t sum = sum_up_to[0] = 0;
      std::int32_t* at = sum_up_to;
      each_of(changes, [&](SignRows::SignedColumn change) { *++at = sum += weights[change]; });
      for (std::size_t i = first; i < end; ++i) {
        const SignRows::Row row = rows[i];
        visit(row, begin, sum_up_to[row.end - begin] - sum_up_to[row.begin - begin]);
      }
      behind(changes);
    }
  }
}

// Calls visit(row, sum of its signs as the columns weigh them) for each row.
template <class Visit>
void SignMaskChooser::each_sum(Visit visit) {
  if (!are_rows_long_) {
    return each_stretch([&](const SignRows::Row& row, std::size_t, std::int32_t sum) { visit(row, sum); },
                        [](const auto&) {});
  }
  const std::int8_t* const weights = weights_.data();
  for (const SignRows::Part part : parts_) {
    const SignRows::Rows rows = signs_->rows_in(part);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const SignRows::Row row = rows[i];
      std::int32_t sum = 0;
      each_of(changes_of(row), [&](SignRows::SignedColumn change) { sum += weights[change]; });
      visit(row, sum);
    }
  }
}

// Calls visit(change, of(sum of its row's signs as the columns weigh them)) for each change.
template <class Of, class Visit>
void SignMaskChooser::each_change(Of of, Visit visit) {
  if (are_rows_long_) {
    return each_sum([&](const SignRows::Row& row, std::int32_t sum) {
      const std::int32_t value = of(sum);
      each_of(changes_of(row), [&](SignRows::SignedColumn change) { visit(change, value); });
    });
  }
  const auto spread_value = [&](const SignRows::Row& row, std::size_t begin, std::int32_t sum) {
    values_of_rows_.cut(row.begin - begin);
    spread(of(sum), values_of_rows_.extend(row.size() + k_spread_room), row.size());
  };
  each_stretch(spread_value, [&](std::span<const SignRows::SignedColumn> changes) {
    const std::int32_t* value = values_of_rows_.data();
    each_of(changes, [&](SignRows::SignedColumn change) { visit(change, *value++); });
  });
}

// squares_of(row): the sum of the squares of its weights.
template <class Squares>
double SignMaskChooser::deviations_of_rows(Squares squares_of) {
  double beyond_chance = 0;
  double variance = 0;
  each_sum([&](const SignRows::Row& row, std::int32_t sum) {
    const double squares = squares_of(row);
    beyond_chance += static_cast<double>(sum) * sum - squares;
    variance += 2 * squares * squares;
  });
  return deviations(beyond_chance, variance);
}

double SignMaskChooser::deviations_of_weighed_rows() {
  squares_up_to_.clear();
  std::uint64_t* const up_to = squares_up_to_.extend(signs_->size() + 1);
  for (const SignRows::Part part : parts_) {
    std::uint64_t sum_of_squares = up_to[part.begin] = 0;
    for (std::size_t i = part.begin; i < part.end; ++i) {
      const std::int32_t weight = weights_[signs_->changes()[i]];
      up_to[i + 1] = sum_of_squares += static_cast<std::uint32_t>(weight * weight);
    }
  }
  return deviations_of_rows(
      [up_to](const SignRows::Row& row) { return static_cast<double>(up_to[row.end] - up_to[row.begin]); });
}

double SignMaskChooser::deviations_of_columns() const {
  std::int64_t squares_of_sums = 0;
  std::int64_t changes = 0;
  std::int64_t squares_of_changes = 0;
  for (std::size_t i = 0; i < counts_.size(); i += 2) {
    const std::int64_t of_column = std::int64_t{counts_[i]} + counts_[i + 1];
    const std::int64_t sum = std::int64_t{counts_[i]} - counts_[i + 1];
    squares_of_sums += sum * sum;
    changes += of_column;
    squares_of_changes += of_column * of_column;
  }
  return deviations(static_cast<double>(squares_of_sums) - static_cast<double>(changes),
                    2 * static_cast<double>(squares_of_changes));
}

// All as sure as each other, of the signs that a mask's bits say.
void SignMaskChooser::weigh_columns_by(const std::vector<std::uint8_t>& bits) {
  constexpr std::size_t k_columns = 4;  // at a time
  static constexpr auto k_weights = [] {
    std::array<std::array<std::int8_t, 2 * k_columns>, 1U << k_columns> weights{};
    for (std::size_t turned = 0; turned < weights.size(); ++turned) {
      for (std::size_t i = 0; i < 2 * k_columns; ++i) weights[turned][i] = (turned >> i / 2 & 1) == i % 2 ? 1 : -1;
    }
    return weights;
  }();
  const std::size_t columns = signs_->place().row_elements;
  weights_.resize(2 * columns + 4 * k_columns);
  for (std::size_t column = 0; column < columns; column += 2 * k_columns) {
    const std::uint8_t turned = bits.empty() ? 0 : bits[column / 8];
    std::memcpy(weights_.data() + 2 * column, &k_weights[turned & 15U], 2 * k_columns);
    std::memcpy(weights_.data() + 2 * column + 2 * k_columns, &k_weights[turned >> 4], 2 * k_columns);
  }
  weights_.resize(2 * columns);
}

// How sure each column is, in less than 2^7. A column has at most one change of each row, so that what rows say adds up
// to less than that times all changes in it: less than 2^30, of a stretch of less than 2^23 elements.
void SignMaskChooser::weigh_columns(const SignKernels& kernels) {
  const std::size_t columns = signs_->place().row_elements;
  counts_.assign(2 * columns, 0);
  std::int32_t* const counts = counts_.data();
  for (const SignRows::Part part : parts_) {
    each_of(signs_->changes().subspan(part.begin, part.size()),
            [&](SignRows::SignedColumn change) { ++counts[change]; });
  }
  weights_.assign(2 * columns, 0);
  room_.resize(columns);
  const auto weigh = [&](const OfSignedColumns<std::int32_t>& sums) {
    kernels.weigh_columns(sums.data(), counts, static_cast<std::uint32_t>(columns), room_.data(), weights_.data());
  };
  weigh(counts_);
  for (int turn = 0; turn < k_weighing_turns; ++turn) {
    sums_.assign(2 * columns, 0);
    std::int32_t* const sums = sums_.data();
    each_change([](std::int32_t sum) { return sum; },
                [sums](SignRows::SignedColumn change, std::int32_t sum_of_row) { sums[change] += sum_of_row; });
    // Less what a column would hear of itself, change by change, by way of its rows.
    weigh(sums_);
  }
}

// Whether rows agree more than by chance, where all columns weigh the same.
bool SignMaskChooser::do_rows_tell() {
  return deviations_of_rows([](const SignRows::Row& row) { return static_cast<double>(row.size()); }) >
         k_telling_deviations;
}

// Leaves the columns weighed, where there are enough changes for a mask of them.
SignMaskChooser::Tellings SignMaskChooser::look_at_sample(const SignKernels& kernels) {
  const MatrixPlace& place = signs_->place();
  look_at(k_weighed);
  weigh_columns_by({});
  Tellings tellings{do_rows_tell(), false};
  if (signs_->size() <= place.row_elements) return tellings;
  if (place.first_element != 0 && place.row_elements == known_row_elements_) {
    weigh_columns_by(known_columns_);
    look_at(k_kept);
    tellings.columns = do_rows_tell();
    if (tellings.columns) return tellings;
    look_at(k_weighed);
  }
  weigh_columns(kernels);
  tellings.columns = deviations_of_columns() > k_telling_deviations;
  if (tellings.columns) return tellings;
  // The weights know nothing of those kept.
  look_at(k_kept);
  tellings.columns = deviations_of_weighed_rows() > k_telling_deviations;
  return tellings;
}

// To the rows, once these were to the columns; lines only say yes or no. Returns how many signs agree with their
// column, whatever rows say.
std::uint64_t SignMaskChooser::fit_columns(const SignKernels& kernels) {
  // No column has more changes than there are rows: where these are few, half of a vote has room for them.
  const bool are_few = signs_->rows_in(signs_->all()).size() <= 0xffff;
  if (are_few) return fit_columns_by(votes_, kernels.fit_columns);
  return fit_columns_by(many_votes_, [](const auto* votes, std::uint32_t columns, const FittedColumns* fitted) {
    return wdelta::fit_columns(votes, columns, *fitted);
  });
}

// Votes are what SignKernels::fit_columns() takes, of any width.
template <class Vote, class Fit>
std::uint64_t SignMaskChooser::fit_columns_by(OfSignedColumns<Vote>& all_votes, Fit fit) {
  constexpr int k_half_bits = 4 * sizeof(Vote);
  all_votes.assign(weights_.size(), 0);
  Vote* const votes = all_votes.data();
  each_change([](std::int32_t sum) { return sum < 0 ? k_half_bits : 0; },
              [votes](SignRows::SignedColumn change, std::int32_t half) { votes[change] += Vote{1} << half; });
  const std::size_t columns = weights_.size() / 2;
  columns_.resize((columns + 7) / 8);
  turned_columns_.resize((columns + 7) / 8);
  const FittedColumns fitted{columns_.data(), turned_columns_.data()};
  return fit(votes, static_cast<std::uint32_t>(columns), &fitted);
}

// Makes masked_ what a mask of these columns, and no rows, does.
void SignMaskChooser::turn_by_columns(const std::vector<std::uint8_t>& columns) {
  turned_by_ = columns;
  weigh_columns_by(columns);
  const std::int8_t* const weights = weights_.data();
  masked_.clear();
  std::uint8_t* masked = masked_.extend(signs_->size());
  each_of(signs_->changes(), [&](SignRows::SignedColumn change) { *masked++ = weights[change] < 0 ? 1 : 0; });
}

// And now of these rows, too.
void SignMaskChooser::turn_by_rows(const std::vector<std::uint8_t>& turned) {
  turned_rows_.clear();
  std::uint8_t* const values = turned_rows_.extend(signs_->size() + k_spread_room);
  const SignRows::Rows rows = signs_->rows_in(signs_->all());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const SignRows::Row row = rows[i];
    spread(mask_bit(turned, row.index), values + row.begin, row.size());
  }
  turn(masked_.span(), values);
}

// To the columns by which signs were turned. Returns how many agree.
std::uint64_t SignMaskChooser::fit_rows(const SignKernels& kernels, std::vector<std::uint8_t>& turned) {
  const SignRows::Rows rows = signs_->rows_in(signs_->all());
  negatives_.resize(rows.size());
  kernels.count_negatives(masked_.data(), rows.begins(), static_cast<std::uint32_t>(rows.size()), negatives_.data());
  std::uint64_t agreeing = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const SignRows::Row row = rows[i];
    const std::uint32_t negatives = negatives_[i];
    const std::uint32_t positives = row.size() - negatives;
    agreeing += std::max(negatives, positives);
    set_bit(turned, row.index, negatives > positives ? 1 : 0);
  }
  return agreeing;
}

SignMask SignMaskChooser::choose(const SignKernels& kernels, const SignRows& signs, std::uint64_t element_count) {
  signs_ = &signs;
  are_rows_long_ = signs.size() >= k_long_row_changes * signs.rows_in(signs.all()).size();
  SignMask mask;
  const std::uint64_t all = signs.size();
  const std::uint64_t columns = signs.place().row_elements;
  const std::uint64_t rows = signs.place().row_count(element_count);
  // A mask saves less than a bit per change.
  if (all <= std::min(columns, rows)) return mask;
  const bool is_sampled = all >= k_many_changes;
  const Tellings tellings = is_sampled ? look_at_sample(kernels) : Tellings{true, true};
  if (!tellings.rows && !tellings.columns) return mask;

  look_at_all();
  const auto cost = [&](std::uint64_t agreeing, std::uint64_t mask_bits) {
    return cost_of_signs(agreeing, all) + (mask_bits << 16);
  };
  std::uint64_t least = all << 16;
  if (all > columns) {
    if (!is_sampled) weigh_columns(kernels);
    std::uint64_t agreeing = fit_columns(kernels);
    for (int more = is_sampled ? 0 : k_fits_of_few - 1; more > 0; --more) {
      weigh_columns_by(turned_columns_);
      agreeing = fit_columns(kernels);
    }
    if (const std::uint64_t with_columns = cost(agreeing, columns); with_columns < least) {
      least = with_columns;
      mask = {columns_, {}};
    }
    known_columns_ = turned_columns_;
    known_row_elements_ = columns;
    std::vector<std::uint8_t> turned_rows((rows + 7) / 8);
    turn_by_columns(turned_columns_);
    if (const std::uint64_t with_both = cost(fit_rows(kernels, turned_rows), columns + rows); with_both < least) {
      least = with_both;
      mask = {turned_columns_, std::move(turned_rows)};
    }
  }
  if (tellings.rows) {
    turn_by_columns({});
    std::vector<std::uint8_t> turned_rows((rows + 7) / 8);
    if (cost(fit_rows(kernels, turned_rows), rows) < least) mask = {{}, std::move(turned_rows)};
  }
  if (mask.is_empty()) return mask;
  if (turned_by_ != mask.columns) turn_by_columns(mask.columns);
  if (!mask.rows.empty()) turn_by_rows(mask.rows);
  return mask;
}

}  // namespace wdelta
