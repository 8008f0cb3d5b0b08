// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "store/hub/hub_client.hpp"
#include "store/xet/xet_upload.hpp"

#include <deque>
#include <future>
#include <memory>

namespace wdelta {

/// Sends xorbs and shards to the content store of a bucket. At most two xorbs are on their way, so memory stays below
/// three of their size; a shard is sent when every xorb before it was taken.
class XetSender final : public XetSink {
 public:
  explicit XetSender(std::shared_ptr<HubClient> client) : client_(std::move(client)) {}
  void xorb(Xorb&& xorb) override;
  void shard(std::vector<std::uint8_t>&& body) override;
  /// Returns when all xorbs were taken.
  void wait();

 private:
  static constexpr std::size_t k_most_in_flight = 2;

  std::shared_ptr<HubClient> client_;
  std::deque<std::future<void>> in_flight_;  // last: its end waits for what is on its way
};

}  // namespace wdelta
