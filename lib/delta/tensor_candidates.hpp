// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "delta/ordered_base.hpp"
#include "delta/tensor_names.hpp"

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace wdelta {

/// Which of AlikeTensors one file still has a use for. Free are those that the file has not under their own name and
/// that none of its tensors has been found to come from. What they have in common with other files is the index's: this
/// takes room and time for what is asked for.
class TensorCandidates {
 public:
  /// Both must outlive it.
  TensorCandidates(const OrderedBase& base, const AlikeTensors& alike);

  /// Those of that name are not free: the file has it itself.
  void set_aside(const std::string& name);
  /// What was found for `name`, besides its source: where a number of the name was shifted, so may those of others be.
  void take(std::size_t number, const std::string& name);
  /// Some of each: those that the name was before layers were inserted or dropped; free ones whose names end like
  /// `name`; free ones with the same first numbers in their names, as of a layer; the first free ones, since what is
  /// renamed from end to end mostly stays in order; any whose names end like it.
  std::vector<std::size_t> worth_a_look(const std::string& name);

 private:
  // Where to go on behind places that are of no more use, as they are found. There are only ever more of these.
  class Skips {
   public:
    /// The first from `at` on that is of use, or the first that is_end(); `step` is 1 or -1.
    template <typename IsEnd, typename IsOfUse>
    std::ptrdiff_t next(std::ptrdiff_t at, std::ptrdiff_t step, IsEnd is_end, IsOfUse is_of_use);

   private:
    std::unordered_map<std::ptrdiff_t, std::ptrdiff_t> behind_;
  };

  class Chosen;
  enum class Of { all, free };

  bool is_free(std::size_t number) const { return !taken_.contains(number); }
  template <typename Take>
  void for_each_free(const std::vector<std::size_t>& numbers, std::size_t from, Take take);
  void choose_first_free(const TensorNumbers& from, Chosen& chosen);
  std::vector<std::size_t> in_order(const AlikeTensors::SameName& same, Of of) const;
  void choose_alike(const std::string& wanted, Of of, Chosen& chosen);

  const OrderedBase* base_;
  const AlikeTensors* alike_;
  std::pair<std::size_t, std::size_t> of_first_file_;
  std::unordered_set<std::size_t> taken_;
  std::map<const std::vector<std::size_t>*, Skips> skips_;
  Skips skips_above_;  // of by_ending()
  Skips skips_below_;
  std::optional<NumberShift> last_shift_;
};

}  // namespace wdelta
