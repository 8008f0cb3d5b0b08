// SPDX-License-Identifier: Apache-2.0
#include "user/s3_access.hpp"

#include "base/ascii.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "user/ini.hpp"

#include <filesystem>
#include <fmt/format.h>

namespace wdelta {

namespace {

namespace fs = std::filesystem;

fs::path file_named_by(const Environment& environment, const char* variable, const char* below_home) {
  const std::string home = environment("HOME");
  if (const std::string own = environment(variable); !own.empty())
    return own.starts_with("~/") && !home.empty() ? home + own.substr(1) : own;
  return home.empty() ? fs::path() : fs::path(home) / below_home;
}

IniFile read_ini(const fs::path& path) {
  std::error_code ignored;
  if (path.empty() || !fs::is_regular_file(path, ignored)) return {};
  constexpr std::uint64_t k_longest_file = std::uint64_t{1} << 20;
  return parse_ini(read_small_file(path, k_longest_file));
}

// A profile's settings: those of the credentials file count before those of the configuration.
struct Profile {
  IniSection credentials;
  IniSection configuration;
  IniSection services;  // what it says of each service, under "s3.endpoint_url"

  std::string value(const std::string& name) const {
    for (const IniSection* section : {&credentials, &configuration}) {
      if (const auto found = section->find(name); found != section->end()) return found->second;
    }
    return "";
  }
};

IniSection section_of(const IniFile& file, const std::string& name) {
  const auto found = file.find(name);
  return found == file.end() ? IniSection() : found->second;
}

Profile read_profile(const Environment& environment, const std::string& name) {
  const IniFile credentials = read_ini(file_named_by(environment, "AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials"));
  const IniFile configuration = read_ini(file_named_by(environment, "AWS_CONFIG_FILE", ".aws/config"));
  Profile profile{section_of(credentials, name), section_of(configuration, "profile " + name), {}};
  if (name == "default" && profile.configuration.empty()) profile.configuration = section_of(configuration, name);
  if (const std::string services = profile.value("services"); !services.empty())
    profile.services = section_of(configuration, "services " + services);
  return profile;
}

bool is_true(const std::string& text) { return ascii_lowered(text) == "true"; }

// The most particular that is set, as with AWS's own programs.
std::string endpoint_of(const Environment& environment, const Profile& profile) {
  const std::string ignored = environment("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS");
  if (is_true(ignored.empty() ? profile.value("ignore_configured_endpoint_urls") : ignored)) return "";
  for (const char* variable : {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}) {
    if (std::string value = environment(variable); !value.empty()) return value;
  }
  const auto of_service = profile.services.find("s3.endpoint_url");
  return of_service != profile.services.end() ? of_service->second : profile.value("endpoint_url");
}

// Ways to credentials that only AWS's own programs go.
void require_no_others(const Environment& environment, const Profile& profile, const std::string& profile_name) {
  struct Way {
    const char* setting;
    const char* what;
  };
  constexpr Way k_ways[] = {{"sso_session", "single sign-on"},
                            {"sso_start_url", "single sign-on"},
                            {"login_session", "a login"},
                            {"role_arn", "a role"},
                            {"web_identity_token_file", "a web identity"},
                            {"credential_process", "a program"},
                            {"credential_source", "the machine"}};
  const auto refuse = [](const std::string& object, const char* what, const std::string& named,
                         const std::string& options) {
    throw Error(
        Fault::unsupported, object, fmt::format("has credentials from {} ({}), which wdelta does not ask", what, named),
        fmt::format("eval \"$(aws configure export-credentials{} --format env)\" makes variables of them", options));
  };
  for (const Way& way : k_ways) {
    if (!profile.value(way.setting).empty())
      refuse("profile " + profile_name, way.what, way.setting, " --profile " + profile_name);
  }
  for (const char* variable : {"AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
                               "AWS_CONTAINER_CREDENTIALS_FULL_URI"}) {
    if (!environment(variable).empty()) refuse("the environment", "its container", variable, "");
  }
}

}  // namespace

S3Access s3_access(const Environment& environment) {
  S3Access s3;
  // In this order AWS's own programs look.
  const char* asked_by = "AWS_DEFAULT_PROFILE";
  std::string profile_name = environment(asked_by);
  if (profile_name.empty()) profile_name = environment(asked_by = "AWS_PROFILE");
  const bool is_asked_for = !profile_name.empty();
  if (!is_asked_for) profile_name = "default";
  const Profile profile = read_profile(environment, profile_name);
  if (is_asked_for && profile.credentials.empty() && profile.configuration.empty()) {
    throw Error(Fault::not_found, profile_name, "there is no such profile in the AWS credentials and configuration",
                fmt::format("{} names it; the files are ~/.aws/credentials and ~/.aws/config", asked_by));
  }
  const auto either = [&](std::initializer_list<const char*> variables, const char* setting) {
    for (const char* variable : variables) {
      if (std::string value = environment(variable); !value.empty()) return value;
    }
    return profile.value(setting);
  };
  s3.endpoint = endpoint_of(environment, profile);
  while (s3.endpoint.ends_with('/')) s3.endpoint.pop_back();
  if (const std::string region = either({"AWS_REGION", "AWS_DEFAULT_REGION"}, "region"); !region.empty())
    s3.region = region;
  const std::string style = profile.value("s3.addressing_style");
  if (style == "path") s3.addressing = S3Addressing::path;
  if (style == "virtual") s3.addressing = S3Addressing::virtual_host;
  // These count before a profile that AWS_PROFILE names, as with AWS's own programs.
  if (const std::string id = environment("AWS_ACCESS_KEY_ID"); !id.empty()) {
    s3.key_id = id;
    s3.secret = environment("AWS_SECRET_ACCESS_KEY");
    s3.session_token = environment("AWS_SESSION_TOKEN");
    s3.key_source = "AWS_ACCESS_KEY_ID";
  } else {
    s3.key_id = profile.value("aws_access_key_id");
    s3.secret = profile.value("aws_secret_access_key");
    s3.session_token = profile.value("aws_session_token");
    s3.key_source = "profile " + profile_name;
    if (s3.key_id.empty()) require_no_others(environment, profile, profile_name);
  }
  return s3;
}

}  // namespace wdelta
