#include "preprocess/commands/store_options.h"

#include "preprocess/object_store/s3_bucket.h"

namespace weft {

void declare_store_options(OptionSet& options, S3Options& s3) {
  options.text("--s3-endpoint", s3.endpoint,
               "server of s3:// addresses, https://HOST or http://HOST:PORT, for stores other than "
               "AWS; without it AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL or the AWS profile says so");
  options.flag("--s3-unsigned", s3.is_unsigned,
               "read s3:// and gs:// addresses of public buckets, without any keys");
  options.flag("--s3-requester-pays", s3.requester_pays,
               "pay for requests to buckets that want this of their readers");
}

void validate_store_options(OptionSet& options, const S3Options& s3) {
  if (!s3.endpoint.empty()) options.check([&] { (void)find_s3_endpoint(s3); });
  if (s3.is_unsigned && s3.requester_pays)
    options.problem("--s3-unsigned and --s3-requester-pays exclude each other");
}

}  // namespace weft
