// SPDX-License-Identifier: Apache-2.0
#include "store/hub/hub_client.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "store/http/libcurl.hpp"
#include "store/http/retry.hpp"
#include "store/http/url.hpp"
#include "store/hub/hub_pages.hpp"
#include "store/percent.hpp"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <fmt/format.h>
#include <map>
#include <set>
#include <thread>

namespace wdelta {

namespace {

constexpr std::int64_t k_token_margin_s = 60;  // a transfer must not begin with a token that is about to expire
constexpr int k_rounds = 5;                    // of a batch whose lines are not all done

std::string line_of(const HubAddition& addition) {
  if (!addition.model.empty()) {
    return Json{{"type", "copyFile"},
                {"path", addition.path},
                {"xetHash", addition.xet_hash},
                {"sourceRepoType", "model"},
                {"sourceRepoId", addition.model}}
        .dump();
  }
  return Json{{"type", "addFile"},
              {"path", addition.path},
              {"xetHash", addition.xet_hash},
              {"contentType", "application/octet-stream"}}
      .dump();
}

// Of a model in another region, for one. Throws when a copy is among what failed.
void require_copies(const std::map<std::string, const HubAddition*>& open, const HubBatchAnswer& answer) {
  for (const HubBatchAnswer::Failed& failed : answer.failed) {
    const auto found = open.find(failed.path);
    if (found == open.end() || found->second->model.empty()) continue;
    throw Error(Fault::unsupported, "hf://" + found->second->model,
                fmt::format("the Hub does not copy it into the bucket: {}", failed.reason),
                "push --reference refers to it instead");
  }
}

// To the second, as HTTP has it; nothing when the answer does not say.
std::optional<std::int64_t> date_of(const HttpResponse& response) {
  const std::time_t moment = libcurl().getdate(response.header_or_empty("date").c_str(), nullptr);
  if (moment < 0) return std::nullopt;
  return std::int64_t{moment} * 1000;
}

}  // namespace

HubClient::HubClient(HubAccess access, std::string bucket, std::shared_ptr<HttpClient> http)
    : connection_(std::move(access), std::move(http)), bucket_(std::move(bucket)) {}

HttpResponse HubClient::ask(const HubQuestion& question, std::span<const int> expects, Repeat repeat) const {
  HttpResponse response = connection_.ask(question, repeat);
  if (response.is_success() || std::ranges::find(expects, response.status) != expects.end()) return response;
  throw error_of(response, question.method + " " + shown_url(question.path));
}

void HubClient::create_bucket(BucketCreation creation) const {
  const std::string body = creation == BucketCreation::private_to_owner ? R"({"private":true})" : "{}";
  // Who may not make one may still write to one that is there.
  constexpr int k_may_be_there[] = {401, 403, 409};
  const std::string path = "/api/buckets/" + bucket_;
  const HttpResponse made = ask({"POST", path, body, "application/json"}, k_may_be_there);
  if (made.is_success() || made.status == 409 || connection_.ask({"GET", path, "", ""}).is_success()) return;
  throw error_of(made, "POST " + path);
}

HubClient::Listing HubClient::list(const std::string& prefix) const {
  Listing listing;
  // The last slash is left out, and what has the prefix for the beginning of a longer name is sorted out here.
  const std::string folder = prefix.substr(0, prefix.size() - (prefix.ends_with('/') ? 1 : 0));
  const std::string path =
      fmt::format("/api/buckets/{}/tree{}{}?recursive=true&limit={}", bucket_, folder.empty() ? "" : "/",
                  percent_encoded(folder, Slashes::kept), k_hub_page_files);
  const std::string name = "hf://buckets/" + bucket_;
  for_each_hub_page(
      path, name,
      [&](const std::string& at) {
        return ask({"GET", at, "", ""});
      },
      [&](const HttpResponse& page) {
        if (!listing.now_ms) listing.now_ms = date_of(page);
        for (HubFile& file : hub_files_from(page.text, name)) {
          if (file.path.starts_with(prefix)) listing.files.push_back(std::move(file));
        }
      });
  return listing;
}

std::vector<HubFile> HubClient::look_up_page(std::span<const std::string> paths) const {
  const std::string body = Json{{"paths", std::vector<std::string>(paths.begin(), paths.end())}}.dump();
  const HttpResponse response =
      ask({"POST", fmt::format("/api/buckets/{}/paths-info", bucket_), body, "application/json"});
  // What this says is there may be deleted next: no path that was not asked for, and none twice.
  std::set<std::string_view> asked(paths.begin(), paths.end());
  std::vector<HubFile> files = hub_files_from(response.text, "hf://buckets/" + bucket_);
  std::erase_if(files, [&](const HubFile& file) { return asked.erase(file.path) == 0; });
  return files;
}

std::vector<HubFile> HubClient::look_up(std::span<const std::string> paths) const {
  std::vector<HubFile> files;
  for (; !paths.empty(); paths = paths.subspan(std::min(paths.size(), k_hub_page_files))) {
    for (HubFile& file : look_up_page(paths.first(std::min(paths.size(), k_hub_page_files))))
      files.push_back(std::move(file));
  }
  return files;
}

HubBatchAnswer HubClient::batch(std::span<const std::string> lines, Repeat repeat) const {
  std::string body;
  for (const std::string& line : lines) body += line + "\n";
  constexpr int k_some_failed[] = {422};
  const HttpResponse response =
      ask({"POST", fmt::format("/api/buckets/{}/batch", bucket_), body, "application/x-ndjson"}, k_some_failed, repeat);
  return hub_batch_answer_from(response.text, "hf://buckets/" + bucket_);
}

void HubClient::say_what_failed(const HubBatchAnswer& answer) const {
  if (answer.failed.empty()) return;
  http().note(fmt::format("{}: {}; trying again", answer.failed.front().path, answer.failed.front().reason));
}

void HubClient::add_file_once(const HubAddition& addition) const {
  const std::string lines[] = {line_of(addition)};
  const HubBatchAnswer answer = batch(lines, Repeat::if_not_seen);
  if (answer.success && answer.succeeded == 1) return;
  const std::string reason = answer.failed.empty() ? "no reason given" : answer.failed.front().reason;
  throw Error(Fault::network, "hf://buckets/" + bucket_ + "/" + addition.path,
              fmt::format("the Hub did not take it: {}", reason), "run this again");
}

void HubClient::add_files(std::span<const HubAddition> additions) const {
  for (; !additions.empty(); additions = additions.subspan(std::min(additions.size(), k_hub_page_files))) {
    std::map<std::string, const HubAddition*> open;
    for (const HubAddition& addition : additions.first(std::min(additions.size(), k_hub_page_files))) {
      open[addition.path] = &addition;  // the last one of a path counts
    }
    for (int round = 1; !open.empty(); ++round) {
      std::vector<std::string> lines;
      std::vector<std::string> paths;
      for (const auto& [path, addition] : open) {
        // Copies first, as the Hub's own client has them.
        lines.insert(addition->model.empty() ? lines.end() : lines.begin(), line_of(*addition));
        paths.push_back(path);
      }
      const HubBatchAnswer answer = batch(lines, Repeat::harmless);
      say_what_failed(answer);
      for (const HubFile& file : look_up_page(paths)) {
        const auto found = open.find(file.path);
        if (found != open.end() && found->second->xet_hash == file.xet_hash) open.erase(found);
      }
      if (open.empty()) break;
      if (round == k_rounds) {
        require_copies(open, answer);
        throw Error(Fault::network, "hf://buckets/" + bucket_ + "/" + open.begin()->first,
                    fmt::format("the Hub does not take it: {} of {} files are not there after {} tries", open.size(),
                                paths.size(), k_rounds),
                    "run this again: nothing was lost");
      }
      sleep_until(std::chrono::steady_clock::now() + http().options().retry_wait * round, http().stop());
    }
  }
}

void HubClient::delete_files(std::span<const std::string> paths) const {
  for (; !paths.empty(); paths = paths.subspan(std::min(paths.size(), k_hub_page_files))) {
    std::vector<std::string> open(paths.begin(), paths.begin() + std::min(paths.size(), k_hub_page_files));
    for (int round = 1; !open.empty(); ++round) {
      std::vector<std::string> lines;
      for (const std::string& path : open) lines.push_back(Json{{"type", "deleteFile"}, {"path", path}}.dump());
      say_what_failed(batch(lines, Repeat::harmless));
      const std::vector<HubFile> left = look_up_page(open);
      open.clear();
      for (const HubFile& file : left) open.push_back(file.path);
      if (open.empty()) break;
      if (round == k_rounds) {
        throw Error(Fault::network, "hf://buckets/" + bucket_ + "/" + open.front(), "the Hub does not delete it",
                    "run this again");
      }
      sleep_until(std::chrono::steady_clock::now() + http().options().retry_wait * round, http().stop());
    }
  }
}

std::optional<HubFetched> HubClient::fetch(const std::string& path,
                                           const std::function<HttpRequest()>& make_request) const {
  HubFetched found = connection_.fetch(
      fmt::format("/buckets/{}/resolve/{}", bucket_, percent_encoded(path, Slashes::kept)), make_request);
  const HttpResponse& response = found.response;
  if (response.status < 400 || response.status == 416) return found;
  if (response.status == 404 && response.header_or_empty("x-error-code") != "RepoNotFound") return std::nullopt;
  throw error_of(response, "GET " + path);
}

XetToken HubClient::write_token(const std::optional<std::string>& rejected) {
  const std::lock_guard lock(mutex_);
  const bool is_good =
      token_ && token_->expires_s - k_token_margin_s > std::time(nullptr) && token_->access_token != rejected;
  if (!is_good) {
    const HttpResponse response = ask({"GET", fmt::format("/api/buckets/{}/xet-write-token", bucket_), "", ""});
    token_ = xet_token_from(response.text, "hf://buckets/" + bucket_);
  }
  return *token_;
}

}  // namespace wdelta
