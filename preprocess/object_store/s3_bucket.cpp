#include "preprocess/object_store/s3_bucket.h"

#include <fmt/format.h>

#include <ctime>
#include <map>

#include "indexed_dataset/base/process/environment.h"
#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/terminal/terminal_text.h"
#include "preprocess/object_store/aws_profile.h"
#include "preprocess/object_store/find_credentials.h"
#include "preprocess/object_store/s3_refusal.h"

namespace weft {
namespace {

constexpr char kGoogleEndpoint[] = "https://storage.googleapis.com";

std::string first_of(std::initializer_list<std::string> texts) {
  for (const std::string& text : texts) {
    if (!text.empty()) return text;
  }
  return "";
}

// "https://HOST:PORT" without a slash, and without a port that HTTP leaves out of the Host header.
std::string checked_endpoint(std::string endpoint) {
  if (endpoint.empty()) return endpoint;
  while (endpoint.ends_with('/')) endpoint.pop_back();
  check_url(endpoint, /*allow_http=*/true);
  if (endpoint.find_first_of("/?#", endpoint.find("://") + 3) != endpoint.npos) {
    throw UsageError("'" + display_url(endpoint) +
                     "': an endpoint is https://HOST or https://HOST:PORT, without a path");
  }
  const std::string usual_port = is_https(endpoint) ? ":443" : ":80";
  if (endpoint.ends_with(usual_port)) endpoint.resize(endpoint.size() - usual_port.size());
  return endpoint;
}

}  // namespace

std::string find_s3_endpoint(const S3Options& options) {
  if (!options.endpoint.empty()) return checked_endpoint(options.endpoint);
  if (is_switched_on("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS")) return "";
  return checked_endpoint(
      first_of({environment_text("AWS_ENDPOINT_URL_S3"), environment_text("AWS_ENDPOINT_URL"),
                read_aws_profile().s3_endpoint}));
}

S3Bucket::S3Bucket(const S3Address& address, const S3Options& options,
                   std::shared_ptr<CachedCredentials> credentials)
    : is_google_(address.is_google),
      name_(address.bucket),
      options_(options),
      credentials_(std::move(credentials)) {
  if (is_google_) {
    endpoint_ = checked_endpoint(environment_text("STORAGE_EMULATOR_HOST"));
    region_ = "auto";
    return;
  }
  endpoint_ = find_s3_endpoint(options);
  ca_file_ = environment_text("AWS_CA_BUNDLE");
  region_ = first_of({environment_text("AWS_REGION"), environment_text("AWS_DEFAULT_REGION")});
  if (region_.empty()) region_ = first_of({read_aws_profile().get("region"), "us-east-1"});
}

std::string S3Bucket::region() {
  const std::lock_guard lock(mutex_);
  return region_;
}

RemoteRequest S3Bucket::request(const std::string& key,
                                std::vector<std::pair<std::string, std::string>> query,
                                std::vector<std::pair<std::string, std::string>> headers) {
  const std::string region = this->region();
  std::string server = endpoint_;
  bool has_bucket_in_path = true;
  if (server.empty() && is_google_) {
    server = kGoogleEndpoint;
  } else if (server.empty()) {
    // The certificate of AWS is for one name before its own; older buckets have names of no host.
    has_bucket_in_path =
        name_.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") != name_.npos;
    server = fmt::format("https://{}s3.{}.amazonaws.com{}", has_bucket_in_path ? "" : name_ + ".",
                         region, region.starts_with("cn-") ? ".cn" : "");
  }
  RequestToSign wanted;
  wanted.host = server.substr(server.find("://") + 3);
  wanted.path = has_bucket_in_path ? "/" + name_ : "";
  if (!key.empty() || !has_bucket_in_path) wanted.path += "/" + key;
  wanted.query = std::move(query);
  wanted.headers = std::move(headers);
  if (options_.requester_pays) wanted.headers.emplace_back("x-amz-request-payer", "requester");

  RemoteRequest made{.url = server + percent_encoded(wanted.path, "/"), .headers = {}};
  if (!wanted.query.empty()) made.url += "?" + encoded_query(wanted);
  if (credentials_) {
    made.headers = signed_headers(wanted, credentials_->get().keys, region, std::time(nullptr));
  } else {
    for (const auto& [name, value] : wanted.headers) made.headers.push_back(name + ": " + value);
  }
  made.follows_redirects = false;  // a signature is for one server
  made.is_path_as_is = true;
  made.reads_error_body = true;
  made.may_be_unencrypted = !endpoint_.empty();
  made.ca_file = ca_file_;
  return made;
}

// True if a request for another region may do better. Requests that were on their way when the
// region was learnt are refused as well.
bool S3Bucket::learn_region(const HttpRefusal& refusal, const std::string& region_in_body) {
  if (is_google_) return false;
  const std::string learnt =
      first_of({checked_region(refusal.header("x-amz-bucket-region")), region_in_body});
  if (learnt.empty()) return false;
  const std::lock_guard lock(mutex_);
  region_ = learnt;
  return true;
}

HttpFailure S3Bucket::judge(const HttpRefusal& refusal) {
  if (refusal.status == 412) throw CannotContinue{"the object has changed"};
  const S3Error error = parse_s3_error(refusal.body);
  HttpFailure failure = failure_of_status(refusal.status, refusal.retry_after_s);
  failure.why = fmt::format("the store answered {}", refusal.status);
  if (!error.code.empty()) failure.why += fmt::format(" {} ({})", error.code, error.message);
  const bool is_of_another_region = refusal.status == 301 || refusal.status == 307 ||
                                    error.code == "AuthorizationHeaderMalformed";
  if (is_of_another_region && learn_region(refusal, error.region)) {
    failure.asks_anew = true;
    return failure;
  }
  const bool is_expired = error.code == "ExpiredToken" || error.code == "TokenRefreshRequired";
  if (is_expired && credentials_ && credentials_->replace()) {
    failure.asks_anew = true;
    return failure;
  }
  if (error.code == "SlowDown") failure.may_pass = failure.is_overload = true;
  if (error.code == "RequestTimeout") failure.may_pass = true;
  if (failure.may_pass) return failure;
  const std::string advice =
      advice_for(error, credentials_ ? credentials_->get().source : "", refusal.header("Date"));
  if (!advice.empty()) failure.why += "; " + advice;
  if (refusal.status == 403 && name_ == "commoncrawl" && !is_google_) {
    failure.why +=
        "; Common Crawl's bucket is for signed requests from within AWS: everybody reads "
        "https://data.commoncrawl.org/ with the same paths";
  }
  return failure;
}

std::shared_ptr<S3Bucket> shared_bucket(const S3Address& address, const S3Options& options) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<S3Bucket>> buckets;
  static const auto aws_keys =
      std::make_shared<CachedCredentials>([] { return find_credentials(/*is_google=*/false); });
  static const auto google_keys =
      std::make_shared<CachedCredentials>([] { return find_credentials(/*is_google=*/true); });
  const std::lock_guard lock(mutex);
  std::shared_ptr<S3Bucket>& bucket =
      buckets[fmt::format("{} {} {} {} {}", address.is_google, address.bucket, options.endpoint,
                          options.is_unsigned, options.requester_pays)];
  if (!bucket) {
    std::shared_ptr<CachedCredentials> keys = address.is_google ? google_keys : aws_keys;
    if (options.is_unsigned || is_switched_on("AWS_NO_SIGN_REQUEST")) keys = nullptr;
    bucket = std::make_shared<S3Bucket>(address, options, std::move(keys));
  }
  return bucket;
}

}  // namespace weft
