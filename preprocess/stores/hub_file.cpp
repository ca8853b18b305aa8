#include "preprocess/stores/hub_file.h"

#include <algorithm>
#include <utility>

#include "indexed_dataset/base/storage/sha256.h"
#include "preprocess/stores/hub_answers.h"
#include "preprocess/web/hugging_face.h"

namespace weft {
namespace {

bool is_of_hub(const std::string& url) { return is_same_origin(url, hugging_face_endpoint()); }

}  // namespace

HubFile::HubFile(std::string address, const HttpOptions& options)
    : address_(std::move(address)),
      parsed_(parse_hub_address(address_)),
      resolve_url_(parsed_.resolve_url()),
      url_(resolve_url_) {
  check_url(hugging_face_endpoint(), options.allow_http);
}

RemoteRequest HubFile::request(const std::optional<ByteRange>& range,
                               const std::string& validator) {
  const std::lock_guard lock(mutex_);
  RemoteRequest request{.url = url_};
  request.follows_redirects = false;
  request.reads_error_body = true;  // so that the connection can be used again
  // The hub's ETag is none of its storage's, whose addresses name the content.
  if (range && !validator.empty() && is_of_hub(url_))
    request.headers.push_back("If-Range: " + validator);
  return request;
}

// Two storages may have different ETags for one file.
void HubFile::describe(HttpResponse& response, const HeaderOf&) {
  const std::lock_guard lock(mutex_);
  if (etag_.empty()) return;
  response.identity.etag = etag_;
  response.linked_sha256 = lower_sha256(etag_.substr(1, etag_.size() - 2));
}

HttpFailure HubFile::judge(const HttpRefusal& refusal) {
  const std::lock_guard lock(mutex_);
  if (!refusal.redirect_url.empty()) return go_to(refusal);
  if (is_of_hub(refusal.url)) return judge_hub_answer(refusal, parsed_);
  HttpFailure failure = failure_of_status(refusal.status, refusal.retry_after_s);
  failure.why = "the storage of the hub answered " + std::to_string(refusal.status);
  if (failure.may_pass) return failure;
  // Most likely, the signature has expired. Another connection may have met that before.
  if (refusal.url == url_) url_ = resolve_url_;
  failure.asks_anew = true;
  refusal_ = failure.why;
  return failure;
}

HttpFailure HubFile::go_to(const HttpRefusal& refusal) {
  if (is_https(refusal.url) && !is_https(refusal.redirect_url))
    return {.why = "the hub sends to an unencrypted address"};
  if (is_of_hub(refusal.url)) learn_etag(refusal.header("X-Linked-Etag"));
  url_ = refusal.redirect_url;
  return {.why = refusal_.empty() ? std::string("is redirected in a circle") : refusal_,
          .asks_anew = true};
}

void HubFile::learn_etag(const std::string& linked_etag) {
  std::string etag = linked_etag;
  std::erase(etag, '"');
  if (etag.empty()) return;
  etag = '"' + etag + '"';
  if (!is_clean_validator(etag, /*is_etag=*/true)) return;
  if (!etag_.empty() && etag != etag_) throw CannotContinue{"the file on the hub has changed"};
  etag_ = etag;
}

}  // namespace weft
