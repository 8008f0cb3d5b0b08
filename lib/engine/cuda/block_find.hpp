// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "engine/cuda/thread_elements.hpp"
#include "engine/cuda/thread_words.hpp"
#include "engine/cuda/warp_sum.hpp"
#include "engine/device.hpp"

namespace wdelta::cuda {

/// DeviceStream::find_changes(): one thread block for each block. Goes through it in tiles, of which each warp has two
/// rows of 32 words; the next tile's words are on their way while one is worked on. Changes gather in shared memory in
/// their order, as both elements: steps and contexts are made of them by all threads alike, where they are stored from
/// there in whole words, and not by the few that found some.
template <class T, ElementKind kind>
struct FindAgent {
  static constexpr std::uint32_t k_threads = 256;
  static constexpr std::uint32_t k_residents = 4;
  static constexpr std::uint32_t k_warps = k_threads / k_warp_threads;
  static constexpr std::uint32_t k_rows = 2;
  static constexpr std::uint32_t k_per_word = k_word_bytes / sizeof(T);
  static constexpr std::uint32_t k_tile_words = k_threads * k_rows;
  // Sixteen changes are whole words in each of the arrays: up to 15 wait for more.
  static constexpr std::uint32_t k_together = 16;
  static constexpr std::uint32_t k_room = k_tile_words * k_per_word + k_together;

  struct Arguments {
    const DeviceBlock* blocks;
    DeviceChanges found;
  };

  struct Shared {
    alignas(16) T base[k_room];
    alignas(16) T next[k_room];
    alignas(16) std::uint16_t positions[k_room];
    // Of a tile; of the next in the other half, so that threads meet once for each.
    std::uint32_t changes_of_warp[2][k_warps];
  };

  struct Tile {
    Word base[k_rows];
    Word next[k_rows];
  };

  template <class Threads>
  struct Work {
    const Threads& threads;
    Shared& shared;
    const DeviceChanges& found;
    std::size_t row;  // where the block's changes lie in `found`
    Words base;
    Words next;
    std::uint32_t count;
    std::uint32_t gathered = 0;
    std::uint32_t stored = 0;

    WDELTA_DEVICE std::uint32_t warp() const { return threads.thread() / k_warp_threads; }
    WDELTA_DEVICE std::uint32_t word_of(std::uint32_t tile, std::uint32_t tile_row) const {
      return tile * k_tile_words + (warp() * k_rows + tile_row) * k_warp_threads + threads.thread() % k_warp_threads;
    }

    WDELTA_DEVICE void begin(std::uint32_t tile, Tile& words) const {
      WDELTA_UNROLL
      for (std::uint32_t i = 0; i < k_rows; ++i) {
        const std::uint32_t word = word_of(tile, i);
        words.base[i] = words.next[i] = {};
        if (word < base.count()) {
          words.base[i] = base.begin(word);
          words.next[i] = next.begin(word);
        }
      }
    }

    /// The words themselves, and which elements of each differ.
    WDELTA_DEVICE void finish(std::uint32_t tile, Tile& words, std::uint32_t (&different)[k_rows]) const {
      WDELTA_UNROLL
      for (std::uint32_t i = 0; i < k_rows; ++i) {
        const std::uint32_t word = word_of(tile, i);
        different[i] = 0;
        if (word >= base.count()) continue;
        words.base[i] = base.finish(word, words.base[i]);
        words.next[i] = next.finish(word, words.next[i]);
        different[i] = different_elements<T>(words.base[i], words.next[i]);
        const std::uint32_t left = count - word * k_per_word;
        if (left < k_per_word) different[i] &= (1U << left) - 1;
      }
    }

    /// Stores the first `entries` (a multiple of k_together) of what is gathered.
    WDELTA_DEVICE void store(std::uint32_t entries) const {
      const std::uint32_t thread = threads.thread();
      T* const steps = static_cast<T*>(found.steps) + row + stored;
      WDELTA_ROLLED
      for (std::uint32_t i = thread * k_per_word; i < entries; i += k_threads * k_per_word) {
        const Word from = load_shared_word(shared.base + i);
        const Word to = load_shared_word(shared.next + i);
        Word word = {};
        WDELTA_UNROLL
        for (std::uint32_t j = 0; j < k_per_word; ++j) {
          put_element<T>(word, j, step_between<T, kind>(element_of<T>(from, j), element_of<T>(to, j)));
        }
        store_word(steps + i, word);
      }
      constexpr std::uint32_t positions_of_word = k_word_bytes / sizeof(std::uint16_t);
      WDELTA_ROLLED
      for (std::uint32_t i = thread * positions_of_word; i < entries; i += k_threads * positions_of_word) {
        store_word(found.positions + row + stored + i, load_shared_word(shared.positions + i));
      }
      if (found.contexts == nullptr) return;
      WDELTA_ROLLED
      for (std::uint32_t i = thread * k_word_bytes; i < entries; i += k_threads * k_word_bytes) {
        Word word = {};
        WDELTA_UNROLL
        for (std::uint32_t first = 0; first < k_word_bytes; first += k_per_word) {
          const Word from = load_shared_word(shared.base + i + first);
          WDELTA_UNROLL
          for (std::uint32_t j = 0; j < k_per_word; ++j) {
            put_element<std::uint8_t>(word, first + j, context_of<T, kind>(element_of<T>(from, j)));
          }
        }
        store_word(found.contexts + row + stored + i, word);
      }
    }

    /// Makes room: what is left are less than k_together. All threads have met since the last was gathered.
    WDELTA_DEVICE void make_room() {
      const std::uint32_t entries = gathered - gathered % k_together;
      store(entries);
      const std::uint32_t i = threads.thread();
      const bool stays = i < gathered - entries;
      T from = 0;
      T to = 0;
      std::uint16_t position = 0;
      if (stays) {
        from = shared.base[entries + i];
        to = shared.next[entries + i];
        position = shared.positions[entries + i];
      }
      threads.meet();
      if (stays) {
        shared.base[i] = from;
        shared.next[i] = to;
        shared.positions[i] = position;
      }
      stored += entries;
      gathered -= entries;
    }

    WDELTA_DEVICE void gather(std::uint32_t to, std::uint32_t word, const Word& from, const Word& next_word,
                              std::uint32_t different) {
      WDELTA_ROLLED
      for (; different != 0; different &= different - 1) {
        const std::uint32_t i = lowest_bit(different);
        shared.positions[to] = static_cast<std::uint16_t>(word * k_per_word + i);
        shared.base[to] = element_of<T>(from, i);
        shared.next[to] = element_of<T>(next_word, i);
        ++to;
      }
    }

    WDELTA_DEVICE void compare(std::uint32_t tile, Tile& words) {
      std::uint32_t different[k_rows];
      finish(tile, words, different);
      // Of both rows at once; a row has at most 512.
      WarpSum sum = {0, 0};
      const std::uint32_t changes = bits_set(different[0]) | bits_set(different[1]) << 16;
      if (threads.any(changes)) sum = warp_sum(threads, changes);
      const std::uint32_t first_row = sum.all & 0xffff;
      std::uint32_t* const of_warp = shared.changes_of_warp[tile % 2];
      if (threads.thread() % k_warp_threads == 0) of_warp[warp()] = first_row + (sum.all >> 16);
      threads.meet();
      std::uint32_t before = 0;
      std::uint32_t all = 0;
      WDELTA_UNROLL
      for (std::uint32_t i = 0; i < k_warps; ++i) {
        before += i < warp() ? of_warp[i] : 0;
        all += of_warp[i];
      }
      if (gathered + all > k_room) make_room();
      gather(gathered + before + (sum.before & 0xffff), word_of(tile, 0), words.base[0], words.next[0], different[0]);
      gather(gathered + before + first_row + (sum.before >> 16), word_of(tile, 1), words.base[1], words.next[1],
             different[1]);
      gathered += all;
    }
  };

  template <class Threads>
  static WDELTA_DEVICE void run(const Threads& threads, Shared& shared, const Arguments& arguments) {
    const DeviceBlock block = arguments.blocks[threads.block()];
    const auto bytes = static_cast<std::uint32_t>(block.count * sizeof(T));
    Work<Threads> work{threads,
                       shared,
                       arguments.found,
                       threads.block() * k_device_block_changes,
                       Words(block.base, bytes),
                       Words(block.next, bytes),
                       block.count};
    const std::uint32_t tiles = (work.base.count() + k_tile_words - 1) / k_tile_words;
    Tile tile = {};
    if (tiles > 0) work.begin(0, tile);
    WDELTA_ROLLED
    for (std::uint32_t i = 0; i < tiles; ++i) {
      Tile later = {};
      if (i + 1 < tiles) work.begin(i + 1, later);
      work.compare(i, tile);
      tile = later;
    }
    threads.meet();
    // Up to 15 entries behind the last change are stored with it: they are nobody's.
    work.store((work.gathered + k_together - 1) / k_together * k_together);
    if (threads.thread() == 0) arguments.found.counts[threads.block()] = work.stored + work.gathered;
  }
};

}  // namespace wdelta::cuda
