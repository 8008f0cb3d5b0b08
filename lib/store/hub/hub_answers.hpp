// SPDX-License-Identifier: Apache-2.0
// What the Hub answers, as its REST interface for buckets describes it. Every function throws network, naming `object`,
// when the text is not such an answer.
#pragma once

#include "store/model_hub.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace wdelta {

struct HubFile {
  std::string path;
  std::uint64_t size_bytes = 0;
  std::string xet_hash;                     ///< 64 digits; not the same for the same bytes from every client
  std::optional<std::int64_t> uploaded_ms;  ///< since 1970, where it is told; nobody has said that the server sets it
};

/// The files of a page of a listing, or of paths that were asked for; directories are left out.
std::vector<HubFile> hub_files_from(std::string_view text, const std::string& object);
/// The cursor of the next page out of the value of Link headers (RFC 8288); nothing on the last page. Only the cursor
/// is taken, never the URL: a token must not go to a host that a header names. Throws network, about `object`, where
/// there is a next page and no cursor: what a listing leaves out would be taken for what is not there.
std::optional<std::string> next_cursor(std::string_view link, const std::string& object);

/// What a revision of a model stands for.
struct HubModelRevision {
  std::string model;  ///< the name that it has now
  std::string commit;
  std::string time;  ///< to the second; empty when there is none
};
HubModelRevision model_revision_from(std::string_view text, const std::string& object);
/// The files of a page of a model's tree, or of paths that were asked for; directories are left out.
std::vector<ModelFile> model_files_from(std::string_view text, const std::string& object);

struct HubBatchAnswer {
  struct Failed {
    std::string path;
    std::string reason;
  };
  bool success = false;
  std::size_t succeeded = 0;
  std::vector<Failed> failed;
};
HubBatchAnswer hub_batch_answer_from(std::string_view text, const std::string& object);

/// Lets a holder read from or write to one bucket's bytes for a quarter of an hour or so.
struct XetToken {
  std::string access_token;
  std::string cas_url;  ///< no '/' at its end
  std::int64_t expires_s = 0;
};
XetToken xet_token_from(std::string_view text, const std::string& object);

/// The last event of the stream that answers an upload of a shard: how it ended.
struct XetShardAnswer {
  bool accepted = false;
  bool retryable = false;
  std::string message;
};
XetShardAnswer xet_shard_answer_from(std::string_view text, const std::string& object);

/// What an error's body says, cleaned of control characters and cut; empty when it says nothing.
std::string hub_error_text(std::string_view body);

}  // namespace wdelta
