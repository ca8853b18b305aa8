// The profile of the user's AWS files: ~/.aws/config and ~/.aws/credentials, or those that
// AWS_CONFIG_FILE and AWS_SHARED_CREDENTIALS_FILE name. [docs.aws.amazon.com/sdkref, "Shared config
// and credentials files"]
//
//   [profile train]                    ; "[train]" in the credentials file
//   region = eu-west-1
//   services = minio
//   [services minio]
//   s3 =
//     endpoint_url = http://minio:9000
#pragma once

#include <map>
#include <string>

namespace weft {

struct AwsProfile {
  std::string name;
  bool is_there = false;
  std::map<std::string, std::string> settings;  // the credentials file's win
  std::string s3_endpoint;                      // services' s3 first, then endpoint_url

  std::string get(const std::string& setting) const;  // "" where it is not set
};

// The profile that AWS_PROFILE names, else "default". Read anew each time: keys may have been
// replaced. Throws std::system_error for a file that is there and cannot be read, UsageError where
// AWS_PROFILE names a profile that is in neither.
AwsProfile read_aws_profile();

}  // namespace weft
