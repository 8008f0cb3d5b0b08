// SPDX-License-Identifier: Apache-2.0
// The S3 and the Hub of tests/services, run by a unit test.
#pragma once

#include "store/access.hpp"
#include "store/service_process.hpp"

#include <filesystem>

namespace wdelta::testing {

class S3Emulator {
 public:
  Access access(const std::filesystem::path& staging) const {
    Access access;
    access.s3.endpoint = process_.value("AWS_ENDPOINT_URL=");
    access.s3.key_id = process_.value("AWS_ACCESS_KEY_ID=");
    access.s3.secret = process_.value("AWS_SECRET_ACCESS_KEY=");
    access.s3.region = process_.value("AWS_REGION=");
    access.staging_directory = staging;
    return access;
  }

 private:
  ServiceProcess process_{"s3_emulator.py", "no_proxy="};
};

class HubEmulator {
 public:
  /// To buckets of "tester", which are made when they are not there.
  Access access(const std::filesystem::path& staging) const {
    Access access;
    access.hub.endpoint = process_.value("");
    access.hub.token = "hf_tester";
    access.creation = BucketCreation::open_to_all;
    access.staging_directory = staging;
    return access;
  }

 private:
  ServiceProcess process_{"hub_emulator.py", "\n"};
};

}  // namespace wdelta::testing
