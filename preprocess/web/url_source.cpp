#include "preprocess/web/url_source.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <thread>

#include "indexed_dataset/process/exit_code.h"
#include "indexed_dataset/process/start_thread.h"
#include "preprocess/compressed/decompress.h"
#include "preprocess/web/fetch.h"
#include "preprocess/web/fetch_plan.h"

namespace weft {
namespace {

struct Stopped {};

// Takes the first bytes, then ends the fetch.
class FirstBytesSink final : public FetchSink {
 public:
  explicit FirstBytesSink(const std::atomic<bool>& cancelled) : cancelled_(cancelled) {}
  void on_identity(const UrlIdentity&, const std::string&) override {}
  void write(int64_t, std::string_view bytes) override {
    first_bytes += bytes.substr(0, kNumMagicBytes - first_bytes.size());
    if (first_bytes.size() == kNumMagicBytes) throw Stopped{};
  }
  void on_tick() override {
    if (cancelled_.load(std::memory_order_relaxed)) throw ReadCancelled{};
  }
  std::string first_bytes;

 private:
  const std::atomic<bool>& cancelled_;
};

// A ring buffer between the thread that fetches and the one that reads. The ring's byte at
// offset % size belongs to the fetching thread from received_end_ on, to the reading one from
// position_ up to there.
class UrlSource final : public ByteSource, private FetchSink {
 public:
  UrlSource(const std::string& url, const UrlOptions& options, int64_t begin,
            const std::atomic<bool>& cancelled)
      : url_(url),
        options_(options),
        cancelled_(cancelled),
        begin_(begin),
        plan_(begin),
        identity_(options.expected),
        ring_bytes_(options.fetch.num_connections * options.fetch.part_bytes),
        ring_(new char[static_cast<size_t>(ring_bytes_)]),
        wake_bytes_(std::min(kMaxWakeBytes, options.fetch.part_bytes)),
        position_(begin),
        received_end_(begin),
        fetch_(url_, options_.fetch, identity_, plan_, *this) {
    if (!identity_.validator().empty() && identity_.size_bytes >= 0)
      plan_.set_size(identity_.size_bytes);
    thread_ = start_thread([this] { run(); });
  }
  ~UrlSource() override {
    is_stopped_ = true;
    fetch_.wake();
    thread_.join();
  }

  size_t read(char* data, size_t size_bytes) override {
    const int64_t position = position_;
    const int64_t end = wait_for_bytes();
    const auto wanted = static_cast<int64_t>(std::min(size_bytes, size_t{1} << 30));
    const int64_t at = position % ring_bytes_;
    const int64_t got = std::min({wanted, end - position, ring_bytes_ - at});
    std::memcpy(data, ring_.get() + at, static_cast<size_t>(got));
    position_ = position + got;
    // The fetching thread waits for room: told now and then, not for every line.
    if (position / wake_bytes_ != position_ / wake_bytes_) fetch_.wake();
    return static_cast<size_t>(got);
  }
  int64_t num_bytes_taken() const override { return position_ - begin_; }
  std::string format() const override { return "plain"; }
  void interrupt() noexcept override { is_interrupted_ = true; }

 private:
  static constexpr int64_t kMaxWakeBytes = int64_t{1} << 20;

  // Where what has come without a gap ends; position_ at the end of the file.
  int64_t wait_for_bytes() {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (is_interrupted_ || cancelled_.load(std::memory_order_relaxed)) throw ReadCancelled{};
      if (received_end_ > position_) return received_end_;
      if (error_) std::rethrow_exception(error_);
      if (is_done_) return position_;
      changed_.wait_for(lock, std::chrono::milliseconds(100));
    }
  }

  void run() {
    std::exception_ptr error;
    try {
      fetch_.run();
    } catch (const CannotContinue& cause) {
      error = std::make_exception_ptr(NetworkError(
          display_url(url_) + ": cannot go on at byte " + std::to_string(received_end_) + ": " +
          cause.why + "; download it first, or start anew"));
    } catch (...) {  // Stopped as well: nobody reads any more
      error = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    error_ = error;
    is_done_ = true;
    changed_.notify_all();
  }

  void on_identity(const UrlIdentity&, const std::string&) override {}
  int64_t window_end() override { return position_ + ring_bytes_; }
  void on_tick() override {
    if (is_stopped_) throw Stopped{};
  }

  void write(int64_t offset, std::string_view bytes) override {
    // A server that sends the whole file again repeats what is there, and the reader may be
    // reading.
    const int64_t num_known =
        std::clamp<int64_t>(received_end_ - offset, 0, static_cast<int64_t>(bytes.size()));
    bytes.remove_prefix(static_cast<size_t>(num_known));
    offset += num_known;
    const auto num_bytes = static_cast<int64_t>(bytes.size());
    const int64_t at = offset % ring_bytes_, first = std::min(num_bytes, ring_bytes_ - at);
    std::memcpy(ring_.get() + at, bytes.data(), static_cast<size_t>(first));
    std::memcpy(ring_.get(), bytes.data() + first, static_cast<size_t>(num_bytes - first));
    note_received(offset, offset + num_bytes);
  }

  void note_received(int64_t begin, int64_t end) {
    const auto next = ahead_.upper_bound(begin);
    if (next != ahead_.begin() && std::prev(next)->second >= begin) {
      std::prev(next)->second = std::max(std::prev(next)->second, end);
    } else {
      ahead_[begin] = end;
    }
    int64_t received_end = received_end_;
    while (!ahead_.empty() && ahead_.begin()->first <= received_end) {
      received_end = std::max(received_end, ahead_.begin()->second);
      ahead_.erase(ahead_.begin());
    }
    if (received_end == received_end_) return;
    const std::lock_guard lock(mutex_);
    received_end_ = received_end;
    changed_.notify_all();
  }

  const std::string url_;
  const UrlOptions options_;
  const std::atomic<bool>& cancelled_;
  const int64_t begin_;
  FetchPlan plan_;
  UrlIdentity identity_;
  const int64_t ring_bytes_;
  const std::unique_ptr<char[]> ring_;
  const int64_t wake_bytes_;
  std::atomic<int64_t> position_;
  std::map<int64_t, int64_t> ahead_;  // begin -> end of what came behind a gap; fetching thread
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<int64_t> received_end_;  // changes under mutex_
  std::exception_ptr error_;           // guarded by mutex_, with is_done_
  bool is_done_ = false;
  std::atomic<bool> is_stopped_{false}, is_interrupted_{false};
  Fetch fetch_;
  std::thread thread_;
};

}  // namespace

UrlStat stat_url(const std::string& url, const UrlOptions& options,
                 const std::atomic<bool>& cancelled) {
  check_url(url, options.fetch.http.allow_http);
  FetchOptions small = options.fetch;
  small.num_connections = 1;
  small.part_bytes = kNumMagicBytes;
  UrlStat stat;
  FetchPlan plan;
  FirstBytesSink sink(cancelled);
  Fetch fetch(url, small, stat.identity, plan, sink);
  try {
    fetch.run();
  } catch (const Stopped&) {
    // It has what it wanted.
  } catch (const CannotContinue& cause) {
    throw NetworkError(display_url(url) + ": " + cause.why);
  }
  stat.first_bytes = std::move(sink.first_bytes);
  return stat;
}

std::unique_ptr<ByteSource> open_url_source(const std::string& url, const UrlOptions& options,
                                            int64_t begin, const std::atomic<bool>& cancelled) {
  check_url(url, options.fetch.http.allow_http);
  return std::make_unique<UrlSource>(url, options, begin, cancelled);
}

std::string version_text(const UrlIdentity& identity) {
  if (identity.validator().empty()) return "";
  return std::to_string(identity.size_bytes) + (identity.etag.empty() ? " changed " : " etag ") +
         identity.validator();
}

UrlIdentity parse_version_text(const std::string& text) {
  UrlIdentity identity;
  const size_t space = text.find(' '), second = text.find(' ', space + 1);
  if (space == text.npos || second == text.npos) return {};
  const auto [stop, error] = std::from_chars(text.data(), text.data() + space, identity.size_bytes);
  const std::string kind = text.substr(space + 1, second - space - 1);
  const std::string validator = text.substr(second + 1);
  if (error != std::errc() || stop != text.data() + space) return {};
  if (kind == "etag" && is_clean_validator(validator, /*is_etag=*/true)) identity.etag = validator;
  if (kind == "changed" && is_clean_validator(validator, /*is_etag=*/false))
    identity.last_modified = validator;
  return identity.validator().empty() ? UrlIdentity{} : identity;
}

}  // namespace weft
