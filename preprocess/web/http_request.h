// One HTTP GET at a time over libcurl, with the rules that hold for all our downloads: https unless
// allowed otherwise, certificates always checked (CURL_CA_BUNDLE or SSL_CERT_FILE name other
// authorities), at most 5 redirects and never from https to http, bounded headers, stalled
// connections ended, HF_TOKEN to Hugging Face only.
#pragma once

#include <curl/curl.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "preprocess/web/fetch_options.h"
#include "preprocess/web/fetch_plan.h"
#include "preprocess/web/url.h"

namespace weft {

struct HttpResponse {
  long status = 0;
  UrlIdentity identity;            // size: of the whole file
  std::optional<ByteRange> range;  // of a 206, which bytes these are
  std::string linked_sha256;       // what Hugging Face says of the file it redirects to; or ""
};

// Why a request failed, and whether another try may do better.
struct HttpFailure {
  std::string why;
  bool may_pass = false;
  bool is_unknown_host = false;
  bool is_too_slow = false;   // what came does not count as progress
  bool is_overload = false;   // 429 or 503: the server wants less
  int64_t retry_after_s = 0;  // as the server asked
};

// Who gets the answer. What it throws ends the request and comes out of HttpRequest::finish().
class HttpHandler {
 public:
  // Once for each request that is answered, before any of the body; redirects are not shown.
  virtual void on_response(const HttpResponse& response) = 0;
  // False if there is no room now: the same bytes come again after HttpRequest::resume().
  virtual bool on_body(std::string_view bytes) = 0;

 protected:
  ~HttpHandler() = default;
};

// A libcurl handle that can be used again; it keeps its connection. `handler` must outlive it.
class HttpRequest {
 public:
  HttpRequest(HttpHandler& handler, const HttpOptions& options);
  HttpRequest(const HttpRequest&) = delete;

  // The next request: all of `url`, or `range` of it (to the end if that ends at kEndless).
  // `if_range`: the validator of UrlIdentity, or "".
  void prepare(const std::string& url, std::optional<ByteRange> range, const std::string& if_range);
  CURL* handle() const { return curl_.get(); }
  bool is_paused() const { return is_paused_; }
  // False if that ended it: then finish() tells why.
  bool resume();

  // After libcurl has done it: returns if the whole answer has come, else throws HttpFailure, or
  // what the handler threw.
  void finish(CURLcode result);

 private:
  struct Closer {
    void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
    void operator()(curl_slist* list) const { curl_slist_free_all(list); }
  };

  void configure(const HttpOptions& options);
  void add_header(const std::string& line);
  void take_header(std::string_view line);
  void take_field(const std::string& name, const std::string& value);
  void answer();  // tells the handler what has come so far
  template <typename Action>
  bool guarded(Action action);
  static size_t on_header(char* data, size_t, size_t size_bytes, void* self);
  static size_t on_body(char* data, size_t, size_t size_bytes, void* self);

  HttpHandler& handler_;
  std::unique_ptr<CURL, Closer> curl_;
  std::unique_ptr<curl_slist, Closer> headers_;
  std::string token_;  // HF_TOKEN; only set on the handle for Hugging Face's own addresses
  char error_text_[CURL_ERROR_SIZE] = {};
  bool is_hugging_face_ = false;
  HttpResponse response_;
  int64_t content_length_ = -1;
  size_t num_header_bytes_ = 0;
  bool is_answered_ = false, is_paused_ = false;
  std::exception_ptr error_;
};

// The failure that an answer with this status is, other than 200, 206 and 416.
HttpFailure failure_of_status(long status, int64_t retry_after_s);

}  // namespace weft
