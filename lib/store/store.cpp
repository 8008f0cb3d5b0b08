// SPDX-License-Identifier: Apache-2.0
#include "store/store.hpp"

#include "base/ascii.hpp"
#include "base/error.hpp"
#include "base/moment.hpp"
#include "base/reader_digest.hpp"
#include "store/directory_store.hpp"
#include "store/percent.hpp"
#ifdef WDELTA_HAS_NETWORK
#include "store/hub/hub_store.hpp"
#include "store/s3/s3_store.hpp"
#endif

#include <algorithm>
#include <fmt/format.h>
#include <iterator>

namespace wdelta {

namespace fs = std::filesystem;

std::optional<Digest> Store::get_into(OutputFile&, const Wanted&, const std::filesystem::path&,
                                      const Execution&) const {
  return std::nullopt;
}

void Store::put_once(const std::string& key, std::string_view bytes) {
  put(key, bytes);
  flush();
}

void Store::put_bytes(const std::string& key, const ByteReader& bytes, const Execution& execution) {
  OutputFile staged = stage();
  copy_and_digest(bytes, staged, execution);
  put_staged(key, std::move(staged));
}

void Store::put_copy(const std::string&, const ModelCommit& from, const ModelFile&) {
  throw Error(Fault::unsupported, from.name(), fmt::format("{} takes no copies of models", name()));
}

void Store::remove_all(std::span<const std::string> keys) {
  for (const std::string& key : keys) remove(key);
}

std::vector<std::string> Store::remove_all_older(std::span<const std::string> keys, std::int64_t time_s) {
  std::vector<std::string> removed;
  std::ranges::copy_if(keys, std::back_inserter(removed),
                       [&](const std::string& key) { return remove_older(key, time_s); });
  return removed;
}

std::vector<Store::Listed> in_order(std::vector<Store::Listed> keys) {
  std::ranges::sort(keys, [](const Store::Listed& a, const Store::Listed& b) {
    return a.key != b.key ? a.key < b.key : a.written_ms > b.written_ms;
  });
  const auto is_same = [](const Store::Listed& a, const Store::Listed& b) { return a.key == b.key; };
  keys.erase(std::unique(keys.begin(), keys.end(), is_same), keys.end());
  return keys;
}

namespace {

constexpr std::string_view k_probe = "probe-";
constexpr std::size_t k_probe_digits = 16;

}  // namespace

std::string new_probe_key() { return std::string(k_probe) + random_hex(k_probe_digits); }

bool is_probe_key(std::string_view key) {
  return key.starts_with(k_probe) && is_hex(key.substr(k_probe.size()), k_probe_digits);
}

std::optional<std::string> get_text(const Store& store, const std::string& key, std::uint64_t limit_bytes) {
  const auto reader = store.get(key);
  if (!reader) return std::nullopt;
  if (reader->size_bytes() > limit_bytes) {
    throw Error(Fault::corrupt, key,
                fmt::format("has {} bytes, at most {} expected", reader->size_bytes(), limit_bytes));
  }
  const std::vector<std::uint8_t> bytes = read_all(*reader);
  return std::string(bytes.begin(), bytes.end());
}

namespace {

// A new kind of store is a row here and a file pair beside this one.
struct Scheme {
  std::string_view prefix;
  std::unique_ptr<Store> (*open)(const std::string& location, const std::string& path, const Access& access,
                                 const Execution& execution);
};

#ifndef WDELTA_HAS_NETWORK
std::unique_ptr<Store> without_network(const std::string& location, const std::string&, const Access&,
                                       const Execution&) {
  throw Error(Fault::unsupported, location, "this build of wdelta reaches no network",
              "it was linked statically; the package for your system, or a build of your own, does");
}
#endif

constexpr Scheme k_schemes[] = {
#ifdef WDELTA_HAS_NETWORK
    {"hf://",
     [](const std::string& location, const std::string& path, const Access& access,
        const Execution& execution) -> std::unique_ptr<Store> {
       return std::make_unique<HubStore>(HubLocation::parse(path, location), location, access, execution);
     }},
    {"s3://", open_s3_store},
#else
    {"hf://", without_network},
    {"s3://", without_network},
#endif
};

}  // namespace

bool has_scheme(std::string_view location) {
  const std::size_t colon = location.find("://");
  return colon != std::string_view::npos && colon > 0 && location.substr(0, colon).find('/') == std::string_view::npos;
}

std::optional<fs::path> directory_named(const std::string& location) {
  for (const std::string_view scheme : {"hf:", "s3:", "file:"}) {
    if (location.starts_with(scheme) && !has_scheme(location)) {
      throw Error(Fault::usage, location, fmt::format("a URL begins with {}//", scheme),
                  fmt::format("./{} is a directory of that name", location));
    }
  }
  constexpr std::string_view k_scheme = "file://";
  if (!location.starts_with(k_scheme)) return has_scheme(location) ? std::nullopt : std::optional<fs::path>(location);
  std::string_view encoded = std::string_view(location).substr(k_scheme.size());
  constexpr std::string_view k_this_host = "localhost/";
  if (encoded.starts_with(k_this_host)) encoded.remove_prefix(k_this_host.size() - 1);
  if (!encoded.starts_with('/'))
    throw Error(Fault::usage, location, "a file URL needs an absolute path", "write file:///PATH or a plain path");
  const auto path = percent_decoded(encoded);
  if (!path || path->find('\0') != std::string::npos)
    throw Error(Fault::usage, location, "a '%' in a URL begins a byte as in %20", "write %25 for it, or a plain path");
  return *path;
}

std::unique_ptr<Store> open_store(const std::string& location, const Access& access, const Execution& execution) {
  if (const auto directory = directory_named(location)) return std::make_unique<DirectoryStore>(*directory);
  for (const Scheme& scheme : k_schemes) {
    if (location.starts_with(scheme.prefix))
      return scheme.open(location, location.substr(scheme.prefix.size()), access, execution);
  }
  throw Error(Fault::unsupported, location, "there is no store for that scheme",
              "a path, file:///PATH, s3://BUCKET/PREFIX or hf://buckets/NAMESPACE/NAME is one");
}

}  // namespace wdelta
