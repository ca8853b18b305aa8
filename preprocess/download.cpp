#include "preprocess/download.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>

#include "indexed_dataset/exit_code.h"
#include "indexed_dataset/file_io.h"
#include "preprocess/sha256.h"

namespace weft {
namespace {

// Why an attempt failed, and whether another may do better.
struct AttemptFailed {
  std::string why;
  bool may_pass = false;
  int64_t retry_after_s = 0;  // as the server asked
};

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return text;
}

struct CurlClosers {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

// One request. libcurl calls back into it, and exceptions must not cross libcurl: they wait in
// `error_`.
class Attempt {
 public:
  Attempt(const DownloadRequest& request, const DownloadProgress& progress, bool is_first)
      : request_(request), progress_(progress), is_first_(is_first), curl_(curl_easy_init()) {
    part_ = request.output.string() + ".part";
    etag_file_ = part_.string() + ".etag";
    if (!curl_) throw std::bad_alloc();
  }

  // Throws AttemptFailed.
  void run() {
    open_part();
    configure();
    const CURLcode result = curl_easy_perform(curl_.get());
    if (error_) std::rethrow_exception(error_);
    if (stopped_) throw DownloadStopped{};
    if (failed_) throw *failed_;
    if (result != CURLE_OK) throw AttemptFailed{describe(result), may_pass(result), 0};
    if (!body_begun_) begin_body();  // an empty one
    // Without a length, a server that stops early looks like the end: only sha256 can tell.
    file_.sync();
    file_.close();
  }

  const std::filesystem::path& part() const { return part_; }
  int64_t num_bytes_held() const { return position_; }
  void forget_part() const {
    std::error_code ignored;
    std::filesystem::remove(part_, ignored);
    std::filesystem::remove(etag_file_, ignored);
  }

 private:
  void open_part() {
    std::error_code no_part;
    const auto size = std::filesystem::file_size(part_, no_part);
    if (!no_part && std::filesystem::exists(etag_file_)) {
      etag_ = read_file(etag_file_);
      resume_from_ = static_cast<int64_t>(size);
    }
    if (etag_.empty()) resume_from_ = 0;
    file_ = OutputFile(part_, /*keep=*/resume_from_ > 0);
    position_ = resume_from_;
  }

  void configure() {
    CURL* curl = curl_.get();
    const bool from_https = lower(request_.url).starts_with("https:");
    curl_easy_setopt(curl, CURLOPT_URL, request_.url.c_str());
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, request_.allow_http ? "https,http" : "https");
    curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, from_https ? "https" : "https,http");
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(curl, CURLOPT_MAXREDIRS, 5L);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "weft-data");
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, static_cast<long>(request_.connect_timeout_s));
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1000L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, static_cast<long>(request_.stall_timeout_s));
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error_text_);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &Attempt::on_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, this);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, &Attempt::on_header);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, this);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, &Attempt::on_progress);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, this);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    if (resume_from_ > 0) {
      // If-Range: the rest if the file is still the one with this ETag, else all of it.
      headers_.reset(curl_slist_append(nullptr, ("If-Range: " + etag_).c_str()));
      headers_.reset(curl_slist_append(headers_.release(),
                                       fmt::format("Range: bytes={}-", resume_from_).c_str()));
      curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers_.get());
    }
  }

  // A new response begins (redirects have several): what is known belongs to the one before.
  void take_header(std::string_view line) {
    while (!line.empty() && (line.back() == '\r' || line.back() == '\n')) line.remove_suffix(1);
    if (line.starts_with("HTTP/")) {
      response_etag_.clear();
      range_start_.reset();
      return;
    }
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) return;
    const std::string name = lower(std::string(line.substr(0, colon)));
    std::string value(line.substr(colon + 1));
    value.erase(0, value.find_first_not_of(" \t"));
    if (name == "etag") response_etag_ = value;
    if (name == "content-range" && value.starts_with("bytes "))
      range_start_ = std::atoll(value.c_str() + 6);
  }

  // Decides at the first byte of the body what it is.
  void begin_body() {
    body_begun_ = true;
    long status = 0;
    curl_easy_getinfo(curl_.get(), CURLINFO_RESPONSE_CODE, &status);
    if (status == 206) {
      if (resume_from_ == 0 || range_start_ != resume_from_) {
        forget_part();
        throw AttemptFailed{"the server sent another part of the file than was asked for", true, 0};
      }
      return;
    }
    if (status != 200) {
      if (status == 416) forget_part();  // the part is longer than the file: it is another file
      curl_off_t retry_after = 0;
      curl_easy_getinfo(curl_.get(), CURLINFO_RETRY_AFTER, &retry_after);
      const bool passes = status == 408 || status == 416 || status == 429 || status >= 500;
      throw AttemptFailed{fmt::format("the server answered {}", status), passes, retry_after};
    }
    file_.truncate(0);
    position_ = resume_from_ = 0;
    // Only a strong ETag promises equal bytes.
    if (response_etag_.starts_with('"')) {
      write_file_atomically(etag_file_, response_etag_);
    } else {
      std::filesystem::remove(etag_file_);
    }
  }

  // Runs `action`; keeps what it throws for run().
  template <typename Action>
  bool guarded(Action action) {
    try {
      action();
      return true;
    } catch (const AttemptFailed& failure) {
      failed_ = failure;
    } catch (...) {
      error_ = std::current_exception();
    }
    return false;
  }

  static size_t on_body(char* data, size_t, size_t size_bytes, void* self) {
    auto& attempt = *static_cast<Attempt*>(self);
    const bool good = attempt.guarded([&] {
      if (!attempt.body_begun_) attempt.begin_body();
      attempt.file_.write_at(data, size_bytes, attempt.position_);
      attempt.position_ += static_cast<int64_t>(size_bytes);
    });
    return good ? size_bytes : size_bytes + 1;  // another number than given makes libcurl stop
  }
  static size_t on_header(char* data, size_t, size_t size_bytes, void* self) {
    auto& attempt = *static_cast<Attempt*>(self);
    const bool good = attempt.guarded([&] { attempt.take_header({data, size_bytes}); });
    return good ? size_bytes : size_bytes + 1;
  }
  static int on_progress(void* self, curl_off_t total, curl_off_t, curl_off_t, curl_off_t) {
    auto& attempt = *static_cast<Attempt*>(self);
    attempt.guarded([&] {
      attempt.stopped_ =
          attempt.progress_ &&
          !attempt.progress_(attempt.position_, total > 0 ? attempt.resume_from_ + total : -1);
    });
    return attempt.stopped_ || attempt.error_ ? 1 : 0;
  }

  std::string describe(CURLcode result) const {
    return error_text_[0] != '\0' ? std::string(error_text_) : curl_easy_strerror(result);
  }

  // Trouble with certificates, protocols or redirects is the same a second later. A host that was
  // never found is a wrong name or a machine without a network: said at once.
  bool may_pass(CURLcode result) const {
    switch (result) {
      case CURLE_COULDNT_RESOLVE_HOST:
      case CURLE_COULDNT_RESOLVE_PROXY:
        return !is_first_;
      case CURLE_COULDNT_CONNECT:
      case CURLE_OPERATION_TIMEDOUT:
      case CURLE_SSL_CONNECT_ERROR:
      case CURLE_GOT_NOTHING:
      case CURLE_SEND_ERROR:
      case CURLE_RECV_ERROR:
      case CURLE_PARTIAL_FILE:
      case CURLE_HTTP2:
      case CURLE_HTTP2_STREAM:
        return true;
      default:
        return false;
    }
  }

  const DownloadRequest& request_;
  const DownloadProgress& progress_;
  bool is_first_;
  std::unique_ptr<CURL, CurlClosers> curl_;
  std::unique_ptr<curl_slist, CurlClosers> headers_;
  char error_text_[CURL_ERROR_SIZE] = {};
  std::filesystem::path part_, etag_file_;
  std::string etag_, response_etag_;
  std::optional<int64_t> range_start_;
  int64_t resume_from_ = 0, position_ = 0;
  OutputFile file_;
  bool body_begun_ = false, stopped_ = false;
  std::optional<AttemptFailed> failed_;
  std::exception_ptr error_;
};

void check_request(const DownloadRequest& request) {
  const std::string url = lower(request.url);
  const bool is_http = url.starts_with("http://");
  if (!url.starts_with("https://") && !is_http) {
    throw std::invalid_argument("'" + request.url + "': not an https URL");
  }
  if (is_http && !request.allow_http) {
    throw std::invalid_argument(
        "'" + request.url +
        "': unencrypted; use an https URL, or --allow-http if you trust the network");
  }
}

// Waits in small steps, so that `progress` can still stop it.
void wait_before_retry(double seconds, const DownloadProgress& progress) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {
    if (progress && !progress(0, -1)) throw DownloadStopped{};
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

void check_sha256(const DownloadRequest& request, const Attempt& attempt) {
  if (request.sha256.empty()) return;
  const std::string found = sha256_of_file(attempt.part());
  if (found == lower(request.sha256)) return;
  attempt.forget_part();
  throw ChecksumMismatch(request.url + ": SHA-256 is " + found + ", expected " +
                         lower(request.sha256) + "; the download was removed");
}

}  // namespace

void download_file(const DownloadRequest& request, const DownloadProgress& progress) {
  static std::once_flag curl_started;
  std::call_once(curl_started, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  check_request(request);
  double backoff_s = request.first_backoff_s;
  int64_t best_num_bytes = 0;
  int num_fruitless = 0;  // attempts in a row that brought the file no further
  for (int num_attempts = 1;; ++num_attempts) {
    Attempt attempt(request, progress, num_attempts == 1);
    try {
      attempt.run();
      check_sha256(request, attempt);
      commit_rename(attempt.part(), request.output);
      attempt.forget_part();
      return;
    } catch (const AttemptFailed& failure) {
      if (attempt.num_bytes_held() == 0) attempt.forget_part();
      if (attempt.num_bytes_held() > best_num_bytes) {
        best_num_bytes = attempt.num_bytes_held();
        num_fruitless = 0;
        backoff_s = request.first_backoff_s;
      } else {
        ++num_fruitless;
      }
      if (!failure.may_pass || num_fruitless >= request.num_attempts) {
        throw NetworkError(fmt::format("{}: {} (after {} attempt{})", request.url, failure.why,
                                       num_attempts, num_attempts == 1 ? "" : "s"));
      }
      wait_before_retry(std::clamp(static_cast<double>(failure.retry_after_s), backoff_s, 60.0),
                        progress);
      backoff_s = std::min(2 * backoff_s, 60.0);
    }
  }
}

}  // namespace weft
