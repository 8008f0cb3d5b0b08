// SPDX-License-Identifier: Apache-2.0
// Named _scalar for its flags: these loops want the vectoriser, but not a newer processor.
#include "engine/sparse.hpp"

#include <bit>
#include <cstring>

namespace wdelta {
namespace {

constexpr std::uint8_t k_escape = 255;  // a byte that stands for 255 or more

template <class T>
T load(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

// Summed up in a byte for as long as a byte can hold the sum: wider sums make the loop four times slower.
std::size_t count_bytes(const std::uint8_t* bytes, std::size_t size_bytes, std::uint8_t value) {
  constexpr std::size_t k_run = 240;
  std::size_t count = 0;
  for (std::size_t first = 0; first < size_bytes; first += k_run) {
    const std::uint8_t* const run = bytes + first;
    const std::size_t length = size_bytes - first < k_run ? size_bytes - first : k_run;
    std::uint8_t in_run = 0;
    for (std::size_t i = 0; i < length; ++i) in_run = static_cast<std::uint8_t>(in_run + (run[i] == value ? 1 : 0));
    count += in_run;
  }
  return count;
}

template <class T>
T largest(const T* steps, std::size_t count) {
  T most = 0;
  for (std::size_t i = 0; i < count; ++i) most = steps[i] > most ? steps[i] : most;
  return most;
}

/// The high bit of each byte of `word` that is 255.
std::uint64_t escapes_in(std::uint64_t word) {
  constexpr std::uint64_t k_high = 0x8080808080808080;
  return ((word & ~k_high) + 0x0101010101010101) & word & k_high;
}

/// Calls visit(i) for each of `bytes` that is an escape, in order. Eight at a time: most words hold none.
template <class Visit>
void each_escape(const std::uint8_t* bytes, std::size_t count, Visit visit) {
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (std::uint64_t found = escapes_in(load<std::uint64_t>(bytes + i)); found != 0; found &= found - 1) {
      visit(i + static_cast<std::size_t>(std::countr_zero(found)) / 8);
    }
  }
  for (; i < count; ++i) {
    if (bytes[i] == k_escape) visit(i);
  }
}

std::uint8_t* join_gaps(const std::uint16_t* positions, std::size_t changes, std::uint8_t* bytes,
                        std::uint8_t* escapes) {
  const auto gap_before = [&](std::size_t i) {
    return static_cast<std::uint16_t>(i == 0 ? positions[0] : positions[i] - positions[i - 1] - 1);
  };
  const auto byte_of = [](std::uint16_t gap) { return static_cast<std::uint8_t>(gap < k_escape ? gap : k_escape); };
  bytes[0] = byte_of(gap_before(0));
  for (std::size_t i = 1; i < changes; ++i) {
    bytes[i] = byte_of(static_cast<std::uint16_t>(positions[i] - positions[i - 1] - 1));
  }
  each_escape(bytes, changes, [&](std::size_t i) {
    const auto beyond = static_cast<std::uint16_t>(gap_before(i) - k_escape);
    std::memcpy(escapes, &beyond, sizeof(beyond));
    escapes += sizeof(beyond);
  });
  return escapes;
}

template <class T>
std::uint8_t* join_steps(const T* steps, std::size_t changes, std::uint8_t* bytes, std::uint8_t* escapes) {
  for (std::size_t i = 0; i < changes; ++i) {
    const T less = static_cast<T>(steps[i] - 1);
    bytes[i] = static_cast<std::uint8_t>(less < k_escape ? less : k_escape);
  }
  if constexpr (sizeof(T) > 1) {
    each_escape(bytes, changes, [&](std::size_t i) {
      const T beyond = static_cast<T>(steps[i] - (k_escape + 1));
      std::memcpy(escapes, &beyond, sizeof(beyond));
      escapes += sizeof(beyond);
    });
  }
  return escapes;
}

/// Four positions in lanes of 16 bits: those of four changes behind `next` with these gaps, none of them an escape.
struct FourPositions {
  std::uint64_t lanes;
  std::uint64_t next;
};

FourPositions four_positions(std::uint32_t gaps, std::uint64_t next) {
  constexpr std::uint64_t k_ones = 0x0001000100010001;
  std::uint64_t lanes = gaps;
  lanes = (lanes | lanes << 16) & 0x0000ffff0000ffff;
  lanes = (lanes | lanes << 8) & 0x00ff00ff00ff00ff;
  // Multiplying by ones sums up from the lowest lane; no sum reaches the lane above. A position that outgrows its lane
  // spoils others of a block that is refused anyway.
  const std::uint64_t sums = (lanes + k_ones) * k_ones;
  return {sums - k_ones + (next & 0xffff) * k_ones, next + (sums >> 48)};
}

// The sum is taken in 64 bits: 65,536 gaps of 65,790 do not fit into 32. Positions only grow, so one look at the last
// covers them all.
const char* part_gaps(const std::uint8_t* bytes, const std::uint8_t* escapes, std::size_t changes,
                      std::uint32_t element_count, std::uint16_t* positions) {
  std::uint64_t next = 0;
  // Whether there is an escape is not asked: it is loaded in any case, and a branch would often be mistaken.
  const auto place = [&](std::size_t i) {
    const bool escaped = bytes[i] == k_escape;
    const std::uint64_t position = next + bytes[i] + (escaped ? load<std::uint16_t>(escapes) : 0U);
    escapes += escaped ? 2 : 0;
    positions[i] = static_cast<std::uint16_t>(position);
    next = position + 1;
  };
  std::size_t i = 0;
  for (; i + 8 <= changes; i += 8) {
    const std::uint64_t gaps = load<std::uint64_t>(bytes + i);
    if (escapes_in(gaps) == 0) {
      const FourPositions low = four_positions(static_cast<std::uint32_t>(gaps), next);
      const FourPositions high = four_positions(static_cast<std::uint32_t>(gaps >> 32), low.next);
      std::memcpy(positions + i, &low.lanes, sizeof(low.lanes));
      std::memcpy(positions + i + 4, &high.lanes, sizeof(high.lanes));
      next = high.next;
    } else {
      for (std::size_t k = i; k < i + 8; ++k) place(k);
    }
  }
  for (; i < changes; ++i) place(i);
  return next > element_count ? "a change lies outside the block" : nullptr;
}

template <class T>
const char* part_steps(const std::uint8_t* bytes, const std::uint8_t* escapes, std::size_t changes, T* steps) {
  for (std::size_t i = 0; i < changes; ++i) steps[i] = static_cast<T>(bytes[i] + 1);
  bool too_wide = false;
  if constexpr (sizeof(T) > 1) {
    constexpr T k_most = static_cast<T>(~T{0}) - (k_escape + 1);
    each_escape(bytes, changes, [&](std::size_t i) {
      const T beyond = load<T>(escapes);
      escapes += sizeof(T);
      too_wide |= beyond > k_most;
      steps[i] = static_cast<T>(beyond + (k_escape + 1));
    });
  }
  return too_wide ? "a step is wider than the element" : nullptr;
}

template <class Visit>
auto with_width(std::uint8_t width_bytes, Visit visit) {
  switch (width_bytes) {
    case 1:
      return visit(std::uint8_t{});
    case 2:
      return visit(std::uint16_t{});
    case 4:
      return visit(std::uint32_t{});
    default:
      return visit(std::uint64_t{});
  }
}

}  // namespace

std::size_t join_sparse(const std::uint16_t* positions, const void* steps, std::uint32_t changes,
                        std::uint8_t width_bytes, std::uint8_t* streams) {
  std::uint8_t* end = join_gaps(positions, changes, streams, streams + sparse_least_bytes(changes));
  end = with_width(width_bytes, [&]<class T>(T) {
    return join_steps(static_cast<const T*>(steps), changes, streams + changes, end);
  });
  return static_cast<std::size_t>(end - streams);
}

const char* part_sparse(const std::uint8_t* streams, std::size_t size_bytes, std::uint32_t changes,
                        std::uint8_t width_bytes, std::uint32_t element_count, std::uint16_t* positions, void* steps) {
  const std::size_t long_gaps = count_bytes(streams, changes, k_escape);
  const std::size_t long_steps = count_bytes(streams + changes, changes, k_escape);
  if (width_bytes == 1 && long_steps != 0) return "a step is wider than the element";
  if (size_bytes != sparse_least_bytes(changes) + 2 * long_gaps + width_bytes * long_steps) {
    return "its streams have the wrong length";
  }
  const std::uint8_t* const gap_escapes = streams + sparse_least_bytes(changes);
  if (const char* wrong = part_gaps(streams, gap_escapes, changes, element_count, positions)) return wrong;
  return with_width(width_bytes, [&]<class T>(T) {
    return part_steps(streams + changes, gap_escapes + 2 * long_gaps, changes, static_cast<T*>(steps));
  });
}

std::uint64_t largest_step(const void* steps, std::uint32_t count, std::uint8_t width_bytes) {
  return with_width(width_bytes,
                    [&]<class T>(T) -> std::uint64_t { return largest(static_cast<const T*>(steps), count); });
}

namespace {

template <class T, ElementKind kind>
StepsFromZeros steps_of(const char* elements, std::uint32_t count) {
  // Counted in elements' own width, so that as many of them as possible are counted at once.
  T largest = 0;
  std::uint32_t changes = 0;
  constexpr std::uint32_t k_run = 128;
  for (std::uint32_t first = 0; first < count; first += k_run) {
    const std::uint32_t end = count - first < k_run ? count : first + k_run;
    T run_changes = 0;
    for (std::uint32_t i = first; i < end; ++i) {
      T element;
      __builtin_memcpy(&element, elements + i * sizeof(T), sizeof(T));
      const T sign = static_cast<T>(element >> (8 * sizeof(T) - 1));
      const T below = kind == ElementKind::floating ? sign : static_cast<T>(0 - sign);
      const T above = static_cast<T>(element << 1);
      const T step = static_cast<T>(kind == ElementKind::floating ? above | below : above ^ below);
      largest = step > largest ? step : largest;
      run_changes = static_cast<T>(run_changes + (element != 0 ? 1 : 0));
    }
    changes += static_cast<std::uint32_t>(run_changes);
  }
  return {changes, largest};
}

}  // namespace

StepsFromZeros steps_from_zeros(const void* elements, std::uint32_t count, ElementType type) {
  return with_width(type.width_bytes, [&]<class T>(T) {
    const char* const bytes = static_cast<const char*>(elements);
    return type.kind == ElementKind::floating ? steps_of<T, ElementKind::floating>(bytes, count)
                                              : steps_of<T, ElementKind::integer>(bytes, count);
  });
}

std::size_t count_zeros(const std::uint8_t* bytes, std::size_t size_bytes) { return count_bytes(bytes, size_bytes, 0); }

}  // namespace wdelta
