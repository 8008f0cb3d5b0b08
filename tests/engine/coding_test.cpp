// SPDX-License-Identifier: Apache-2.0
// The kernels that code symbols, alone, on buffers that end where memory does.
#include "elements.hpp"
#include "engine/bits.hpp"
#include "engine/bucket.hpp"
#include "engine/class_map.hpp"
#include "engine/engine.hpp"
#include "engine/group_tables.hpp"
#include "engine/symbol_table.hpp"
#include "guarded.hpp"
#include "kernel_rooms.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <doctest/doctest.h>
#include <string>

namespace wdelta {
namespace {

using namespace testing;
using Bytes = std::vector<std::uint8_t>;

/// Classes of so many elements, 0xff behind them, some of them in long runs.
Bytes random_classes(std::mt19937_64& random, std::size_t count, std::uint32_t class_count) {
  Bytes classes(padded(count), 0xff);
  std::uint8_t k = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (random() % (count % 3 == 0 ? 100 : 2) == 0) k = static_cast<std::uint8_t>(random() % class_count);
    classes[i] = k;
  }
  return classes;
}
}  // namespace

TEST_CASE("changes are ordered by class, those of a class as they come, for every length and width of steps") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  Guarded rooms[] = {Guarded(65536), Guarded(2 * 65536), Guarded(4 * 65536), Guarded(2 * 65536 + 64),
                     Guarded(4 * 65536 + 64)};
  for (const std::size_t count : counts_of_elements()) {
    for (const std::uint32_t class_count : {1U, 2U, 7U, k_most_classes}) {
      Bytes classes = random_classes(random, count, class_count);
      classes.resize(count);
      // Members that do not change lie here and there.
      std::array<std::uint32_t, k_most_classes> ends{};
      std::vector<std::uint16_t> ranks(count);
      std::vector<std::uint16_t> gaps(count);
      for (std::size_t i = 0; i < count; ++i) {
        std::uint32_t& end = ends[classes[i]];
        gaps[i] =
            static_cast<std::uint16_t>(random() % 8 == 0 ? random() % std::max<std::size_t>(1, 65536 - count) / 64 : 0);
        if (end + gaps[i] > 65535) gaps[i] = 0;
        ranks[i] = static_cast<std::uint16_t>(end + gaps[i]);
        end = ranks[i] + 1U;
      }
      std::vector<std::size_t> order(count);
      for (std::size_t i = 0; i < count; ++i) order[i] = i;
      std::ranges::stable_sort(order, {}, [&](std::size_t i) { return classes[i]; });
      std::vector<std::uint16_t> ordered_gaps;
      for (const std::size_t i : order) ordered_gaps.push_back(gaps[i]);
      for (const std::uint8_t width_bytes : {std::uint8_t{1}, std::uint8_t{2}, std::uint8_t{4}}) {
        const Bytes steps = random_bytes(random, count * width_bytes);
        Bytes ordered_steps;
        for (const std::size_t i : order) {
          for (std::size_t byte = 0; byte < width_bytes; ++byte) ordered_steps.push_back(steps[i * width_bytes + byte]);
        }
        each_usable_engine([&](const Engine& engine) {
          CAPTURE(engine.name);
          CAPTURE(count);
          CAPTURE(class_count);
          CAPTURE(int{width_bytes});
          const CodingKernels& coding = engine.kernels->coding;
          std::array<std::uint32_t, k_most_classes> class_changes{};
          class_changes.fill(77);
          std::array<std::uint32_t, k_most_classes> rank_ends = class_changes;
          const auto new_gaps = rooms[3].last(2 * (count + 32));
          const auto new_steps = rooms[4].last(count * width_bytes + 64);
          const auto changes = static_cast<std::uint32_t>(count);
          const ChangesInOrder in_order = {rooms[0].copy(classes).data(),
                                           typed<std::uint16_t>(rooms[1].copy(bytes_of(ranks))),
                                           rooms[2].copy(steps).data(), changes, class_count};
          const ChangesByClass by_class = {typed<std::uint16_t>(new_gaps), new_steps.data(), class_changes.data(),
                                           rank_ends.data()};
          coding.order_by_class(&in_order, width_bytes, &by_class);
          if (!std::ranges::equal(new_gaps.first(2 * count), bytes_of(ordered_gaps))) FAIL("other gaps");
          if (!std::ranges::equal(new_steps.first(ordered_steps.size()), ordered_steps)) FAIL("other steps");
          for (std::uint32_t k = 0; k < class_count; ++k) {
            if (class_changes[k] != static_cast<std::uint32_t>(std::ranges::count(classes, k))) FAIL("another count");
            if (rank_ends[k] != ends[k]) FAIL("another last rank");
          }
          for (std::uint32_t k = class_count; k < k_most_classes; ++k) {
            if (class_changes[k] != 77 || rank_ends[k] != 77) FAIL("something beyond the last class");
          }
          if (width_bytes != 1) return;
          coding.order_bytes_by_class(in_order.classes, changes, class_count, rooms[2].copy(steps).data(),
                                      new_steps.data());
          if (!std::ranges::equal(new_steps.first(count), ordered_steps)) FAIL("other bytes");
        });
      }
    }
  }
}

TEST_CASE("symbols are counted, for every length, and added to what was counted before") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  Guarded room(65536);
  for (const std::size_t count : counts_of_elements()) {
    for (const std::uint32_t symbol_count : {1U, k_gap_buckets, k_step_symbols}) {
      Bytes symbols(count);
      for (std::uint8_t& symbol : symbols) {
        symbol = static_cast<std::uint8_t>(random() % 3 == 0 ? random() % symbol_count : 0);
      }
      std::vector<std::uint32_t> wanted(k_step_symbols);
      for (std::uint32_t i = 0; i < symbol_count; ++i) wanted[i] = i;
      for (const std::uint8_t symbol : symbols) ++wanted[symbol];
      each_usable_engine([&](const Engine& engine) {
        CAPTURE(engine.name);
        CAPTURE(count);
        CAPTURE(symbol_count);
        std::vector<std::uint32_t> counts(k_step_symbols);
        for (std::uint32_t i = 0; i < symbol_count; ++i) counts[i] = i;
        engine.kernels->coding.count_symbols(room.copy(symbols).data(), static_cast<std::uint32_t>(count), symbol_count,
                                             counts.data());
        CHECK(counts == wanted);
      });
    }
  }
}

TEST_CASE("gaps and steps of every width come apart into symbols and raw bits, the same from every engine") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  Guarded rooms[] = {Guarded(4 * 65536), Guarded(4 * 65536), Guarded(65536), Guarded(65536), Guarded(7 * 65536)};
  for (const std::size_t count : counts_of_elements()) {
    for (const std::uint32_t most_bits : {0U, 3U, 8U, 9U, 16U, 32U}) {
      std::vector<std::uint32_t> gaps(count);
      std::vector<std::uint32_t> steps(count);
      Bytes gap_symbols(count);
      Bytes step_symbols(count);
      Bytes raw;
      BitWriter writer(raw);
      for (std::size_t i = 0; i < count; ++i) {
        const auto some_bits = [&](std::uint32_t most) {
          const auto bits = static_cast<std::uint32_t>(random() % (most + 1));
          return static_cast<std::uint32_t>(random() & ((std::uint64_t{1} << bits) - 1));
        };
        gaps[i] = some_bits(std::min(most_bits, 19U));
        steps[i] = std::max(1U, some_bits(most_bits));
        const auto take_apart = [&](std::uint32_t number) {
          std::uint32_t bucket = 0;
          while (bucket < k_magnitude_buckets - 1 && bucket_begin(bucket + 1) <= number) ++bucket;
          writer.write(number - static_cast<std::uint32_t>(bucket_begin(bucket)), bucket_raw_bits(bucket));
          return bucket;
        };
        gap_symbols[i] = static_cast<std::uint8_t>(take_apart(gaps[i]));
        step_symbols[i] = static_cast<std::uint8_t>(2 * take_apart((steps[i] - 1) / 2) + steps[i] % 2);
      }
      const std::size_t whole_bytes = raw.size();
      writer.finish();
      // As narrow as they fit.
      const std::uint8_t width_bytes = most_bits <= 8 ? 1 : most_bits <= 16 ? 2 : 4;
      Bytes narrow(count * width_bytes);
      for (std::size_t i = 0; i < count; ++i) put(narrow.data(), i, width_bytes, steps[i]);
      each_usable_engine([&](const Engine& engine) {
        CAPTURE(engine.name);
        CAPTURE(count);
        CAPTURE(most_bits);
        const auto written = rooms[4].last((count * k_most_raw_bits + 7) / 8 + 8);
        const auto new_gaps = rooms[2].last(count);
        const auto new_steps = rooms[3].last(count);
        const std::uint64_t bits = engine.kernels->coding.split_raw_bits(
            typed<std::uint32_t>(rooms[0].copy(bytes_of(gaps))), rooms[1].copy(narrow).data(), width_bytes,
            static_cast<std::uint32_t>(count), new_gaps.data(), new_steps.data(), written.data());
        if (!std::ranges::equal(new_gaps, gap_symbols)) FAIL("other symbols of gaps");
        if (!std::ranges::equal(new_steps, step_symbols)) FAIL("other symbols of steps");
        if (bits / 8 != whole_bytes || (bits + 7) / 8 != raw.size()) FAIL("another number of raw bits");
        if (!std::ranges::equal(written.first(raw.size()), raw)) FAIL("other raw bits");
      });
    }
  }
}
namespace {

/// Random tables of some classes, and symbols that they have.
struct Symbols {
  std::vector<EncodeEntry> entries;
  std::vector<DecodeTable> tables;
  Bytes change_classes;
  Bytes gaps;
  Bytes steps;
  std::vector<ClassCounts> class_changes;  // of each strip

  SymbolPairs pairs(const std::uint8_t* gaps_at, const std::uint8_t* steps_at) const {
    return {gaps_at, steps_at, class_changes.front().data(), static_cast<std::uint32_t>(class_changes.size())};
  }
  /// But for where classes are, and where gaps and steps go to.
  CodedPairs coded(std::uint32_t lanes, const std::array<std::uint32_t, 8>& states,
                   std::span<const std::uint8_t> words) const {
    CodedPairs pairs{};
    pairs.tables = tables.data();
    pairs.count = static_cast<std::uint32_t>(change_classes.size());
    pairs.lanes = lanes;
    std::ranges::copy(states, pairs.states);
    pairs.words = words.data();
    pairs.words_end = words.data() + words.size();
    return pairs;
  }
};

/// Of one strip, two or several, some of them empty. `rare`: one in how many symbols is not the most likely one.
Symbols random_symbols(std::mt19937_64& random, std::uint32_t changes, std::uint32_t class_count, std::uint64_t rare) {
  Symbols made;
  made.class_changes.resize(random() % 2 == 0 ? 1 : 1 + random() % 9);
  made.entries.resize(std::size_t{k_class_entries} * class_count);
  made.tables.resize(2UL * class_count);
  std::vector<std::array<Frequencies, 2>> tables(class_count);
  for (std::uint32_t k = 0; k < class_count; ++k) {
    for (std::size_t kind = 0; kind < 2; ++kind) {
      std::vector<std::uint64_t> weights(kind == 0 ? k_gap_buckets : k_step_symbols);
      for (std::uint64_t& weight : weights) weight = random() % 3 == 0 ? 0 : 1 + random() % 100;
      weights[random() % weights.size()] = rare * 500;
      tables[k][kind] = frequencies_of(weights);
      fill_encode_entries(tables[k][kind],
                          made.entries.data() + k_class_entries * k + (kind == 0 ? 0 : k_first_step_entry));
      fill_decode_table(tables[k][kind], made.tables[2 * k + kind]);
    }
  }
  std::vector<std::uint32_t> ends{changes};
  while (ends.size() < made.class_changes.size()) ends.push_back(static_cast<std::uint32_t>(random() % (changes + 1)));
  std::ranges::sort(ends);
  std::size_t block = 0;
  std::uint32_t begin = 0;
  for (std::uint32_t i = 0; i < changes; ++i) {
    while (i == ends[block]) begin = ends[block++];
    const auto k = static_cast<std::uint8_t>(std::uint64_t{i - begin} * class_count / (ends[block] - begin));
    const auto drawn = [&](const Frequencies& frequencies) {
      if (random() % rare != 0) return std::ranges::max_element(frequencies) - frequencies.begin();
      for (;;) {
        const std::size_t symbol = random() % frequencies.size();
        if (frequencies[symbol] != 0) return static_cast<std::ptrdiff_t>(symbol);
      }
    };
    made.change_classes.push_back(k);
    made.gaps.push_back(static_cast<std::uint8_t>(drawn(tables[k][0])));
    made.steps.push_back(static_cast<std::uint8_t>(drawn(tables[k][1])));
    ++made.class_changes[block][k];
  }
  return made;
}

}  // namespace

TEST_CASE("decoding symbols undoes encoding them, the same words and states from every engine") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  std::vector<std::uint32_t> counts{255, 256, 257, 511, 512, 513, 5000, 65536};
  for (std::uint32_t count = 1; count <= 130; ++count) counts.push_back(count);
  Guarded rooms[] = {Guarded(65536), Guarded(65536), Guarded(4 * 65536 + 16),
                     Guarded(65536), Guarded(65536), Guarded(65536)};
  for (const std::uint32_t changes : counts) {
    for (const std::uint32_t lanes : {1U, 2U, 4U, 8U}) {
      if (changes < lanes) continue;
      for (const std::uint64_t rare : {1, 4, 1000}) {
        const auto class_count = static_cast<std::uint32_t>(1 + random() % k_most_classes);
        const Symbols symbols = random_symbols(random, changes, class_count, rare);
        std::array<std::uint32_t, 8> ends{};
        for (std::uint32_t lane = 0; lane < lanes; ++lane) ends[lane] = 0x8000U | (random() & 0x7fff);
        std::vector<std::uint16_t> agreed;
        std::array<std::uint32_t, 8> agreed_states{};
        bool is_first = true;
        CAPTURE(changes);
        CAPTURE(lanes);
        CAPTURE(rare);
        each_usable_engine([&](const Engine& engine) {
          CAPTURE(engine.name);
          const auto room = rooms[2].last(4UL * changes + 16);
          auto* const words_end = reinterpret_cast<std::uint16_t*>(room.data() + room.size());
          SymbolStream stream = {symbols.pairs(rooms[0].copy(symbols.gaps).data(), rooms[1].copy(symbols.steps).data()),
                                 lanes,
                                 {},
                                 words_end};
          std::ranges::copy(ends, stream.states);
          engine.kernels->coding.encode_symbols(symbols.entries.data(), &stream, 1);
          if (stream.words < typed<std::uint16_t>(room) + 8 || stream.words > words_end)
            FAIL("words outside their room");
          const std::vector<std::uint16_t> written(stream.words, words_end);
          std::array<std::uint32_t, 8> states{};
          std::ranges::copy(stream.states, states.begin());
          if (!is_first && (written != agreed || states != agreed_states)) FAIL("two engines differ");
          agreed = written;
          agreed_states = states;
          is_first = false;
          for (std::uint32_t lane = 0; lane < lanes; ++lane) {
            if (states[lane] >> 31 != 0 || states[lane] < 0x8000) FAIL("a state out of range");
          }
        });
        each_usable_engine([&](const Engine& engine) {
          CAPTURE(engine.name);
          const auto decode = [&](std::span<const std::uint8_t> words, std::array<std::uint32_t, 8>& states) {
            const auto given = rooms[2].copy(words);
            CodedPairs pairs = symbols.coded(lanes, states, given);
            pairs.classes = rooms[5].copy(symbols.change_classes).data();
            pairs.gaps = rooms[3].last(changes).data();
            pairs.steps = rooms[4].last(changes).data();
            engine.kernels->coding.decode_symbols(&pairs, 1);
            std::ranges::copy(pairs.states, states.begin());
            return pairs.words == nullptr ? -1 : given.data() + given.size() - pairs.words;
          };
          std::array<std::uint32_t, 8> states = agreed_states;
          if (decode(bytes_of(agreed), states) != 0) FAIL("words are left, or are too few");
          if (states != ends) FAIL("other states at the end");
          if (!std::ranges::equal(rooms[3].last(changes), symbols.gaps)) FAIL("other gaps");
          if (!std::ranges::equal(rooms[4].last(changes), symbols.steps)) FAIL("other steps");
          // What lies behind the words stays there.
          Bytes more(bytes_of(agreed).begin(), bytes_of(agreed).end());
          more.insert(more.end(), 5, 0xee);
          states = agreed_states;
          if (decode(more, states) != 5) FAIL("takes what is not its own");
          if (states != ends) FAIL("other states with bytes behind");
          // A byte or a word less is too few.
          for (const std::size_t fewer : {1, 2, 3}) {
            if (fewer > bytes_of(agreed).size()) continue;
            states = agreed_states;
            if (decode(bytes_of(agreed).first(bytes_of(agreed).size() - fewer), states) != -1)
              FAIL("a cut is not seen");
          }
        });
      }
    }
  }
}

TEST_CASE("symbols side by side are coded as each alone, by every engine") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  constexpr std::uint32_t k_most = 2000;
  constexpr std::size_t k_word_bytes = 4UL * k_most + 16;
  Guarded rooms[] = {Guarded(k_most), Guarded(k_most), Guarded(k_word_bytes), Guarded(k_word_bytes)};
  for (int round = 0; round < 400; ++round) {
    const auto class_count = static_cast<std::uint32_t>(1 + random() % k_most_classes);
    const auto changes = static_cast<std::uint32_t>(1 + random() % (round % 4 == 0 ? k_most : 40));
    const Symbols symbols = random_symbols(random, changes, class_count, 1 + random() % 10);
    // All of them, and the first ones once more.
    const auto fewer = static_cast<std::uint32_t>(1 + random() % changes);
    Symbols fewer_symbols = symbols;
    std::uint32_t left = fewer;
    for (ClassCounts& of_block : fewer_symbols.class_changes) {
      for (std::uint32_t& of_class : of_block) left -= of_class = std::min(of_class, left);
    }
    std::array<std::uint32_t, k_most_streams> lanes{};
    for (std::uint32_t& count : lanes) count = random() % 4 == 0 ? 1U << random() % 4 : 8;
    std::array<std::array<std::uint32_t, 8>, k_most_streams> starts{};
    for (auto& states : starts) {
      for (std::uint32_t& state : states) state = 0x8000U | (random() & 0x7fff);
    }
    const bool is_longer_first = random() % 2 == 0;
    each_usable_engine([&](const Engine& engine) {
      CAPTURE(engine.name);
      CAPTURE(changes);
      CAPTURE(fewer);
      const auto gaps = rooms[0].copy(symbols.gaps);
      const auto steps = rooms[1].copy(symbols.steps);
      const auto words_end = [&](std::size_t i) {
        const auto room = rooms[2 + i].last(k_word_bytes);
        return reinterpret_cast<std::uint16_t*>(room.data() + room.size());
      };
      const auto begun = [&](std::size_t i) {
        const bool is_longer = (i == 0) == is_longer_first;
        const Symbols& of_stream = is_longer ? symbols : fewer_symbols;
        SymbolStream stream = {of_stream.pairs(gaps.data(), steps.data()), lanes[i], {}, words_end(i)};
        std::ranges::copy(starts[i], stream.states);
        return stream;
      };
      const auto made_of = [&](const SymbolStream& stream, std::size_t i) {
        return std::pair(std::vector<std::uint16_t>(stream.words, words_end(i)),
                         std::vector<std::uint32_t>(stream.states, stream.states + stream.lanes));
      };
      std::vector<decltype(made_of(begun(0), 0))> alone;
      for (std::size_t i = 0; i < k_most_streams; ++i) {
        SymbolStream stream = begun(i);
        engine.kernels->coding.encode_symbols(symbols.entries.data(), &stream, 1);
        alone.push_back(made_of(stream, i));
      }
      SymbolStream streams[k_most_streams] = {begun(0), begun(1)};
      engine.kernels->coding.encode_symbols(symbols.entries.data(), streams, k_most_streams);
      for (std::size_t i = 0; i < k_most_streams; ++i) {
        if (made_of(streams[i], i) != alone[i]) FAIL("coded otherwise beside another");
      }
    });
  }
}

TEST_CASE("pairs of symbols are decoded side by side as each alone, by every engine") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  constexpr std::uint32_t k_most = 3000;
  std::deque<Guarded> classes;
  std::deque<Guarded> words;
  std::deque<Guarded> gaps;
  std::deque<Guarded> steps;
  for (std::size_t i = 0; i < k_most_decoded_at_once; ++i) {
    for (std::deque<Guarded>* rooms : {&classes, &words, &gaps, &steps}) rooms->emplace_back(4 * k_most + 64);
  }
  for (int round = 0; round < 400; ++round) {
    const auto count = static_cast<std::uint32_t>(1 + random() % k_most_decoded_at_once);
    std::vector<Symbols> symbols;
    std::vector<CodedPairs> given;
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto pairs = static_cast<std::uint32_t>(1 + random() % (random() % 4 == 0 ? k_most : 200));
      symbols.push_back(
          random_symbols(random, pairs, static_cast<std::uint32_t>(1 + random() % k_most_classes), 1 + random() % 10));
      std::array<std::uint32_t, 8> states{};
      for (std::uint32_t& state : states) state = 0x8000U + static_cast<std::uint32_t>(random() % 0x7fff8000);
      // Often fewer words than they take, and of one now and then none.
      const std::size_t word_bytes = random() % 8 == 0 ? random() % 3 : random() % (4 * pairs);
      given.push_back(symbols[i].coded(random() % 8 == 0 ? 1U << random() % 4 : 8, states,
                                       words[i].copy(random_bytes(random, word_bytes))));
      given[i].classes = classes[i].copy(symbols[i].change_classes).data();
      given[i].gaps = gaps[i].last(pairs).data();
      given[i].steps = steps[i].last(pairs).data();
    }
    const auto made_of = [&](const CodedPairs& decoded, std::uint32_t i) {
      std::string made = "refused";
      if (decoded.words == nullptr) return made;
      if (decoded.count != 0) FAIL("pairs are left");
      made.assign(given[i].gaps, given[i].gaps + given[i].count);
      made.append(given[i].steps, given[i].steps + given[i].count);
      made.append(reinterpret_cast<const char*>(decoded.states), 4UL * decoded.lanes);
      return made + std::to_string(decoded.words - given[i].words);
    };
    std::vector<std::string> alone;
    for (std::uint32_t i = 0; i < count; ++i) {
      CodedPairs one = given[i];
      k_kernels_scalar.coding.decode_symbols(&one, 1);
      alone.push_back(made_of(one, i));
    }
    each_usable_engine([&](const Engine& engine) {
      CAPTURE(engine.name);
      std::vector<CodedPairs> together = given;
      engine.kernels->coding.decode_symbols(together.data(), count);
      for (std::uint32_t i = 0; i < count; ++i) {
        if (made_of(together[i], i) != alone[i]) FAIL("decoded otherwise beside others");
      }
    });
  }
}

TEST_CASE("symbols from any states and words are symbols, the same from every engine") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  Guarded rooms[] = {Guarded(65536), Guarded(65536), Guarded(65536), Guarded(65536)};
  for (int round = 0; round < 2000; ++round) {
    const auto changes = static_cast<std::uint32_t>(1 + random() % (round % 10 == 0 ? 3000 : 600));
    const std::uint32_t lanes = changes < 8 ? 1 : 1U << random() % 4;
    const auto class_count = static_cast<std::uint32_t>(1 + random() % k_most_classes);
    const Symbols symbols = random_symbols(random, changes, class_count, 1);
    const Bytes words = random_bytes(random, random() % (4 * changes));
    std::array<std::uint32_t, 8> begin{};
    for (std::uint32_t lane = 0; lane < lanes; ++lane) {
      begin[lane] = 0x8000U + static_cast<std::uint32_t>(random() >> (33 + random() % 16));
      begin[lane] = std::min(begin[lane], 0x7fffffffU);
    }
    std::string agreed;
    CAPTURE(changes);
    CAPTURE(lanes);
    each_usable_engine([&](const Engine& engine) {
      const auto given = rooms[0].copy(words);
      const auto gaps = rooms[2].last(changes);
      const auto steps = rooms[3].last(changes);
      CodedPairs pairs = symbols.coded(lanes, begin, given);
      pairs.classes = rooms[1].copy(symbols.change_classes).data();
      pairs.gaps = gaps.data();
      pairs.steps = steps.data();
      engine.kernels->coding.decode_symbols(&pairs, 1);
      std::string made = "refused";
      if (pairs.words != nullptr) {
        made.assign(gaps.begin(), gaps.end());
        made.append(steps.begin(), steps.end());
        made.append(reinterpret_cast<const char*>(pairs.states), 4UL * lanes);
        made.append(std::to_string(pairs.words - given.data()));
      }
      CAPTURE(engine.name);
      if (!agreed.empty() && made != agreed) FAIL("two engines differ");
      agreed = made;
    });
  }
}

TEST_CASE("buckets and raw bits make ranks and moves, class by class, for every element type") {
  CAPTURE(seed());
  std::mt19937_64 random(seed());
  Guarded rooms[] = {Guarded(65536), Guarded(65536), Guarded(65536 * 7), Guarded(5 * 65536), Guarded(5 * 65536)};
  for (int round = 0; round < 1200; ++round) {
    const ElementType type = k_element_types[random() % 6];
    const auto class_count = static_cast<std::uint32_t>(1 + random() % k_most_classes);
    std::vector<std::uint32_t> class_changes(class_count);
    const std::uint64_t most = round % 20 == 0 ? 4096 : 40;
    for (std::uint32_t& changes : class_changes) changes = static_cast<std::uint32_t>(random() % most);
    // Gaps of all sorts, and often so large that ranks pass those of a strip; steps too, and often all of them small.
    const std::uint64_t gap_buckets = round % 2 == 0 ? 8 : k_gap_buckets;
    const std::uint64_t step_buckets = round % 3 == 0 ? 2UL * (8U * type.width_bytes - 1) : 4;
    Bytes gaps;
    Bytes steps;
    std::vector<std::uint32_t> ranks;
    Bytes moves;
    Bytes raw = random_bytes(random, std::size_t{k_most_raw_bits} * 4096 * class_count / 8 + 164);
    // Where those of a strip before end.
    const std::uint64_t begin = random() % 2 == 0 ? 0 : random() % 800;
    std::uint64_t at = begin;
    std::uint64_t last = 0;
    const auto take = [&](std::uint32_t bits) {
      std::uint64_t value = 0;
      for (std::uint32_t i = 0; i < bits; ++i, ++at) value |= std::uint64_t{raw[at / 8] >> (at % 8) & 1U} << i;
      return value;
    };
    for (const std::uint32_t changes : class_changes) {
      std::uint64_t next = 0;
      for (std::uint32_t i = 0; i < changes; ++i) {
        gaps.push_back(static_cast<std::uint8_t>(random() % gap_buckets));
        const std::uint64_t bucket = random() % step_buckets;
        steps.push_back(static_cast<std::uint8_t>(2 * bucket + random() % 2));
        next += bucket_begin(gaps.back()) + take(bucket_raw_bits(gaps.back()));
        ranks.push_back(static_cast<std::uint32_t>(next++));
        const std::uint64_t distance = 1 + bucket_begin(static_cast<std::uint32_t>(bucket)) +
                                       take(bucket_raw_bits(static_cast<std::uint32_t>(bucket)));
        moves.resize(moves.size() + type.width_bytes);
        put(moves.data(), ranks.size() - 1, type.width_bytes, steps.back() % 2 == 0 ? distance : 0 - distance);
      }
      last = std::max(last, next);
    }
    raw.resize((at + 7) / 8 + 64);
    each_usable_engine([&](const Engine& engine) {
      CAPTURE(engine.name);
      CAPTURE(round);
      const auto found_ranks = rooms[3].last(4 * (ranks.size() + 16));
      const auto found_moves = rooms[4].last(moves.size() + 16UL * type.width_bytes);
      std::uint64_t raw_bits = begin;
      const std::uint32_t room = engine.classed(type).join_raw_bits(
          rooms[0].copy(gaps).data(), rooms[1].copy(steps).data(), class_count, class_changes.data(),
          rooms[2].copy(raw).data(), typed<std::uint32_t>(found_ranks), found_moves.data(), &raw_bits);
      if (room != std::min<std::uint64_t>(last, 0xffffffff)) FAIL("another largest rank");
      if (raw_bits != at) FAIL("other raw bits");
      if (!std::ranges::equal(found_ranks.first(4 * ranks.size()), bytes_of(ranks))) FAIL("other ranks");
      if (!std::ranges::equal(found_moves.first(moves.size()), moves)) FAIL("other moves");
    });
  }
}

}  // namespace wdelta
