// SPDX-License-Identifier: Apache-2.0
// Large objects, in parts.
#pragma once

#include "base/execution.hpp"
#include "base/file.hpp"
#include "store/s3/s3_connection.hpp"

namespace wdelta {

/// Where an upload goes.
struct S3Target {
  std::string key;     ///< whole, with the store's prefix
  std::string object;  ///< for messages
};

/// Puts a file under a key: in one request where it is small, else in parts, several at a time. When it fails for good
/// the parts are given up; when the network fails or a stop is asked for they stay, and the next upload of the same
/// bytes sends only those that are missing.
void upload(S3Connection& connection, const S3Target& target, const OutputFile& file, const Execution& execution);

/// Gives up uploads of keys that begin with `prefix` that were begun before `time_s` by the store's clock.
void abort_uploads(S3Connection& connection, const std::string& prefix, std::int64_t time_s, const std::string& object);

}  // namespace wdelta
