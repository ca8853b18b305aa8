// An address on the web as an input: fetched ahead while it is read, and stored nowhere.
#include <utility>

#include "preprocess/compressed/decompress.h"
#include "preprocess/inputs/input.h"
#include "preprocess/web/url_source.h"

namespace weft {
namespace {

class UrlInput final : public Input {
 public:
  UrlInput(const std::string& url, bool allow_http) : Input(display_url(url)), url_(url) {
    options_.fetch.http.allow_http = allow_http;
  }

  std::string key() const override { return url_without_secrets(url_); }
  void check_name() const override { check_url(url_, options_.fetch.http.allow_http); }

  void look(const std::atomic<bool>& cancelled) override {
    options_.expected = {};
    const UrlStat stat = stat_url(url_, options_, cancelled);
    identity_ = {version_text(stat.identity), stat.identity.size_bytes};
    layout_ = {};
    layout_.file_bytes = stat.identity.size_bytes;
    const auto decoder = decoder_for(stat.first_bytes);
    layout_.format = decoder ? decoder->format() : "plain";
    // A run that goes on asks for the rest only, where the server can prove that it is one.
    layout_.cut_anywhere = !decoder && layout_.file_bytes >= 0 && !identity_.version.empty();
    layout_.is_one_task = true;
    options_.expected = stat.identity;  // another file is a NetworkError from now on
  }

  // The range goes to the file's end. What begins in the middle is plain.
  std::unique_ptr<ByteSource> open(int64_t begin, int64_t, const std::atomic<bool>& cancelled,
                                   const DecodeOptions& options) const override {
    auto raw = open_url_source(url_, options_, begin, cancelled);
    return begin > 0 ? std::move(raw) : decode(std::move(raw), name(), options);
  }

 private:
  const std::string url_;
  UrlOptions options_;
};

}  // namespace

std::shared_ptr<Input> make_url_input(const std::string& url, bool allow_http) {
  return std::make_shared<UrlInput>(url, allow_http);
}

}  // namespace weft
