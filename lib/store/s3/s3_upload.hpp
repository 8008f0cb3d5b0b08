// SPDX-License-Identifier: Apache-2.0
// Large objects, in parts.
#pragma once

#include "base/execution.hpp"
#include "base/reader.hpp"
#include "store/s3/s3_connection.hpp"
#include "store/store.hpp"

#include <cstdint>
#include <string>

namespace wdelta {

/// Where an upload goes.
struct S3Target {
  std::string key;     ///< whole, with the store's prefix
  std::string object;  ///< for messages
};

/// Puts bytes under a key: in one request where they are few, else in parts, several at a time. When it fails for good
/// the parts are given up; when the network fails or a stop is asked for they stay, and the next upload of the same
/// bytes sends only those that are missing. Reports to the progress of `execution` what is sent, while it is.
void upload(S3Connection& connection, const S3Target& target, const ByteReader& bytes, const Execution& execution);

/// Gives up uploads of keys that begin with that of `below`, were begun before `time_s` by the store's clock, and are
/// ours by what follows that beginning: others are of other programs.
void abort_uploads(S3Connection& connection, const S3Target& below, std::int64_t time_s, const Store::IsOurs& is_ours);

}  // namespace wdelta
