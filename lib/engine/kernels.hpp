// SPDX-License-Identifier: Apache-2.0
// Plain structs only: kernel files include this and intrinsics, nothing else (lib/README.md, "Kernels").
#pragma once

#include <cstddef>
#include <cstdint>

namespace wdelta {

/// What an engine does for one element type, on blocks of at most 65,536 elements. Bits are compared, never numbers.
/// Arrays need no alignment. No function reads a byte outside `count` elements or writes outside what it says, but for
/// what find_changes and find_ranked_changes write: that must have room for `count` + 64 entries.
///
/// A step is zigzag(order(next) - order(base)) modulo 2^(8·width), stored unsigned in the element's width, where
/// order() maps sign-magnitude bits to two's complement for floating elements (x ^ (x<0 ? 0x7f…f : 0)) and is the
/// identity for integers, and zigzag(s) = (s << 1) ^ (s >> (width-1)) maps small signed steps to small unsigned
/// numbers. The step of an element that did not change is 0.
struct BlockKernels {
  /// Writes the position and step of every element that differs, in ascending order; returns how many.
  std::uint32_t (*find_changes)(const void* base, const void* next, std::uint32_t count, std::uint16_t* positions,
                                void* steps);
  /// Adds `steps[i]` to the element at `positions[i]`, in place. The caller has checked that positions lie inside and
  /// that no two are the same.
  void (*apply_changes)(void* elements, const std::uint16_t* positions, const void* steps, std::uint32_t changes);
  /// Writes the step of every element, changed or not, split into byte planes: plane k holds byte k (least significant
  /// first) of each step, at planes + k * count.
  void (*split_steps)(const void* base, const void* next, std::uint32_t count, std::uint8_t* planes);
  /// The inverse: adds the steps in `planes` to the elements, in place.
  void (*merge_steps)(void* elements, std::uint32_t count, const std::uint8_t* planes);
  /// What a classed block says of a change instead of its position. The class of an element is how many of `bounds`
  /// (ascending, at most 15) are not above its context, the 8 bits that class_map.hpp says. change_classes[i]: the
  /// class of the element at positions[i]; ranks[i]: how many elements of that class lie before it. Positions ascend;
  /// there is one at least. members[k]: how many elements class k has, of 16 classes. Null for elements of more than 4
  /// bytes, which no classed block has.
  void (*rank_changes)(const void* elements, std::uint32_t count, const std::uint8_t* bounds, std::uint32_t bound_count,
                       const std::uint16_t* positions, std::uint32_t changes, std::uint16_t* ranks,
                       std::uint8_t* change_classes, std::uint32_t* members);
  /// find_changes() and rank_changes() of what it finds, at once; `ranks` and `change_classes` have room for `count` +
  /// 64 entries too. Where nothing is found, `members` are unspecified. Null where rank_changes is.
  std::uint32_t (*find_ranked_changes)(const void* base, const void* next, std::uint32_t count,
                                       const std::uint8_t* bounds, std::uint32_t bound_count, std::uint16_t* positions,
                                       void* steps, std::uint16_t* ranks, std::uint8_t* change_classes,
                                       std::uint32_t* members);
};

/// How far the blocks of a strip that lie before one have come, class by class.
struct StripProgress {
  std::uint32_t changes[16];  ///< of those that the class has in the strip
  std::uint32_t members[16];  ///< elements of the class, before any of the strip changed; of those classes that have
                              ///< changes left
};

/// The changes of a strip of classed blocks, those of class 0 first, and one of its blocks.
struct ClassedChanges {
  const std::uint8_t* bounds;          ///< of the classes, ascending
  std::uint32_t bound_count;           ///< at most 15, one less than there are classes
  const std::uint32_t* class_changes;  ///< how many changes each class has
  const std::uint32_t* ranks;          ///< how many elements of its class lie before each in the strip; ascending in a
                                       ///< class
  const void* moves;                   ///< what each adds to the order of its element; as wide as elements are
  const std::uint64_t* flips;          ///< a bit for each element of the block, set where the move is taken away
                                       ///< instead; or null
  StripProgress* progress;             ///< all zeros before the first block of the strip
  std::uint32_t blocks_left;           ///< of the strip: this one and those behind it
};

/// Consecutive classes.
struct ClassRange {
  std::uint8_t first;
  std::uint8_t end;  ///< behind the last
};
constexpr std::uint32_t k_most_class_ranges = 32;

/// What a chain of deltas asks of the elements of one block: the classes of all of them are ranges of those that the
/// bounds of all of them together make.
struct ClassRanges {
  const std::uint8_t* bounds;  ///< ascending
  std::uint32_t bound_count;   ///< at most 15
  const ClassRange* ranges;
  std::uint32_t range_count;  ///< at most k_most_class_ranges
};

/// What one of these deltas changes.
struct ChainedChanges {
  ClassedChanges changes;
  std::uint8_t range_of_class[16];
};
constexpr std::uint32_t k_most_chained = 16;

/// What an engine does to take the classed blocks of a chain of deltas through one block, where looking at every
/// element once for all of them is faster than once for each.
struct ChainKernels {
  /// What apply() needs; 0 where the engine has none. It begins at a multiple of 64.
  std::size_t scratch_bytes;
  /// ClassedKernels::apply() of several deltas, at most k_most_chained, one after the other; each has a progress of its
  /// own. Returns how many come before the first for which that is false; all, where there is none.
  std::uint32_t (*apply)(void* elements, std::uint32_t count, const ClassRanges* ranges, const ChainedChanges* deltas,
                         std::uint32_t delta_count, void* scratch);
};

/// What an engine does to apply classed blocks of one element type. Arrays need no alignment; nothing is read or
/// written outside them.
struct ClassedKernels {
  /// Puts buckets and raw bits together, class by class: class_changes[k] changes of class k. `gap_symbols` are
  /// buckets, `step_symbols` twice the bucket and a sign. Raw bits begin with bit *raw_bits of `raw`; in the end that
  /// is the bit behind the last. Writes the rank of each change in its class, and its move. Returns one more than the
  /// largest rank; 2^32 - 1 where that is more, and then ranks are cut off. Reads up to 64 bytes behind the last raw
  /// bit, and `ranks` and `moves` must have room for 16 entries more. Gap symbols are below k_gap_buckets.
  std::uint32_t (*join_raw_bits)(const std::uint8_t* gap_symbols, const std::uint8_t* step_symbols,
                                 std::uint32_t class_count, const std::uint32_t* class_changes, const std::uint8_t* raw,
                                 std::uint32_t* ranks, void* moves, std::uint64_t* raw_bits);
  /// Moves those of `count` elements, a block or the next part of one, that the changes say, in place, and brings the
  /// progress up to date but where the block is the last of the strip. Returns false when it is that and changes are
  /// left over: a class has not so many elements.
  bool (*apply)(void* elements, std::uint32_t count, const ClassedChanges* changes);
  ChainKernels chain;
};

/// What a decoder looks up of one alphabet, by the low ten bits of a state. A slot has from its lowest bit on the
/// frequency of the symbol, its own place among the slots of that symbol, and the symbol.
struct DecodeTable {
  static constexpr std::uint32_t k_slot_bits = 10;
  static constexpr std::uint32_t k_slots = 1U << k_slot_bits;
  static constexpr std::uint32_t k_frequencies = 2 * k_slots - 1;  ///< a mask: one symbol may have all slots
  static constexpr std::uint32_t k_place_shift = 11;
  static constexpr std::uint32_t k_symbol_shift = 24;

  std::uint32_t slots[k_slots];
};

/// Changes as their elements come: what find_ranked_changes() says of them.
struct ChangesInOrder {
  const std::uint8_t* classes;
  const std::uint16_t* ranks;
  const void* steps;
  std::uint32_t count;
  std::uint32_t class_count;
};

/// Those of class 0 first, then of class 1 and so on, those of a class as they come.
struct ChangesByClass {
  std::uint16_t* gaps;           ///< members of the class since its change before; room for 32 more
  void* steps;                   ///< room for 64 bytes more
  std::uint32_t* class_changes;  ///< how many there are of each class
  std::uint32_t* rank_ends;      ///< one more than the last rank of each class; 0 where it has no changes
};

/// Pairs of symbols, strip after strip; of each those of class 0 first, then of class 1 and so on.
struct SymbolPairs {
  const std::uint8_t* gaps;
  const std::uint8_t* steps;
  const std::uint32_t* class_changes;  ///< how many pairs of each of 16 classes, strip after strip
  std::uint32_t strips;
};

/// Pairs of symbols, and what codes them.
struct SymbolStream {
  SymbolPairs pairs;
  std::uint32_t lanes;      ///< coders: a power of two, at most 8
  std::uint32_t states[8];  ///< of the coders at the start, and in the end those that the decoder starts with
  std::uint16_t* words;     ///< behind the last word, and in the end the first
};
constexpr std::uint32_t k_most_streams = 2;

/// Pairs of symbols to be decoded, and what codes them. Class k has its gaps in tables[2 * k] and its steps in
/// tables[2 * k + 1].
struct CodedPairs {
  const DecodeTable* tables;
  const std::uint8_t* classes;  ///< of each pair, in any order
  std::uint32_t count;
  std::uint32_t lanes;      ///< coders: a power of two, at most 8
  std::uint32_t states[8];  ///< below 2^31; in the end what the encoder started with
  const std::uint8_t* words;
  const std::uint8_t* words_end;
  std::uint8_t* gaps;
  std::uint8_t* steps;

  /// Goes on behind pairs that were decoded.
  void advance(std::uint32_t pairs) {
    classes += pairs;
    count -= pairs;
    gaps += pairs;
    steps += pairs;
  }
};
constexpr std::uint32_t k_most_decoded_at_once = 4;

/// What an encoder looks up (symbol_table.hpp): of class k gaps from entries[k * k_class_entries] on, and steps from
/// k_first_step_entry behind that.
constexpr std::uint32_t k_class_entries = 256;
constexpr std::uint32_t k_first_step_entry = 64;

/// What an engine does with classes and symbols; the same for all element types. Classes are numbered from 0, at most
/// 16.
struct CodingKernels {
  /// Steps of 1, 2 or 4 bytes.
  void (*order_by_class)(const ChangesInOrder* changes, std::uint8_t width_bytes, const ChangesByClass* ordered);
  /// The same order of a byte for each change. `ordered` has room for 64 bytes more.
  void (*order_bytes_by_class)(const std::uint8_t* change_classes, std::uint32_t changes, std::uint32_t class_count,
                               const std::uint8_t* bytes, std::uint8_t* ordered);
  /// Adds to counts[s] how often symbol s, less than `symbol_count`, occurs.
  void (*count_symbols)(const std::uint8_t* symbols, std::uint32_t count, std::uint32_t symbol_count,
                        std::uint32_t* counts);
  /// Codes pairs of symbols (range coder in wdelta-delta.5), of at most k_most_streams: each as if alone, but side by
  /// side they wait less. Words are written in front of what is there, at most two per pair, and up to 8 more are
  /// overwritten.
  void (*encode_symbols)(const std::uint64_t* entries, SymbolStream* streams, std::uint32_t stream_count);
  /// The inverse, of at most k_most_decoded_at_once: each as if alone, but side by side they wait less. In the end all
  /// pairs of a stream were advanced over and `words` is behind the last byte read; or `words` is null, where there are
  /// too few.
  void (*decode_symbols)(CodedPairs* streams, std::uint32_t stream_count);
  /// Takes gaps, and steps of 1, 2 or 4 bytes as find_changes() writes them, apart: writes their symbols, and their raw
  /// bits from `raw` on, at most k_most_raw_bits (bucket.hpp) a change and up to 8 bytes behind the last. Returns how
  /// many raw bits there are.
  std::uint64_t (*split_raw_bits)(const std::uint32_t* gaps, const void* steps, std::uint8_t width_bytes,
                                  std::uint32_t changes, std::uint8_t* gap_symbols, std::uint8_t* step_symbols,
                                  std::uint8_t* raw);
};

/// Changes of a block of a matrix.
struct SignsOfBlock {
  const std::uint16_t* positions;  ///< ascending
  const void* steps;               ///< as find_changes() writes them: the sign of an odd one is negative
  std::uint8_t width_bytes;        ///< of a step: 1, 2 or 4
  std::uint32_t count;
  std::uint32_t first_element;  ///< of the block, counted from the beginning of row 0; its elements lie below 2^23
  std::uint32_t row_elements;   ///< 2 to 65,536
  std::uint32_t last_row;       ///< that of the change before, or 2^32 - 1 where there is none
  std::uint32_t first_change;   ///< the number of the first, from which on changes are numbered
};

/// Where each is. Rows are those that begin in the block: the first one does not, where it goes on with the last row.
struct SignsInRows {
  std::uint32_t* columns;      ///< of each change twice the column, and 1 where the sign is negative; room for 16 more
  std::uint32_t* row_indices;  ///< room for `count` + 16
  std::uint32_t* row_begins;   ///< the number of a row's first change; room for `count` + 16
};

/// What the signs of columns say, as they are and as the rows turn them: a bit for each column, eight to a byte, lowest
/// first, which is set where more of its signs are negative.
struct FittedColumns {
  std::uint8_t* as_they_are;
  std::uint8_t* as_turned;
};

/// What an engine does with the signs of a matrix; the same for all element types.
struct SignKernels {
  /// Returns how many rows begin.
  std::uint32_t (*list_rows)(const SignsOfBlock* signs, const SignsInRows* in_rows);
  /// Of each column there are two of everything: for its positive signs, and for its negative ones. How sure a column
  /// is of its sign: by the first of its `sums`, less the second, less its own weight times both `counts`; all of these
  /// are less than 2^31. Replaces `weights`, each at most 2^7 - 1, by others in proportion to this, rounded towards 0;
  /// the second is the first with the other sign. `room` is for a number a column.
  void (*weigh_columns)(const std::int32_t* sums, const std::int32_t* counts, std::uint32_t columns, std::int32_t* room,
                        std::int8_t* weights);
  /// `votes`: of each column two, of its positive signs and of its negative ones. The lower half of each says how many
  /// lie in rows that are left, the upper half how many in rows that are turned. Returns how many signs are those that
  /// most of their column's are.
  std::uint64_t (*fit_columns)(const std::uint32_t* votes, std::uint32_t columns, const FittedColumns* fitted);
  /// Of each row, how many of its signs are negative. `signs`: 1 where one is, else 0, row by row; `begins`: where
  /// those of each row begin, and the end of the last.
  void (*count_negatives)(const std::uint8_t* signs, const std::uint32_t* begins, std::uint32_t rows,
                          std::uint32_t* negatives);
  /// Gives step symbols other signs, which are their lowest bits. Returns how many of these are 1.
  std::uint32_t (*set_signs)(std::uint8_t* step_symbols, const std::uint8_t* signs, std::uint32_t count);
};

/// Kernels by [log2 width][kind]; classed ones for elements of at most 4 bytes.
struct KernelTable {
  BlockKernels block[4][2];
  const ClassedKernels (*classed)[2];
  CodingKernels coding;
  SignKernels signs;
};

extern const ClassedKernels k_classed_scalar[3][2];
extern const ClassedKernels k_classed_avx2[3][2];
extern const ClassedKernels k_classed_avx512[3][2];

extern const KernelTable k_kernels_scalar;
extern const KernelTable k_kernels_avx2;
extern const KernelTable k_kernels_avx512;

}  // namespace wdelta
