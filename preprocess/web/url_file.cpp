#include "preprocess/web/url_file.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "indexed_dataset/process/exit_code.h"
#include "preprocess/web/fetch.h"

namespace weft {
namespace {

// Fetched before and behind what is asked for: xz is read backwards, hints of pzstd forwards.
constexpr int64_t kMarginBytes = 8 << 10, kTailBytes = 64 << 10;

FetchOptions options_of_file(FetchOptions options) {
  options.num_connections = 1;
  options.part_bytes = FetchPlan::kEndless;  // what is asked for is one request
  options.only_ranges = true;
  return options;
}

}  // namespace

class UrlFile::State final : private FetchSink {
 public:
  State(const std::string& url, const UrlOptions& options, const std::atomic<bool>& cancelled,
        const Limits& limits)
      : url_(url),
        options_(options_of_file(options.fetch)),
        cancelled_(cancelled),
        limits_(limits),
        identity_(options.expected),
        size_bytes_(options.expected.size_bytes),
        plan_(std::vector<ByteRange>{}),
        fetch_(url_, options_, identity_, plan_, *this) {}

  int64_t size_bytes() const { return size_bytes_; }

  bool read_at(int64_t offset, void* data, int64_t num_bytes) {
    if (offset < 0 || num_bytes > size_bytes_ - offset) return false;
    for (const Window& window : windows_) {
      if (window.copy(offset, data, num_bytes)) return true;
    }
    ByteRange range{std::max<int64_t>(0, offset - kMarginBytes),
                    std::min(size_bytes_, offset + std::max(num_bytes, kMarginBytes))};
    const int64_t tail_begin = std::max<int64_t>(0, size_bytes_ - kTailBytes);
    const bool is_in_tail = range.end > tail_begin;
    if (is_in_tail) range = {std::min(range.begin, tail_begin), size_bytes_};
    Window& window = windows_[is_in_tail ? 0 : next_window_];
    if (!is_in_tail) next_window_ = next_window_ % (windows_.size() - 1) + 1;
    return fetch(range, window) && window.copy(offset, data, num_bytes);
  }

 private:
  struct Window {
    int64_t begin = 0;
    std::string bytes;

    bool copy(int64_t offset, void* data, int64_t num_bytes) const {
      const int64_t at = offset - begin;
      if (at < 0 || num_bytes > std::ssize(bytes) - at) return false;
      std::memcpy(data, bytes.data() + at, static_cast<size_t>(num_bytes));
      return true;
    }
  };

  // False if no more may be asked for.
  bool fetch(ByteRange range, Window& window) {
    const int64_t num_bytes = range.end - range.begin;
    if (limits_.max_requests < 1 || limits_.max_bytes < num_bytes) return false;
    --limits_.max_requests;
    limits_.max_bytes -= num_bytes;
    received_ = {range.begin, std::string(static_cast<size_t>(num_bytes), '\0')};
    plan_ = FetchPlan({range});
    try {
      fetch_.run();
    } catch (const CannotContinue& cause) {
      throw NetworkError(display_url(url_) + ": " + cause.why);
    }
    std::swap(window, received_);
    return true;
  }

  void on_identity(const UrlIdentity&, const std::string&) override {}
  void write(int64_t offset, std::string_view bytes) override {
    // Within `received_`: Fetch never gives more than was missing.
    std::memcpy(received_.bytes.data() + (offset - received_.begin), bytes.data(), bytes.size());
  }
  void on_tick() override {
    if (cancelled_.load(std::memory_order_relaxed)) throw ReadCancelled{};
  }

  const std::string url_;
  const FetchOptions options_;
  const std::atomic<bool>& cancelled_;
  Limits limits_;  // what is left of them
  UrlIdentity identity_;
  const int64_t size_bytes_;
  FetchPlan plan_;
  // The file's end, and what was fetched last: who follows hints looks ahead, and back again.
  std::array<Window, 4> windows_;
  size_t next_window_ = 1;
  Window received_;
  Fetch fetch_;
};

UrlFile::UrlFile(const std::string& url, const UrlOptions& options,
                 const std::atomic<bool>& cancelled, const Limits& limits)
    : state_(std::make_unique<State>(url, options, cancelled, limits)) {
  check_url(url, options.fetch.http.allow_http);
}

UrlFile::~UrlFile() = default;

int64_t UrlFile::size_bytes() const { return state_->size_bytes(); }

bool UrlFile::read_at(int64_t offset, void* data, size_t size_bytes) const {
  return state_->read_at(offset, data, static_cast<int64_t>(size_bytes));
}

}  // namespace weft
