#include "preprocess/web/http_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <mutex>
#include <stdexcept>

#include "indexed_dataset/base/process/environment.h"
#include "indexed_dataset/base/storage/sha256.h"
#include "preprocess/web/hugging_face.h"

namespace weft {
namespace {

// All of `text` as a number of bytes; nothing for anything else.
std::optional<int64_t> parse_bytes(std::string_view text) {
  int64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

// Reads "bytes 0-9/100", "bytes 0-9/*" or "bytes */100" (RFC 9110, 14.4) into `response`.
void read_content_range(std::string_view text, HttpResponse& response) {
  if (!text.starts_with("bytes ")) return;
  text.remove_prefix(6);
  const size_t slash = text.find('/'), dash = text.find('-');
  if (slash == text.npos) return;
  response.identity.size_bytes = parse_bytes(text.substr(slash + 1)).value_or(-1);
  if (dash == text.npos || dash > slash) return;
  const auto first = parse_bytes(text.substr(0, dash));
  const auto last = parse_bytes(text.substr(dash + 1, slash - dash - 1));
  if (first && last && *last >= *first && *last < ByteRange::kEndless)
    response.range = ByteRange{*first, *last + 1};
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

// What is read of the body of an error.
constexpr size_t kMaxErrorBytes = 16 << 10;

// A rule that libcurl does not know would not hold: a redirect to http, for one.
template <typename Value>
void set(CURL* curl, CURLoption option, Value value) {
  const CURLcode result = curl_easy_setopt(curl, option, value);
  if (result == CURLE_OUT_OF_MEMORY) throw std::bad_alloc();
  if (result != CURLE_OK) {
    throw std::logic_error(fmt::format("libcurl {} does not take option {}: {}", curl_version(),
                                       static_cast<int>(option), curl_easy_strerror(result)));
  }
}

}  // namespace

HttpRequest::HttpRequest(RemoteFile& file, const HttpOptions& options)
    : file_(file), allow_http_(options.allow_http) {
  static std::once_flag curl_started;
  std::call_once(curl_started, [] {
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
      throw std::logic_error("libcurl does not start");
  });
  curl_.reset(curl_easy_init());
  if (!curl_) throw std::bad_alloc();
  CURL* curl = curl_.get();
  set(curl, CURLOPT_MAXREDIRS, 5L);
  set(curl, CURLOPT_NOSIGNAL, 1L);
  set(curl, CURLOPT_USERAGENT, "weft-data");
  // One connection for each request is what makes them fast together; HTTP/2 would send all over
  // one.
  set(curl, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  set(curl, CURLOPT_BUFFERSIZE, 256L << 10);
  set(curl, CURLOPT_CONNECTTIMEOUT, static_cast<long>(options.connect_timeout_s));
  set(curl, CURLOPT_LOW_SPEED_LIMIT, 1000L);
  set(curl, CURLOPT_LOW_SPEED_TIME, static_cast<long>(options.stall_timeout_s));
  set(curl, CURLOPT_ERRORBUFFER, error_text_);
  set(curl, CURLOPT_WRITEFUNCTION, &HttpRequest::take_body);
  set(curl, CURLOPT_WRITEDATA, this);
  // The curl program knows these names, the library does not.
  for (const char* name : {"CURL_CA_BUNDLE", "SSL_CERT_FILE"}) {
    const std::string authorities = environment_text(name);
    if (authorities.empty()) continue;
    set(curl, CURLOPT_CAINFO, authorities.c_str());
    break;
  }
}

void HttpRequest::add_header(const std::string& line) {
  curl_slist* longer = curl_slist_append(headers_.get(), line.c_str());
  if (longer == nullptr) throw std::bad_alloc();
  static_cast<void>(headers_.release());
  headers_.reset(longer);
}

void HttpRequest::prepare(const std::optional<ByteRange>& range, const std::string& validator) {
  request_ = file_.request(range, validator);
  is_answered_ = is_paused_ = is_refused_ = false;
  error_body_.clear();
  error_ = nullptr;
  error_text_[0] = '\0';
  headers_.reset();
  add_header("Accept-Encoding: identity");
  if (range) {
    const std::string last =
        range->end == ByteRange::kEndless ? "" : std::to_string(range->end - 1);
    add_header(fmt::format("Range: bytes={}-{}", range->begin, last));
  }
  for (const std::string& header : request_.headers) add_header(header);
  const std::string& url = request_.url;
  CURL* curl = curl_.get();
  const bool allow_http = allow_http_ || request_.may_be_unencrypted;
  set(curl, CURLOPT_PROTOCOLS_STR, allow_http ? "https,http" : "https");
  if (!request_.ca_file.empty()) set(curl, CURLOPT_CAINFO, request_.ca_file.c_str());
  set(curl, CURLOPT_URL, url.c_str());
  set(curl, CURLOPT_HTTPHEADER, headers_.get());
  set(curl, CURLOPT_CUSTOMREQUEST, request_.method == "GET" ? nullptr : request_.method.c_str());
  set(curl, CURLOPT_FOLLOWLOCATION, request_.follows_redirects ? 1L : 0L);
  set(curl, CURLOPT_PATH_AS_IS, request_.is_path_as_is ? 1L : 0L);
  const bool is_encrypted = is_https(url);
  set(curl, CURLOPT_REDIR_PROTOCOLS_STR, is_encrypted ? "https" : "https,http");
  is_hugging_face_ = is_same_origin(url, hugging_face_endpoint());
  token_ = is_hugging_face_ && is_encrypted ? hugging_face_token() : "";
  // libcurl itself drops the token where a redirect leads to another host, port or protocol.
  const bool sends_token = !token_.empty();
  set(curl, CURLOPT_HTTPAUTH, static_cast<long>(sends_token ? CURLAUTH_BEARER : CURLAUTH_BASIC));
  set(curl, CURLOPT_XOAUTH2_BEARER, sends_token ? token_.c_str() : nullptr);
}

bool HttpRequest::resume() {
  is_paused_ = false;
  // Hands over what was held back at once; libcurl does not end a request that this fails for.
  return curl_easy_pause(curl_.get(), CURLPAUSE_CONT) == CURLE_OK && !error_;
}

void HttpRequest::finish(CURLcode result) {
  if (error_) std::rethrow_exception(error_);
  if (result == CURLE_OK && !is_answered_) answer();  // it has no body
  if (is_refused_) refuse();
  if (result == CURLE_OK) return;
  HttpFailure failure;
  failure.why = error_text_[0] != '\0' ? error_text_ : curl_easy_strerror(result);
  failure.may_pass = may_pass(result);
  failure.is_unknown_host =
      result == CURLE_COULDNT_RESOLVE_HOST || result == CURLE_COULDNT_RESOLVE_PROXY;
  failure.is_too_slow = result == CURLE_OPERATION_TIMEDOUT;
  throw failure;
}

// A field of the last answer, or of another one where redirects came before; "" if it is not there.
std::string HttpRequest::field(const char* name, int request_idx) const {
  curl_header* found = nullptr;
  const CURLHcode result =
      curl_easy_header(curl_.get(), name, 0, CURLH_HEADER, request_idx, &found);
  return result == CURLHE_OK ? found->value : "";
}

// Hands on what the answer's headers say.
void HttpRequest::answer() {
  is_answered_ = true;
  HttpResponse response;
  curl_easy_getinfo(curl_.get(), CURLINFO_RESPONSE_CODE, &response.status);
  if (response.status == 200) {
    curl_off_t size_bytes = -1;
    curl_easy_getinfo(curl_.get(), CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &size_bytes);
    response.identity.size_bytes = size_bytes;
    // Some servers (rclone's) send a part as if it were all of the file.
    HttpResponse part;
    part.status = 206;
    read_content_range(field("Content-Range"), part);
    if (part.range && part.range->end - part.range->begin == size_bytes &&
        size_bytes < part.identity.size_bytes) {
      response = part;
    }
  } else if (response.status == 206 || response.status == 416) {
    read_content_range(field("Content-Range"), response);
  } else {
    is_refused_ = true;
    if (request_.reads_error_body) return;
    refuse();
  }
  // Such bytes may be those of the file or of an encoding of the part: nothing says which.
  const std::string encoding = field("Content-Encoding");
  if (response.status == 206 && !encoding.empty() && encoding != "identity") {
    throw HttpFailure{"the server sent a part of the file with Content-Encoding " +
                      escape_for_terminal(encoding) +
                      ", which nobody asked for; fetch the whole file (curl --compressed -O URL)"};
  }
  const std::string etag = field("ETag"), last_modified = field("Last-Modified");
  if (is_clean_validator(etag, /*is_etag=*/true)) response.identity.etag = etag;
  if (is_clean_validator(last_modified, /*is_etag=*/false))
    response.identity.last_modified = last_modified;
  if (is_hugging_face_) {
    // The answer that redirects to the storage has it; where a repository was renamed, another
    // redirect comes first.
    std::string linked;
    long num_redirects = 0;
    curl_easy_getinfo(curl_.get(), CURLINFO_REDIRECT_COUNT, &num_redirects);
    for (int i = 0; i <= num_redirects && linked.empty(); ++i) linked = field("X-Linked-Etag", i);
    std::erase(linked, '"');
    response.linked_sha256 = lower_sha256(linked);
  }
  file_.describe(response, [this](const char* name) { return field(name); });
  on_response(response);
}

// Throws what the file says of an answer that is not its bytes.
void HttpRequest::refuse() {
  HttpRefusal refusal;
  refusal.url = request_.url;
  curl_easy_getinfo(curl_.get(), CURLINFO_RESPONSE_CODE, &refusal.status);
  curl_off_t retry_after_s = 0;
  curl_easy_getinfo(curl_.get(), CURLINFO_RETRY_AFTER, &retry_after_s);
  refusal.retry_after_s = retry_after_s;
  char* redirect_url = nullptr;
  curl_easy_getinfo(curl_.get(), CURLINFO_REDIRECT_URL, &redirect_url);
  if (redirect_url != nullptr) refusal.redirect_url = redirect_url;
  refusal.header = [this](const char* name) { return field(name); };
  refusal.body = error_body_;
  throw file_.judge(refusal);
}

size_t HttpRequest::take_body(char* data, size_t, size_t size_bytes, void* self) {
  auto& request = *static_cast<HttpRequest*>(self);
  try {
    if (!request.is_answered_) request.answer();
    if (request.is_refused_) {
      request.error_body_.append(data, std::min(size_bytes, kMaxErrorBytes));
      if (request.error_body_.size() >= kMaxErrorBytes) request.refuse();
      return size_bytes;
    }
    request.is_paused_ = !request.on_body({data, size_bytes});
  } catch (...) {
    request.error_ = std::current_exception();
    return size_bytes + 1;  // another number than given makes libcurl stop
  }
  return request.is_paused_ ? CURL_WRITEFUNC_PAUSE : size_bytes;
}

}  // namespace weft
