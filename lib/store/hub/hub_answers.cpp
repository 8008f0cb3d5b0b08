// SPDX-License-Identifier: Apache-2.0
#include "store/hub/hub_answers.hpp"

#include "base/ascii.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "base/moment.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace wdelta {

namespace {

constexpr std::size_t k_xet_hash_digits = 64;

// Runs `read`; what it finds wrong is the service's fault, not that of stored bytes.
template <typename Read>
auto understood(std::string_view text, const std::string& object, Read read) -> decltype(read(ParsedJson())) {
  try {
    return read(parse_json(text, object));
  } catch (const Error& error) {
    if (error.fault() != Fault::corrupt) throw;
    throw Error(Fault::network, object, fmt::format("answered what cannot be understood: {}", error.what()));
  }
}

std::optional<std::int64_t> moment_member(const ParsedJson& json, const char* name, const std::string& object) {
  if (!json.contains(name) || json[name].is_null()) return std::nullopt;
  const std::string moment = string_member(json, name, object);
  const auto found = milliseconds_of(moment);
  if (!found) throw Error(Fault::corrupt, object, fmt::format("{:?} is no moment", moment));
  return found;
}

// Whether the parameters of a link say that it leads to the next page: rel=next, or rel="next", among others or alone.
bool is_of_next(std::string_view parameters) {
  const std::string text = ascii_lowered(parameters);
  constexpr std::string_view k_relation = "rel=";
  const std::size_t found = text.find(k_relation);
  if (found == std::string::npos) return false;
  std::string_view rest = std::string_view(text).substr(found + k_relation.size());
  const bool is_quoted = rest.starts_with('"');
  if (is_quoted) rest.remove_prefix(1);
  rest = rest.substr(0, rest.find_first_of(is_quoted ? "\"" : " ;,"));
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    if (rest.substr(0, end) == "next") return true;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return false;
}

}  // namespace

std::vector<HubFile> hub_files_from(std::string_view text, const std::string& object) {
  return understood(text, object, [&](const ParsedJson& json) {
    if (!json.is_array()) throw Error(Fault::corrupt, object, "it is no array");
    std::vector<HubFile> files;
    for (const ParsedJson& entry : json) {
      if (string_member(entry, "type", object) != "file") continue;
      HubFile file{string_member(entry, "path", object), size_member(entry, "size", object),
                   string_member(entry, "xetHash", object), moment_member(entry, "uploadedAt", object)};
      if (!is_hex(file.xet_hash, k_xet_hash_digits)) throw Error(Fault::corrupt, object, "\"xetHash\" is no hash");
      files.push_back(std::move(file));
    }
    return files;
  });
}

std::optional<std::string> next_cursor(std::string_view link, const std::string& object) {
  const auto not_understood = [&object] {
    return Error(Fault::network, object, "its listing has a next page, and nothing says how to ask for it");
  };
  // <https://…?limit=1000&cursor=eyJ…>; rel="next", and others behind a comma. A cursor holds none of ">&\"".
  for (std::size_t open = link.find('<'); open != std::string_view::npos; open = link.find('<')) {
    const std::size_t close = link.find('>', open);
    if (close == std::string_view::npos) throw not_understood();
    const std::string_view url = link.substr(open + 1, close - open - 1);
    const std::size_t end = std::min(link.find('<', close), link.size());
    const bool is_to_next = is_of_next(link.substr(close, end - close));
    link.remove_prefix(end);
    if (!is_to_next) continue;
    for (const std::string_view mark : {"?cursor=", "&cursor="}) {
      const std::size_t found = url.find(mark);
      if (found == std::string_view::npos) continue;
      const std::string_view rest = url.substr(found + mark.size());
      return std::string(rest.substr(0, rest.find('&')));
    }
    throw not_understood();
  }
  return std::nullopt;
}

HubModelRevision model_revision_from(std::string_view text, const std::string& object) {
  return understood(text, object, [&](const ParsedJson& json) {
    HubModelRevision found{string_member(json, "id", object), string_member(json, "sha", object), ""};
    // They go into URLs and documents.
    const std::size_t slash = found.model.find('/');
    if (slash == std::string::npos || why_not_a_hub_name(found.model.substr(0, slash)) != nullptr ||
        why_not_a_hub_name(found.model.substr(slash + 1)) != nullptr) {
      throw Error(Fault::corrupt, object, fmt::format("{:?} is no name of a model", found.model));
    }
    if (found.commit.size() != 40 || !is_model_etag(found.commit))
      throw Error(Fault::corrupt, object, "\"sha\" is no id of a commit");
    constexpr std::size_t k_seconds_end = 19;  // of 2026-11-21T06:15:00.123Z
    if (json.contains("lastModified") && json["lastModified"].is_string()) {
      const std::string time = json["lastModified"].get<std::string>().substr(0, k_seconds_end) + "Z";
      if (seconds_of(time)) found.time = time;
    }
    return found;
  });
}

std::vector<ModelFile> model_files_from(std::string_view text, const std::string& object) {
  return understood(text, object, [&](const ParsedJson& json) {
    if (!json.is_array()) throw Error(Fault::corrupt, object, "it is no array");
    std::vector<ModelFile> files;
    for (const ParsedJson& entry : json) {
      if (string_member(entry, "type", object) != "file") continue;
      // Of a large file "oid" is the id of the little text that git keeps in its place.
      const bool is_large = entry.contains("lfs") && !entry["lfs"].is_null();
      const ParsedJson& content = is_large ? entry["lfs"] : entry;
      ModelFile file{string_member(entry, "path", object), size_member(content, "size", object),
                     string_member(content, "oid", object), ""};
      if (!is_model_etag(file.etag) || (file.etag.size() == 64) != is_large)
        throw Error(Fault::corrupt, object, "\"oid\" is no id of a content");
      if (is_large && entry.contains("xetHash")) {
        file.xet_hash = string_member(entry, "xetHash", object);
        if (!is_hex(file.xet_hash, k_xet_hash_digits)) throw Error(Fault::corrupt, object, "\"xetHash\" is no hash");
      }
      files.push_back(std::move(file));
    }
    return files;
  });
}

HubBatchAnswer hub_batch_answer_from(std::string_view text, const std::string& object) {
  return understood(text, object, [&](const ParsedJson& json) {
    HubBatchAnswer answer;
    answer.success = bool_member(json, "success", object);
    answer.succeeded = size_member(json, "succeeded", object);
    if (!json.contains("failed")) return answer;
    for (const ParsedJson& failed : array_member(json, "failed", object)) {
      answer.failed.push_back({string_member(failed, "path", object), string_member(failed, "error", object)});
    }
    return answer;
  });
}

XetToken xet_token_from(std::string_view text, const std::string& object) {
  return understood(text, object, [&](const ParsedJson& json) {
    XetToken token{string_member(json, "accessToken", object), string_member(json, "casUrl", object),
                   static_cast<std::int64_t>(std::min<std::uint64_t>(size_member(json, "exp", object), INT64_MAX))};
    while (token.cas_url.ends_with('/')) token.cas_url.pop_back();
    // It becomes a header: no line may end in it.
    const auto is_plain = [](char c) { return c > ' ' && c < '\x7f'; };
    if (token.access_token.empty() || !std::ranges::all_of(token.access_token, is_plain)) {
      throw Error(Fault::corrupt, object, "\"accessToken\" is no token");
    }
    return token;
  });
}

XetShardAnswer xet_shard_answer_from(std::string_view text, const std::string& object) {
  // One object of version 1, or version 2's lines: only the last event says how it ended.
  XetShardAnswer answer;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    understood(line, object, [&](const ParsedJson& json) {
      const std::string type =
          json.is_object() && json.contains("type") ? string_member(json, "type", object) : "result";
      if (type == "result") {
        size_member(json, "result", object);  // 0: was there already; 1: registered now
        answer = {true, false, {}};
      } else if (type == "error") {
        answer = {false, json.contains("retryable") && json["retryable"].is_boolean() && json["retryable"].get<bool>(),
                  string_member(json, "message", object)};
      } else {
        answer = {false, true, "the answer broke off"};  // until the last one comes
      }
      return true;
    });
  }
  if (!answer.accepted && answer.message.empty()) answer = {false, true, "the answer was empty"};
  return answer;
}

std::string hub_error_text(std::string_view body) {
  std::string text;
  try {
    const ParsedJson json = parse_json(body, "answer");
    const auto found = json.is_object() ? json.find("error") : json.end();
    if (found != json.end() && found->is_string()) text = found->get<std::string>();
    if (found != json.end() && found->is_array() && !found->empty() && found->front().is_string()) {
      text = found->front().get<std::string>();
    }
  } catch (const Error&) {
    return {};  // a page for browsers, or nothing
  }
  constexpr std::size_t k_longest = 300;
  if (text.size() > k_longest) text.resize(k_longest);
  std::ranges::replace_if(
      text, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; }, ' ');
  return text;
}

}  // namespace wdelta
