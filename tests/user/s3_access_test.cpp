// SPDX-License-Identifier: Apache-2.0
// What AWS's own programs read out of variables and files, read in the same way.
#include "user/s3_access.hpp"

#include "testing/fault.hpp"
#include "testing/scratch.hpp"

#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

namespace wdelta {

using testing::fault_of;

namespace {

using Variables = std::map<std::string, std::string>;

constexpr const char* k_keys = "aws_access_key_id = AK\naws_secret_access_key = SK\n";
constexpr const char* k_place = "region = eu-west-1\nendpoint_url = http://store:9\n";

/// A home with AWS's two files in it.
class Home {
 public:
  Home(const std::string& configuration, const std::string& credentials) {
    std::filesystem::create_directory(scratch_ / ".aws");
    std::ofstream(scratch_ / ".aws/config") << configuration;
    std::ofstream(scratch_ / ".aws/credentials") << credentials;
  }

  S3Access access(const Variables& variables = {}) const {
    return s3_access([&](const char* name) {
      if (std::string(name) == "HOME") return scratch_.path().string();
      const auto found = variables.find(name);
      return found == variables.end() ? std::string() : found->second;
    });
  }

 private:
  testing::ScratchDirectory scratch_;
};

void check_all(const S3Access& access) {
  CHECK(access.region == "eu-west-1");
  CHECK(access.endpoint == "http://store:9");
  CHECK(access.key_id == "AK");
  CHECK(access.secret == "SK");
}

}  // namespace

TEST_CASE("a profile is found by its name however its section is written") {
  const std::string default_keys = std::string("[default]\n") + k_keys;
  check_all(Home(std::string("[default]\n") + k_place, default_keys).access());
  check_all(Home(std::string("[profile default]\n") + k_place, default_keys).access());
  check_all(Home(std::string("[default]\nregion = mars\n[profile default]\n") + k_place, default_keys).access());
  const std::string my_keys = std::string("[my prof]\n") + k_keys;
  for (const char* section : {"[profile 'my prof']", "[profile \"my prof\"]", "[profile  my  prof ]"}) {
    CAPTURE(section);
    const Home home(std::string(section) + "\n" + k_place, my_keys);
    check_all(home.access({{"AWS_PROFILE", "my prof"}}));
    check_all(home.access({{"AWS_DEFAULT_PROFILE", "my prof"}}));
    check_all(home.access({{"AWS_DEFAULT_PROFILE", "my prof"}, {"AWS_PROFILE", "other"}}));
    CHECK(fault_of([&] { home.access({{"AWS_DEFAULT_PROFILE", "nobody"}}); }) == Fault::not_found);
    CHECK(home.access().key_id.empty());
  }
}

TEST_CASE("settings are read with names in any case, and with a colon") {
  check_all(Home("[default]\nRegion=eu-west-1\nENDPOINT_URL=http://store:9\n",
                 "[default]\nAWS_ACCESS_KEY_ID=AK\nAws_Secret_Access_Key=SK\n")
                .access());
  check_all(Home("[default]\nregion: eu-west-1\nendpoint_url: http://store:9\n",
                 "[default]\r\naws_access_key_id:AK\r\naws_secret_access_key : SK\r\n")
                .access());
  CHECK(Home("[default]\nS3 =\n  Addressing_Style = path\n", "").access().addressing == S3Addressing::path);
  CHECK(Home("[default]\ns3:\n  addressing_style = virtual\n", "").access().addressing == S3Addressing::virtual_host);
}

TEST_CASE("the endpoint that is most particular to S3 counts, and a variable before the files") {
  const std::string services =
      "[services mine]\ndynamodb =\n  endpoint_url = http://no:1\ns3 =\n  endpoint_url = http://s3:2\n";
  const Home home("[default]\nservices = mine\nendpoint_url = http://all:3\n" + services, "");
  CHECK(home.access().endpoint == "http://s3:2");
  CHECK(home.access({{"AWS_ENDPOINT_URL", "http://all:4"}}).endpoint == "http://all:4");
  CHECK(home.access({{"AWS_ENDPOINT_URL", "http://all:4"}, {"AWS_ENDPOINT_URL_S3", "http://s3:5/"}}).endpoint ==
        "http://s3:5");
  CHECK(home.access({{"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true"}, {"AWS_ENDPOINT_URL", "http://all:4"}})
            .endpoint.empty());
  CHECK(home.access({{"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "false"}}).endpoint == "http://s3:2");
  CHECK(Home("[default]\nservices = other\nendpoint_url = http://all:3\n" + services, "").access().endpoint ==
        "http://all:3");
  CHECK(Home("[default]\nignore_configured_endpoint_urls = True\nendpoint_url = http://all:3\n", "")
            .access()
            .endpoint.empty());
}

TEST_CASE("a variable names a file below the home directory by a tilde") {
  const Home home("", "");
  CHECK(fault_of([&] {
          home.access({{"AWS_PROFILE", "default"}, {"AWS_CONFIG_FILE", "~/.aws/none"}});
        }) == Fault::not_found);
  const Home other(std::string("[default]\n") + k_place + k_keys, "");
  check_all(other.access({{"AWS_CONFIG_FILE", "~/.aws/config"}, {"AWS_PROFILE", "default"}}));
}

}  // namespace wdelta
