#include "preprocess/web/remote_file.h"

#include <fmt/format.h>

namespace weft {
namespace {

class WebFile final : public RemoteFile {
 public:
  WebFile(const std::string& url, bool allow_http) : url_(url) { check_url(url, allow_http); }

  std::string name() const override { return display_url(url_); }
  std::string key() const override { return url_without_secrets(url_); }
  RemoteRequest request(const std::optional<ByteRange>& range,
                        const std::string& validator) override {
    RemoteRequest request{.url = url_};
    if (range && !validator.empty()) request.headers.push_back("If-Range: " + validator);
    return request;
  }

 private:
  const std::string url_;
};

}  // namespace

HttpFailure RemoteFile::judge(const HttpRefusal& refusal) {
  return failure_of_status(refusal.status, refusal.retry_after_s);
}

HttpFailure failure_of_status(long status, int64_t retry_after_s) {
  HttpFailure failure;
  failure.why = fmt::format("the server answered {}", status);
  if (status == 401)
    failure.why += " (for Hugging Face, set HF_TOKEN in the environment, or use hf auth login)";
  failure.may_pass = status == 408 || status == 425 || status == 429 || status >= 500;
  failure.is_overload = status == 429 || status == 503;
  failure.retry_after_s = retry_after_s;
  return failure;
}

std::shared_ptr<RemoteFile> make_web_file(const std::string& url, bool allow_http) {
  return std::make_shared<WebFile>(url, allow_http);
}

}  // namespace weft
