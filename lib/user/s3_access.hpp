// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "store/access.hpp"
#include "user/environment.hpp"

namespace wdelta {

/// Endpoint, region and credentials for S3, from the variables and files that AWS's own programs read. Throws not_found
/// when a profile that was asked for is in none of the files.
S3Access s3_access(const Environment& environment);

}  // namespace wdelta
