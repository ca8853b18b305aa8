// An address on the web as an input: fetched ahead while it is read, and stored nowhere.
#pragma once

#include <memory>
#include <string>

#include "preprocess/inputs/input.h"
#include "preprocess/web/url.h"

namespace weft {

class UrlInput final : public Input {
 public:
  UrlInput(const std::string& url, bool allow_http)
      : Input(display_url(url)), url_(url), allow_http_(allow_http) {}

  std::string key() const override { return url_without_secrets(url_); }
  void check_name() const override { check_url(url_, allow_http_); }
  void look(const std::atomic<bool>& cancelled) override;
  // Gives the file that was looked at, to its end: another one is NetworkError.
  std::unique_ptr<ByteSource> open(int64_t begin, int64_t end, const std::atomic<bool>& cancelled,
                                   const DecodeOptions& options) const override;

 private:
  const std::string url_;
  const bool allow_http_;
  UrlIdentity at_server_;
};

}  // namespace weft
