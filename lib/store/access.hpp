// SPDX-License-Identifier: Apache-2.0
// What a caller tells the stores that lie on a network. The library reads no environment: user/user_access.cpp makes
// this of options and variables. One exception is libcurl's own: it takes its proxies from http_proxy, https_proxy,
// all_proxy and no_proxy.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>

namespace wdelta {

struct NetworkOptions {
  unsigned transfers = 8;              ///< at most so many at a time
  std::uint64_t bytes_per_second = 0;  ///< for all of them together, both ways; 0: no limit
  bool offline = false;                ///< refuse to send anything
  std::string certificates;            ///< a file or a directory of those to believe instead of the system's
  std::chrono::seconds connect_timeout{20};
  std::chrono::seconds stall_timeout{60};     ///< a transfer that moves nothing for so long is broken off
  std::chrono::milliseconds retry_wait{500};  ///< before the second try; doubles from try to try
  std::string user_agent = "wdelta";
};

/// The Hugging Face Hub.
struct HubAccess {
  std::string endpoint = "https://huggingface.co";
  std::string token;         ///< secret; empty: none
  std::string token_source;  ///< where it came from, for messages: "HF_TOKEN"
  /// Where the Hub's own client keeps the models that it downloads; empty: nowhere.
  std::filesystem::path cache_directory;
};

enum class S3Addressing {
  automatic,    ///< by host where the endpoint is AWS's own and the bucket's name can be one, else by path
  path,         ///< ENDPOINT/BUCKET/KEY
  virtual_host  ///< BUCKET.ENDPOINT/KEY
};

struct S3Access {
  std::string endpoint;  ///< a URL; empty: AWS in `region`
  std::string region = "us-east-1";
  std::string key_id;
  std::string secret;         ///< of the key
  std::string session_token;  ///< secret; empty: none
  std::string key_source;     ///< where they came from, for messages: "profile me"
  S3Addressing addressing = S3Addressing::automatic;
};

/// What push may make when it is not there. On S3 a bucket is its owner's alone until the owner says otherwise,
/// whichever it is.
enum class BucketCreation { no, open_to_all, private_to_owner };

struct Access {
  NetworkOptions network;
  HubAccess hub;
  S3Access s3;
  BucketCreation creation = BucketCreation::no;
  /// Where objects are written before they are sent, and while they arrive; empty: the system's directory for
  /// temporary files.
  std::filesystem::path staging_directory;
};

}  // namespace wdelta
