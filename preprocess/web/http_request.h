// One HTTP GET at a time over libcurl, with the rules that hold for all our downloads: https unless
// allowed otherwise, certificates always checked (CURL_CA_BUNDLE or SSL_CERT_FILE name other
// authorities), at most 5 redirects and never from https to http, stalled connections ended,
// HF_TOKEN to Hugging Face only.
#pragma once

#include <curl/curl.h>

#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "preprocess/web/fetch_options.h"
#include "preprocess/web/url.h"

namespace weft {

// The bytes from `begin` up to, not including, `end`.
struct ByteRange {
  // The end of a file whose size is not known yet.
  static constexpr int64_t kEndless = std::numeric_limits<int64_t>::max();

  int64_t begin = 0, end = 0;
};

struct HttpResponse {
  long status = 0;
  UrlIdentity identity;            // its size is that of the whole file
  std::optional<ByteRange> range;  // of a 206, which bytes these are
  std::string linked_sha256;       // what Hugging Face says of the file it redirects to; or ""
};

// Says why a request failed, and whether another try may do better.
struct HttpFailure {
  std::string why;
  bool may_pass = false;
  bool is_unknown_host = false;
  bool is_too_slow = false;   // what came does not count as progress
  bool is_overload = false;   // 429 or 503: the server wants less
  int64_t retry_after_s = 0;  // as the server asked
};

// A libcurl handle that can be used again; it keeps its connection. The derived class gets the
// answer; an exception from it ends the request and comes out of finish().
class HttpRequest {
 public:
  explicit HttpRequest(const HttpOptions& options);
  HttpRequest(const HttpRequest&) = delete;

  // The next request: all of `url`, or `range` of it (to the end if that ends at kEndless).
  // `if_range`: the validator of UrlIdentity, or "".
  void prepare(const std::string& url, std::optional<ByteRange> range, const std::string& if_range);
  CURL* handle() const { return curl_.get(); }
  bool is_paused() const { return is_paused_; }
  // False if that ended it: then finish() tells why.
  bool resume();

  // After libcurl has done it: returns if the whole answer has come, else throws HttpFailure, or
  // what the derived class threw.
  void finish(CURLcode result);

 protected:
  ~HttpRequest() = default;

 private:
  struct Closer {
    void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
    void operator()(curl_slist* list) const { curl_slist_free_all(list); }
  };

  // Called once for each request that is answered, before any of the body; not for redirects.
  virtual void on_response(const HttpResponse& response) = 0;
  // False if there is no room now: the same bytes come again after resume().
  virtual bool on_body(std::string_view bytes) = 0;

  void add_header(const std::string& line);
  std::string field(const char* name, int request_idx = -1) const;
  void answer();
  static size_t take_body(char* data, size_t, size_t size_bytes, void* self);

  std::unique_ptr<CURL, Closer> curl_;
  std::unique_ptr<curl_slist, Closer> headers_;
  std::string token_;  // HF_TOKEN; only set on the handle for Hugging Face's own addresses
  char error_text_[CURL_ERROR_SIZE] = {};
  bool is_hugging_face_ = false;
  bool is_answered_ = false, is_paused_ = false;
  std::exception_ptr error_;  // exceptions must not cross libcurl: it waits here for finish()
};

// The failure that an answer with this status is, other than 200, 206 and 416.
HttpFailure failure_of_status(long status, int64_t retry_after_s);

}  // namespace weft
