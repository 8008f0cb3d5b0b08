// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/scratch_vector.hpp"
#include "engine/sign_mask.hpp"
#include "engine/sign_rows.hpp"

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

namespace wdelta {

/// Finds masks; keeps the memory that this takes for the next time.
class SignMaskChooser {
 public:
  /// The mask that saves most, its own bits counted in; empty where none saves anything, or where of many changes a
  /// sample says that none would. `element_count`: of the stretch.
  SignMask choose(const SignKernels& kernels, const SignRows& signs, std::uint64_t element_count);
  /// Of each change, once a mask was found: 1 where the sign that it leaves or makes is negative, else 0.
  std::span<const std::uint8_t> masked_signs() const { return masked_.span(); }
  /// Forgets the stretches before. One that goes on with the matrix of the last is likely to have its columns: these
  /// are tried before others are looked for.
  void forget() { known_row_elements_ = 0; }

 private:
  /// Of each column two: for its positive signs and for its negative ones.
  template <class T>
  using OfSignedColumns = std::vector<T>;
  /// In which kinds of lines a sample agrees more than by chance.
  struct Tellings {
    bool rows;
    bool columns;  ///< or rows and columns together
  };

  Tellings look_at_sample(const SignKernels& kernels);
  void look_at(std::initializer_list<std::size_t> sixteenths);
  void look_at_all();
  std::span<const SignRows::SignedColumn> changes_of(const SignRows::Row& row) const;
  // All of these are about parts_.
  template <class Visit, class Behind>
  void each_stretch(Visit visit, Behind behind);
  template <class Visit>
  void each_sum(Visit visit);
  template <class Of, class Visit>
  void each_change(Of of, Visit visit);
  template <class Squares>
  double deviations_of_rows(Squares squares_of);
  double deviations_of_weighed_rows();
  double deviations_of_columns() const;
  bool do_rows_tell();
  void weigh_columns_by(const std::vector<std::uint8_t>& bits);
  void weigh_columns(const SignKernels& kernels);
  template <class Vote, class Fit>
  std::uint64_t fit_columns_by(OfSignedColumns<Vote>& votes, Fit fit);
  std::uint64_t fit_columns(const SignKernels& kernels);
  void turn_by_columns(const std::vector<std::uint8_t>& columns);
  void turn_by_rows(const std::vector<std::uint8_t>& turned);
  std::uint64_t fit_rows(const SignKernels& kernels, std::vector<std::uint8_t>& turned);

  const SignRows* signs_ = nullptr;  // of the choose() that is at work
  bool are_rows_long_ = false;
  std::vector<SignRows::Part> parts_;     // of these, a sample or all
  OfSignedColumns<std::int8_t> weights_;  // what rows are fitted to
  OfSignedColumns<std::int32_t> counts_;
  OfSignedColumns<std::int32_t> sums_;  // as much as the rows are sure
  OfSignedColumns<std::uint32_t> votes_;
  OfSignedColumns<std::uint64_t> many_votes_;  // where votes_ are too narrow
  std::vector<std::uint8_t> columns_;          // bits of a mask without rows
  std::vector<std::uint8_t> turned_columns_;   // bits of a mask with rows
  std::vector<std::uint8_t> known_columns_;    // the same, of a stretch before
  std::uint64_t known_row_elements_ = 0;       // of that one's rows; 0: none is known
  std::vector<std::int32_t> room_;             // of columns
  std::vector<std::uint32_t> negatives_;       // of rows
  // Change by change.
  ScratchVector<std::int32_t> sums_up_to_;
  ScratchVector<std::uint64_t> squares_up_to_;
  ScratchVector<std::int32_t> values_of_rows_;
  std::vector<std::uint8_t> turned_by_;  // the columns by which these are turned
  ScratchVector<std::uint8_t> masked_;
  ScratchVector<std::uint8_t> turned_rows_;
};

}  // namespace wdelta
