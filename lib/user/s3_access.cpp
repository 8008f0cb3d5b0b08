// SPDX-License-Identifier: Apache-2.0
#include "user/s3_access.hpp"

#include "base/error.hpp"
#include "base/file.hpp"
#include "user/ini.hpp"

#include <filesystem>
#include <fmt/format.h>

namespace wdelta {

namespace {

namespace fs = std::filesystem;

fs::path file_named_by(const Environment& environment, const char* variable, const char* below_home) {
  if (const std::string own = environment(variable); !own.empty()) return own;
  const std::string home = environment("HOME");
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

  std::string value(const std::string& name) const {
    for (const IniSection* section : {&credentials, &configuration}) {
      if (const auto found = section->find(name); found != section->end()) return found->second;
    }
    return "";
  }
};

Profile read_profile(const Environment& environment, const std::string& name) {
  IniFile credentials = read_ini(file_named_by(environment, "AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials"));
  IniFile configuration = read_ini(file_named_by(environment, "AWS_CONFIG_FILE", ".aws/config"));
  return {credentials[name], configuration[name == "default" ? name : "profile " + name]};
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
  std::string profile_name = environment("AWS_PROFILE");
  const bool is_asked_for = !profile_name.empty();
  if (!is_asked_for) profile_name = "default";
  const Profile profile = read_profile(environment, profile_name);
  if (is_asked_for && profile.credentials.empty() && profile.configuration.empty()) {
    throw Error(Fault::not_found, profile_name, "there is no such profile in the AWS credentials and configuration",
                "AWS_PROFILE names it; the files are ~/.aws/credentials and ~/.aws/config");
  }
  const auto either = [&](std::initializer_list<const char*> variables, const char* setting) {
    for (const char* variable : variables) {
      if (std::string value = environment(variable); !value.empty()) return value;
    }
    return profile.value(setting);
  };
  s3.endpoint = either({"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}, "endpoint_url");
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
