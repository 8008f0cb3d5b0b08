// SPDX-License-Identifier: Apache-2.0
#include "base/error.hpp"
#include "store/hub/hub_client.hpp"
#include "store/hub/hub_connection.hpp"
#include "store/hub/hub_models.hpp"

#include <fmt/format.h>

namespace wdelta {

namespace {

// What the service said of itself, and the name that its operators know the request by.
std::string said(const HttpResponse& response) {
  std::string text = response.header_or_empty("x-error-message");
  if (text.empty()) text = hub_error_text(response.text);
  std::string id = response.header_or_empty("x-request-id");
  if (id.empty()) id = response.header_or_empty("x-amzn-trace-id");
  if (id.empty()) id = response.header_or_empty("x-amz-cf-id");
  return fmt::format("{}{}", text.empty() ? "" : ": " + text, id.empty() ? "" : fmt::format(" (request {})", id));
}

// Of an answer that says nothing more particular.
std::string way_out(const HttpResponse& response) {
  if (response.status >= 500) return "try again later";
  const std::string place = response.header_or_empty("location");
  const bool is_sent_on = response.status >= 300 && response.status < 400 && place.find("://") != std::string::npos;
  return is_sent_on ? hint_to_move(place) : "";
}

}  // namespace

namespace {

// A full account is told of with the status of one that may not write at all.
bool tells_of_room(const HttpResponse& response) {
  if (response.status == 402 || response.status == 413 || response.status == 507) return true;
  if (response.status != 403) return false;
  const std::string text = said(response);
  return text.find("torage") != std::string::npos || text.find("uota") != std::string::npos;
}

}  // namespace

Error HubClient::error_of(const HttpResponse& response, const std::string& what) const {
  const HubAccess& access = connection_.access();
  const std::string object = "hf://buckets/" + bucket_;
  const std::string tokens = access.endpoint + "/settings/tokens";
  const bool has_token = !access.token.empty();
  const auto error = [&](Fault fault, const std::string& text, const std::string& hint) {
    return Error(fault, object, fmt::format("{}: {}{}", what, text, said(response)), hint);
  };
  if (tells_of_room(response)) {
    return error(Fault::network, "there is no room left for that",
                 fmt::format("look at the storage of {} in its settings; wdelta squash and wdelta gc make room",
                             bucket_.substr(0, bucket_.find('/'))));
  }
  switch (response.status) {
    case 401:
      if (!has_token) {
        return error(Fault::network, "the Hub wants a token and there is none",
                     fmt::format("export HF_TOKEN=…; {} makes one", tokens));
      }
      return error(Fault::network, fmt::format("the Hub does not accept the token of {}", access.token_source),
                   fmt::format("it is mistyped, expired or revoked; {} makes another", tokens));
    case 403:
      return error(
          Fault::network, has_token ? "the token may not do that" : "nobody may do that without a token",
          has_token ? fmt::format("give the token of {} write access to {} at {}", access.token_source, bucket_, tokens)
                    : fmt::format("export HF_TOKEN=…; {} makes one", tokens));
    case 404:
      return error(Fault::not_found, "there is no such bucket, or the token may not see it",
                   has_token ? "look at its name; wdelta push --create makes a bucket"
                             : "look at its name; a private bucket wants HF_TOKEN; wdelta push --create makes one");
    case 429:
      return error(Fault::network, "too many requests in a row",
                   "the Hub counts them over five minutes: try again later");
    default:
      return error(Fault::network, fmt::format("the Hub answered with status {}", response.status), way_out(response));
  }
}

Error model_error(const HubAccess& access, const ModelRevision& model, const HttpResponse& response) {
  const std::string object = fmt::format("hf://{}@{}", model.model, model.revision);
  const std::string tokens = access.endpoint + "/settings/tokens";
  const std::string page = access.endpoint + "/" + model.model;
  const std::string code = response.header_or_empty("x-error-code");
  const bool has_token = !access.token.empty();
  const auto error = [&](Fault fault, const std::string& text, const std::string& hint) {
    return Error(fault, object, text + said(response), hint);
  };
  // To whom has no token the Hub says of what is not there that it is forbidden.
  if (code == "RepoNotFound" || (response.status == 404 && code.empty())) {
    return error(Fault::not_found, "there is no such model, or the token may not see it",
                 has_token ? "look at its name at " + page : "look at its name; a private model wants HF_TOKEN");
  }
  if (code == "RevisionNotFound" || response.status == 404) {
    return error(Fault::not_found, "the model has no such revision", fmt::format("{}/commits/main lists them", page));
  }
  if (code == "GatedRepo" || (response.status == 403 && has_token)) {
    return error(Fault::network, "its owners let in only whom they know",
                 has_token ? fmt::format("ask for access at {}, and look at what the token of {} may read", page,
                                         access.token_source)
                           : fmt::format("ask for access at {}, and export HF_TOKEN=…", page));
  }
  switch (response.status) {
    case 401:
    case 403:
      if (!has_token)
        return error(Fault::network, "the Hub wants a token and there is none",
                     fmt::format("export HF_TOKEN=…; {} makes one", tokens));
      return error(Fault::network, fmt::format("the Hub does not accept the token of {}", access.token_source),
                   fmt::format("it is mistyped, expired or revoked; {} makes another", tokens));
    case 429:
      return error(Fault::network, "too many requests in a row",
                   "the Hub counts them over five minutes: try again later");
    default:
      return error(Fault::network, fmt::format("the Hub answered with status {}", response.status), way_out(response));
  }
}

}  // namespace wdelta
