// One HTTP request at a time over libcurl, with the rules that hold for all our downloads: https
// unless allowed otherwise, certificates always checked (CURL_CA_BUNDLE or SSL_CERT_FILE name other
// authorities), at most 5 redirects and never from https to http, stalled connections ended, the
// Hugging Face token to its own addresses only.
#pragma once

#include <curl/curl.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "preprocess/web/fetch_options.h"
#include "preprocess/web/remote_file.h"

namespace weft {

// A libcurl handle that can be used again; it keeps its connection. The derived class gets the
// answer; an exception from it ends the request and comes out of finish().
class HttpRequest {
 public:
  HttpRequest(RemoteFile& file, const HttpOptions& options);
  HttpRequest(const HttpRequest&) = delete;

  // The next request: for all of the file, or `range` of it (to the end if that ends at kEndless).
  // Throws what RemoteFile::request() throws.
  void prepare(const std::optional<ByteRange>& range, const std::string& validator);
  CURL* handle() const { return curl_.get(); }
  bool is_paused() const { return is_paused_; }
  // False if that ended it: then finish() tells why.
  bool resume();

  // After libcurl has done it: returns if the whole answer has come, else throws HttpFailure, or
  // what the file or the derived class threw.
  void finish(CURLcode result);

 protected:
  ~HttpRequest() = default;

 private:
  struct Closer {
    void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
    void operator()(curl_slist* list) const { curl_slist_free_all(list); }
  };

  // Called once for each request that is answered with 200, 206 or 416, before any of the body.
  virtual void on_response(const HttpResponse& response) = 0;
  // False if there is no room now: the same bytes come again after resume().
  virtual bool on_body(std::string_view bytes) = 0;

  void add_header(const std::string& line);
  std::string field(const char* name, int request_idx = -1) const;
  void answer();
  [[noreturn]] void refuse();
  static size_t take_body(char* data, size_t, size_t size_bytes, void* self);

  RemoteFile& file_;
  const bool allow_http_;
  RemoteRequest request_;
  std::unique_ptr<CURL, Closer> curl_;
  std::unique_ptr<curl_slist, Closer> headers_;
  std::string token_;  // only for Hugging Face's own addresses; else ""
  char error_text_[CURL_ERROR_SIZE] = {};
  bool is_hugging_face_ = false;
  bool is_answered_ = false, is_paused_ = false;
  bool is_refused_ = false;  // error_body_ is read, then refuse() tells why
  std::string error_body_;
  std::exception_ptr error_;  // exceptions must not cross libcurl: it waits here for finish()
};

}  // namespace weft
