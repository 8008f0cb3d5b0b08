// SPDX-License-Identifier: Apache-2.0
// The kernels that code pairs of symbols and decode them (the range coder), alone, on buffers that end where memory
// does.
#include "elements.hpp"
#include "engine/bucket.hpp"
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

}  // namespace wdelta
