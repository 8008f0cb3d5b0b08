// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "store/http/held_readers.hpp"
#include "store/http/read_ahead.hpp"
#include "store/hub/hub_connection.hpp"
#include "store/model_hub.hpp"

#include <filesystem>
#include <memory>
#include <string>

namespace wdelta {

/// Model repositories by the Hub's REST interface. Nothing but reads.
class HubModels final : public ModelHub {
 public:
  HubModels(const Access& access, const Execution& execution);

  Resolved resolve(const ModelRevision& revision) const override;
  std::vector<ModelFile> list(const ModelCommit& at) const override;
  std::vector<ModelFile> look_up(const ModelCommit& at, std::span<const std::string> paths) const override;
  std::shared_ptr<const ByteReader> open(const ModelCommit& at, const std::string& path) const override;
  std::optional<std::filesystem::path> downloaded(const ModelCommit& at, const std::string& path) const override;
  std::unique_ptr<EtagHash> hash_for(const ModelFile& file) const override;

 private:
  HttpResponse ask(const HubQuestion& question, const ModelRevision& model) const;

  std::shared_ptr<const HubConnection> connection_;
  std::filesystem::path spool_directory_;
  std::shared_ptr<ReadAhead> read_ahead_;
  mutable HeldReaders readers_;
};

/// What a failed answer to a question about a model is to be called.
Error model_error(const HubAccess& access, const ModelRevision& model, const HttpResponse& response);

}  // namespace wdelta
