// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "store/hub/hub_answers.hpp"
#include "store/hub/hub_connection.hpp"

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace wdelta {

/// A file to name in a bucket: its bytes are registered by their Xet hash already.
struct HubAddition {
  std::string path;
  std::string xet_hash;
  std::string model = {};  ///< where a copy is taken from; empty: registered by ourselves
};

/// The Hub's REST interface for one bucket, and the tokens for its content store. Safe to use from several threads.
/// Every call is repeated where that is harmless. Throws network; not_found when there is no such bucket or the token
/// may not see it; with the way out for tokens that are missing, expired or not allowed to write.
class HubClient final : public HubFiles {
 public:
  /// `bucket` is NAMESPACE/NAME.
  HubClient(HubAccess access, std::string bucket, std::shared_ptr<HttpClient> http);

  const std::string& bucket() const { return bucket_; }
  HttpClient& http() const override { return connection_.http(); }

  /// Makes the bucket unless it is there.
  void create_bucket(BucketCreation creation) const;
  struct Listing {
    std::vector<HubFile> files;
    std::optional<std::int64_t> now_ms;  ///< what time the Hub said it was when it answered first, to the second
  };
  /// All files whose path begins with `prefix`.
  Listing list(const std::string& prefix) const;
  /// Those of the paths that are there.
  std::vector<HubFile> look_up(std::span<const std::string> paths) const;

  /// Gives files their names, and looks whether they have them: the Hub may say "done" to a request of which it left
  /// out lines.
  void add_files(std::span<const HubAddition> additions) const;
  void delete_files(std::span<const std::string> paths) const;
  /// Gives one file its name, by a request that is not sent again: that could give a file that others have seen a later
  /// time. Throws network when it is not known whether it has it.
  void add_file_once(const HubAddition& addition) const;

  std::string name_of(const std::string& path) const override { return "hf://buckets/" + bucket_ + "/" + path; }
  std::optional<HubFetched> fetch(const std::string& path,
                                  const std::function<HttpRequest()>& make_request) const override;
  Error error_of(const HttpResponse& response, const std::string& what) const override;

  /// A token that may write to the bucket's content store. `rejected`: one that it turned away, so that a new one is
  /// asked for though that one was not expired.
  XetToken write_token(const std::optional<std::string>& rejected = std::nullopt);

 private:
  // Any answer of success, or a status that `expects` has; else it throws.
  HttpResponse ask(const HubQuestion& question, std::span<const int> expects = {},
                   Repeat repeat = Repeat::harmless) const;
  HubBatchAnswer batch(std::span<const std::string> lines, Repeat repeat) const;
  void say_what_failed(const HubBatchAnswer& answer) const;
  std::vector<HubFile> look_up_page(std::span<const std::string> paths) const;

  HubConnection connection_;
  std::string bucket_;
  std::mutex mutex_;
  std::optional<XetToken> token_;
};

}  // namespace wdelta
