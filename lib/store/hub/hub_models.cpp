// SPDX-License-Identifier: Apache-2.0
#include "store/hub/hub_models.hpp"

#include "base/json.hpp"
#include "store/hub/etag_hash.hpp"
#include "store/hub/hub_answers.hpp"
#include "store/hub/hub_pages.hpp"
#include "store/hub/hub_reader.hpp"
#include "store/percent.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace wdelta {

namespace fs = std::filesystem;

namespace {

/// The files of a model at a commit.
class FilesOfModel final : public HubFiles {
 public:
  FilesOfModel(std::shared_ptr<const HubConnection> connection, ModelCommit at)
      : connection_(std::move(connection)), at_(std::move(at)) {}

  std::string name_of(const std::string& path) const override { return at_.name() + "/" + path; }
  std::optional<HubFetched> fetch(const std::string& path,
                                  const std::function<HttpRequest()>& make_request) const override {
    HubFetched found = connection_->fetch(
        fmt::format("/{}/resolve/{}/{}", at_.model, at_.commit, percent_encoded(path, Slashes::kept)), make_request);
    const HttpResponse& response = found.response;
    if (response.status < 400 || response.status == 416) return found;
    if (response.status == 404 && response.header_or_empty("x-error-code") == "EntryNotFound") return std::nullopt;
    throw error_of(response, path);
  }
  Error error_of(const HttpResponse& response, const std::string&) const override {
    return model_error(connection_->access(), {at_.model, at_.commit}, response);
  }
  HttpClient& http() const override { return connection_->http(); }

 private:
  std::shared_ptr<const HubConnection> connection_;
  ModelCommit at_;
};

}  // namespace

HubModels::HubModels(const Access& access, const Execution& execution)
    : connection_(std::make_shared<HubConnection>(access.hub, std::make_shared<HttpClient>(access.network, execution))),
      spool_directory_(
          (access.staging_directory.empty() ? fs::temp_directory_path() / "wdelta" : access.staging_directory) /
          "spool"),
      read_ahead_(std::make_shared<ReadAhead>(access.network.transfers)) {}

HttpResponse HubModels::ask(const HubQuestion& question, const ModelRevision& model) const {
  HttpResponse response = connection_->ask(question);
  if (!response.is_success()) throw model_error(connection_->access(), model, response);
  return response;
}

ModelHub::Resolved HubModels::resolve(const ModelRevision& revision) const {
  // A revision may be refs/pr/1.
  const std::string path =
      fmt::format("/api/models/{}/revision/{}", revision.model, percent_encoded(revision.revision, Slashes::encoded));
  const HttpResponse response = ask({"GET", path, "", ""}, revision);
  HubModelRevision found = model_revision_from(response.text, "hf://" + revision.model);
  return {{std::move(found.model), std::move(found.commit)}, std::move(found.time)};
}

std::vector<ModelFile> HubModels::list(const ModelCommit& at) const {
  std::vector<ModelFile> files;
  for_each_hub_page(
      fmt::format("/api/models/{}/tree/{}?recursive=true&limit={}", at.model, at.commit, k_hub_page_files), at.name(),
      [&](const std::string& path) {
        return ask({"GET", path, "", ""}, {at.model, at.commit});
      },
      [&](const HttpResponse& page) {
        for (ModelFile& file : model_files_from(page.text, at.name())) files.push_back(std::move(file));
      });
  return files;
}

std::vector<ModelFile> HubModels::look_up(const ModelCommit& at, std::span<const std::string> paths) const {
  std::vector<ModelFile> files;
  const std::string path = fmt::format("/api/models/{}/paths-info/{}", at.model, at.commit);
  for (; !paths.empty(); paths = paths.subspan(std::min(paths.size(), k_hub_page_files))) {
    const auto some = paths.first(std::min(paths.size(), k_hub_page_files));
    const std::string body =
        Json{{"paths", std::vector<std::string>(some.begin(), some.end())}, {"expand", false}}.dump();
    const HttpResponse response = ask({"POST", path, body, "application/json"}, {at.model, at.commit});
    for (ModelFile& file : model_files_from(response.text, at.name())) files.push_back(std::move(file));
  }
  return files;
}

std::shared_ptr<const ByteReader> HubModels::open(const ModelCommit& at, const std::string& path) const {
  const std::string name = at.name() + "/" + path;
  if (auto held = readers_.find(name)) return held;
  auto found = find_hub_file(std::make_shared<FilesOfModel>(connection_, at), path);
  if (!found) return nullptr;
  auto reader = reader_of(std::move(*found), spool_directory_, read_ahead_);
  readers_.hold(name, reader);
  return reader;
}

std::optional<fs::path> HubModels::downloaded(const ModelCommit& at, const std::string& path) const {
  const fs::path& cache = connection_->access().cache_directory;
  if (cache.empty()) return std::nullopt;
  const std::size_t slash = at.model.find('/');
  const std::string folder = fmt::format("models--{}--{}", at.model.substr(0, slash), at.model.substr(slash + 1));
  fs::path file = cache / folder / "snapshots" / at.commit / path;
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) return std::nullopt;
  return file;
}

std::unique_ptr<EtagHash> HubModels::hash_for(const ModelFile& file) const { return make_etag_hash(file); }

}  // namespace wdelta
