// SPDX-License-Identifier: Apache-2.0
// CodingKernels::encode_symbols() by eight coders in vectors; for kernel files alone, each of which gets a copy of its
// own.
#pragma once

#include "engine/coding_scalar.hpp"
#include "engine/entry_fetcher.hpp"

namespace wdelta {
namespace {

constexpr std::uint32_t k_lanes = 8;

/// Fetches the entries of changes from the end on, as many as make whole rounds, once the rest is encoded.
EntryFetcher begin_stream(const std::uint64_t* entries, SymbolStream& stream) {
  EntryFetcher fetched(entries, stream.pairs);
  const std::uint32_t changes = fetched.end();
  fetched.fetch_from(changes / k_lanes * k_lanes);
  encode_entries_scalar(fetched.gaps, fetched.steps, changes % k_lanes, stream);
  return fetched;
}

std::uint32_t at_most(std::uint32_t changes) {
  return changes < EntryFetcher::k_at_once ? changes : EntryFetcher::k_at_once;
}

template <class Coders>
void encode_rest(EntryFetcher& fetched, SymbolStream& stream) {
  Coders coders(stream);
  while (fetched.end() > 0) {
    const std::uint32_t changes = at_most(fetched.end());
    fetched.fetch_from(fetched.end() - changes);
    for (std::uint32_t i = changes; i > 0;) coders.encode_round(fetched, i -= k_lanes);
  }
  coders.finish(stream);
}

/// As many rounds as both have. Each waits for the one before it, and meanwhile there is time for one of the other.
template <class Coders>
void encode_side_by_side(EntryFetcher& fetched, SymbolStream& stream, EntryFetcher& other_fetched,
                         SymbolStream& other_stream) {
  Coders coders(stream);
  Coders others(other_stream);
  for (;;) {
    const std::uint32_t changes = at_most(fetched.end() < other_fetched.end() ? fetched.end() : other_fetched.end());
    if (changes == 0) break;
    fetched.fetch_from(fetched.end() - changes);
    other_fetched.fetch_from(other_fetched.end() - changes);
    for (std::uint32_t i = changes; i > 0;) {
      i -= k_lanes;
      coders.encode_round(fetched, i);
      others.encode_round(other_fetched, i);
    }
  }
  coders.finish(stream);
  others.finish(other_stream);
}

/// Coders are made from a stream, encode_round() of eight changes that are fetched, from the last on, and finish().
template <class Coders>
void encode_streams(const std::uint64_t* entries, SymbolStream* streams, std::uint32_t stream_count) {
  if (stream_count == 2 && streams[0].lanes == k_lanes && streams[1].lanes == k_lanes) {
    EntryFetcher one = begin_stream(entries, streams[0]);
    EntryFetcher other = begin_stream(entries, streams[1]);
    encode_side_by_side<Coders>(one, streams[0], other, streams[1]);
    encode_rest<Coders>(one, streams[0]);
    encode_rest<Coders>(other, streams[1]);
    return;
  }
  for (std::uint32_t i = 0; i < stream_count; ++i) {
    if (streams[i].lanes == k_lanes) {
      EntryFetcher fetched = begin_stream(entries, streams[i]);
      encode_rest<Coders>(fetched, streams[i]);
    } else {
      encode_stream_scalar(entries, streams[i]);
    }
  }
}

}  // namespace
}  // namespace wdelta
