#include "preprocess/web/http_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <mutex>
#include <stdexcept>

namespace weft {
namespace {

// Far above any server's; all answers of one request together, redirects included.
constexpr size_t kMaxHeaderBytes = size_t{256} << 10;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string hugging_face_endpoint() {
  const std::string endpoint = environment("HF_ENDPOINT");
  return endpoint.empty() ? "https://huggingface.co" : endpoint;
}

// Throws without showing it.
std::string hugging_face_token() {
  std::string token = environment("HF_TOKEN");
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) token.pop_back();
  if (!std::all_of(token.begin(), token.end(), [](unsigned char c) { return c > ' ' && c < 127; }))
    throw std::invalid_argument("HF_TOKEN: holds characters that no token has");
  return token;
}

// All of `text` as a number of bytes; nothing for anything else.
std::optional<int64_t> parse_bytes(std::string_view text) {
  int64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

bool is_sha256(const std::string& text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == text.npos;
}

// Trouble with certificates, protocols or redirects is the same a second later.
bool may_pass(CURLcode result) {
  switch (result) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_PARTIAL_FILE:
      return true;
    default:
      return false;
  }
}

}  // namespace

HttpFailure failure_of_status(long status, int64_t retry_after_s) {
  HttpFailure failure;
  failure.why = fmt::format("the server answered {}", status);
  if (status == 401) failure.why += " (for Hugging Face, set HF_TOKEN in the environment)";
  failure.may_pass = status == 408 || status == 425 || status == 429 || status >= 500;
  failure.is_overload = status == 429 || status == 503;
  failure.retry_after_s = retry_after_s;
  return failure;
}

HttpRequest::HttpRequest(HttpHandler& handler, const HttpOptions& options)
    : handler_(handler), token_(hugging_face_token()) {
  static std::once_flag curl_started;
  std::call_once(curl_started, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  curl_.reset(curl_easy_init());
  if (!curl_) throw std::bad_alloc();
  configure(options);
}

void HttpRequest::configure(const HttpOptions& options) {
  CURL* curl = curl_.get();
  curl_easy_setopt(curl, CURLOPT_PRIVATE, &handler_);
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, options.allow_http ? "https,http" : "https");
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(curl, CURLOPT_MAXREDIRS, 5L);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "weft-data");
  // One connection for each request is what makes them fast together; HTTP/2 would send all over
  // one.
  curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(curl, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, 256L << 10);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, static_cast<long>(options.connect_timeout_s));
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1000L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, static_cast<long>(options.stall_timeout_s));
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error_text_);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &HttpRequest::on_body);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, this);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, &HttpRequest::on_header);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, this);
  // The curl program knows these names, the library does not.
  for (const char* name : {"CURL_CA_BUNDLE", "SSL_CERT_FILE"}) {
    const std::string file = environment(name);
    if (file.empty()) continue;
    curl_easy_setopt(curl, CURLOPT_CAINFO, file.c_str());
    break;
  }
}

void HttpRequest::add_header(const std::string& line) {
  curl_slist* longer = curl_slist_append(headers_.get(), line.c_str());
  if (longer == nullptr) throw std::bad_alloc();
  static_cast<void>(headers_.release());
  headers_.reset(longer);
}

void HttpRequest::prepare(const std::string& url, std::optional<ByteRange> range,
                          const std::string& if_range) {
  response_ = {};
  content_length_ = -1;
  num_header_bytes_ = 0;
  is_answered_ = is_paused_ = false;
  error_ = nullptr;
  error_text_[0] = '\0';
  headers_.reset();
  add_header("Accept-Encoding: identity");
  if (range) {
    const std::string last =
        range->end == FetchPlan::kEndless ? "" : std::to_string(range->end - 1);
    add_header(fmt::format("Range: bytes={}-{}", range->begin, last));
    if (!if_range.empty()) add_header("If-Range: " + if_range);
  }
  CURL* curl = curl_.get();
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers_.get());
  const bool is_encrypted = is_https(url);
  curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, is_encrypted ? "https" : "https,http");
  is_hugging_face_ = is_same_origin(url, hugging_face_endpoint());
  // libcurl itself drops the token where a redirect leads to another host, port or protocol.
  const bool sends_token = is_hugging_face_ && is_encrypted && !token_.empty();
  curl_easy_setopt(curl, CURLOPT_HTTPAUTH,
                   static_cast<long>(sends_token ? CURLAUTH_BEARER : CURLAUTH_BASIC));
  curl_easy_setopt(curl, CURLOPT_XOAUTH2_BEARER, sends_token ? token_.c_str() : nullptr);
}

bool HttpRequest::resume() {
  is_paused_ = false;
  // Hands over what was held back at once; libcurl does not end a request that this fails for.
  return curl_easy_pause(curl_.get(), CURLPAUSE_CONT) == CURLE_OK && !error_;
}

void HttpRequest::finish(CURLcode result) {
  if (error_) std::rethrow_exception(error_);
  if (result == CURLE_OK && !is_answered_) {  // an answer without a body
    if (!guarded([&] { answer(); })) std::rethrow_exception(error_);
  }
  if (result == CURLE_OK) return;
  HttpFailure failure;
  failure.why = error_text_[0] != '\0' ? error_text_ : curl_easy_strerror(result);
  failure.may_pass = may_pass(result);
  failure.is_unknown_host =
      result == CURLE_COULDNT_RESOLVE_HOST || result == CURLE_COULDNT_RESOLVE_PROXY;
  failure.is_too_slow = result == CURLE_OPERATION_TIMEDOUT;
  throw failure;
}

void HttpRequest::take_header(std::string_view line) {
  num_header_bytes_ += line.size();
  if (num_header_bytes_ > kMaxHeaderBytes)
    throw HttpFailure{
        fmt::format("the server sends more than {} bytes of headers", kMaxHeaderBytes)};
  while (!line.empty() && (line.back() == '\r' || line.back() == '\n')) line.remove_suffix(1);
  if (line.starts_with("HTTP/")) {
    // A new answer (redirects have several): what is known belongs to the one before.
    const std::string linked = response_.linked_sha256;
    if (!is_answered_) response_ = {};
    response_.linked_sha256 = linked;
    content_length_ = -1;
    return;
  }
  const size_t colon = line.find(':');
  if (colon == line.npos || is_answered_) return;
  std::string name(line.substr(0, colon));
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  std::string value(line.substr(colon + 1));
  value.erase(0, value.find_first_not_of(" \t"));
  value.erase(value.find_last_not_of(" \t") + 1);
  take_field(name, value);
}

void HttpRequest::take_field(const std::string& name, const std::string& value) {
  if (name == "etag" && is_clean_validator(value, /*is_etag=*/true)) {
    response_.identity.etag = value;
  } else if (name == "last-modified" && is_clean_validator(value, /*is_etag=*/false)) {
    response_.identity.last_modified = value;
  } else if (name == "content-length") {
    content_length_ = parse_bytes(value).value_or(-1);
  } else if (name == "content-range" && value.starts_with("bytes ")) {
    // "bytes 0-9/100", "bytes 0-9/*" or "bytes */100" (RFC 9110, 14.4)
    const std::string_view text = std::string_view(value).substr(6);
    const size_t slash = text.find('/'), dash = text.find('-');
    if (slash == text.npos) return;
    response_.identity.size_bytes = parse_bytes(text.substr(slash + 1)).value_or(-1);
    if (dash == text.npos || dash > slash) return;
    const auto first = parse_bytes(text.substr(0, dash));
    const auto last = parse_bytes(text.substr(dash + 1, slash - dash - 1));
    if (first && last && *last >= *first && *last < FetchPlan::kEndless)
      response_.range = ByteRange{*first, *last + 1};
  } else if (name == "x-linked-etag" && is_hugging_face_ && response_.linked_sha256.empty()) {
    const std::string bare =
        value.size() > 2 && value[0] == '"' ? value.substr(1, value.size() - 2) : value;
    if (is_sha256(bare)) response_.linked_sha256 = bare;
  }
}

void HttpRequest::answer() {
  is_answered_ = true;
  curl_easy_getinfo(curl_.get(), CURLINFO_RESPONSE_CODE, &response_.status);
  if (response_.status == 200) {
    response_.identity.size_bytes = content_length_;
    response_.range.reset();
  } else if (response_.status != 206 && response_.status != 416) {
    curl_off_t retry_after = 0;
    curl_easy_getinfo(curl_.get(), CURLINFO_RETRY_AFTER, &retry_after);
    throw failure_of_status(response_.status, retry_after);
  }
  handler_.on_response(response_);
}

// Exceptions must not cross libcurl: they wait in `error_` for finish().
template <typename Action>
bool HttpRequest::guarded(Action action) {
  try {
    action();
    return true;
  } catch (...) {
    error_ = std::current_exception();
    return false;
  }
}

size_t HttpRequest::on_header(char* data, size_t, size_t size_bytes, void* self) {
  auto& request = *static_cast<HttpRequest*>(self);
  const bool good = request.guarded([&] { request.take_header({data, size_bytes}); });
  return good ? size_bytes : size_bytes + 1;  // another number than given makes libcurl stop
}

size_t HttpRequest::on_body(char* data, size_t, size_t size_bytes, void* self) {
  auto& request = *static_cast<HttpRequest*>(self);
  bool has_room = true;
  const bool good = request.guarded([&] {
    if (!request.is_answered_) request.answer();
    has_room = request.handler_.on_body({data, size_bytes});
  });
  if (!good) return size_bytes + 1;
  request.is_paused_ = !has_room;
  return has_room ? size_bytes : CURL_WRITEFUNC_PAUSE;
}

}  // namespace weft
