#include "preprocess/inputs/url_input.h"

#include <utility>

#include "preprocess/compressed/decompress.h"
#include "preprocess/web/url_source.h"

namespace weft {

void UrlInput::look(const std::atomic<bool>& cancelled) {
  UrlOptions options;
  options.fetch.http.allow_http = allow_http_;
  const UrlStat stat = stat_url(url_, options, cancelled);
  at_server_ = stat.identity;
  identity_ = {version_text(stat.identity), stat.identity.size_bytes};
  layout_ = {};
  layout_.file_bytes = stat.identity.size_bytes;
  const auto decoder = decoder_for(stat.first_bytes);
  layout_.format = decoder ? decoder->format() : "plain";
  // A run that goes on asks for the rest only, where the server can prove that it is one.
  layout_.cut_anywhere = !decoder && layout_.file_bytes >= 0 && !identity_.version.empty();
  layout_.is_one_task = true;
}

// What begins in the middle is plain.
std::unique_ptr<ByteSource> UrlInput::open(int64_t begin, int64_t,
                                           const std::atomic<bool>& cancelled,
                                           const DecodeOptions& options) const {
  UrlOptions url_options;
  url_options.fetch.http.allow_http = allow_http_;
  url_options.expected = at_server_;
  auto raw = open_url_source(url_, url_options, begin, cancelled);
  return begin > 0 ? std::move(raw) : decode(std::move(raw), name(), options);
}

}  // namespace weft
