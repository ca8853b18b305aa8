// One bucket as requests see it: its server, its region, which is learnt from answers, and the keys
// they are signed with. Its objects and the pages of its list are made of such requests.
//
//   AWS itself        https://BUCKET.s3.REGION.amazonaws.com/KEY, path style for names with dots
//   another endpoint  ENDPOINT/BUCKET/KEY
//   gs://             https://storage.googleapis.com/BUCKET/KEY, region "auto"
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "preprocess/object_store/credentials.h"
#include "preprocess/object_store/s3_address.h"
#include "preprocess/web/fetch_options.h"
#include "preprocess/web/remote_file.h"

namespace weft {

// The server that s3:// addresses lie on, "" for AWS itself: --s3-endpoint, AWS_ENDPOINT_URL_S3,
// AWS_ENDPOINT_URL, or the profile's. It may be http://, since only the user names it. Throws
// UsageError for what is none.
std::string find_s3_endpoint(const S3Options& options);

// Thread-safe.
class S3Bucket {
 public:
  // Throws as find_s3_endpoint() and read_aws_profile().
  S3Bucket(const S3Address& address, const S3Options& options,
           std::shared_ptr<CachedCredentials> credentials);

  // The server, where it is not AWS's or Google's own; else "". It tells buckets of one name apart.
  const std::string& endpoint() const { return endpoint_; }
  // A signed request for `key`, or for the bucket itself where that is "".
  RemoteRequest request(const std::string& key,
                        std::vector<std::pair<std::string, std::string>> query,
                        std::vector<std::pair<std::string, std::string>> headers);
  // See RemoteFile::judge.
  HttpFailure judge(const HttpRefusal& refusal);

 private:
  std::string region();
  bool learn_region(const HttpRefusal& refusal, const std::string& region_in_body);

  const bool is_google_;
  const std::string name_;
  const S3Options options_;
  const std::shared_ptr<CachedCredentials> credentials_;  // null for requests without keys
  std::string endpoint_, ca_file_;
  std::mutex mutex_;
  std::string region_;  // guarded by mutex_
};

// The bucket of an address. A process has one object for each, so that its region is learnt once;
// all of them share their keys. Throws as the constructor.
std::shared_ptr<S3Bucket> shared_bucket(const S3Address& address, const S3Options& options);

}  // namespace weft
