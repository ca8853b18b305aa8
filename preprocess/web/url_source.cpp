#include "preprocess/web/url_source.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/process/start_thread.h"
#include "preprocess/compressed/decompress.h"
#include "preprocess/web/fetch.h"

namespace weft {
namespace {

struct Stopped {};

NetworkError cannot_go_on(const RemoteFile& file, int64_t offset, const CannotContinue& cause) {
  return NetworkError(file.name() + ": cannot go on at byte " + std::to_string(offset) + ": " +
                      cause.why + "; download it first, or start anew");
}

// A ring buffer between the thread that fetches and the one that reads. The ring's byte at
// offset % size belongs to the fetching thread from received_end_ on, to the reading one from
// position_ up to there.
class UrlSource final : public ByteSource, private FetchSink {
 public:
  UrlSource(std::shared_ptr<RemoteFile> file, const UrlOptions& options, ByteRange wanted,
            const std::atomic<bool>& cancelled)
      : file_(std::move(file)),
        options_(options),
        cancelled_(cancelled),
        begin_(wanted.begin),
        identity_(options.expected),
        ring_bytes_(options.fetch.num_connections * options.fetch.part_bytes),
        ring_(new char[static_cast<size_t>(ring_bytes_)]),
        wake_bytes_(std::min(kMaxWakeBytes, options.fetch.part_bytes)),
        position_(wanted.begin),
        received_end_(wanted.begin),
        fetch_(*file_, options_.fetch, wanted, identity_, *this) {
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
  void interrupt() noexcept override { is_interrupted_ = true; }

  // The file as the server describes it; known when a read has returned.
  UrlIdentity identity() const {
    const std::lock_guard lock(mutex_);
    return known_identity_;
  }
  // Behind the end of what is wanted.
  bool gives_ranges() const { return fetch_.gives_ranges(); }

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
      show_received();
    } catch (const CannotContinue& cause) {
      error = std::make_exception_ptr(cannot_go_on(*file_, received_end_, cause));
    } catch (...) {  // Stopped as well: then no read follows
      error = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    error_ = error;
    is_done_ = true;
    changed_.notify_all();
  }

  void on_identity(const UrlIdentity& identity, const std::string&) override {
    const std::lock_guard lock(mutex_);
    known_identity_ = identity;
  }
  int64_t window_end() override { return position_ + ring_bytes_; }
  void on_tick() override {
    if (is_stopped_) throw Stopped{};
    show_received();
  }

  void write(int64_t offset, std::string_view bytes) override {
    const int64_t at = offset % ring_bytes_;
    const auto num_bytes = static_cast<int64_t>(bytes.size());
    const int64_t first = std::min(num_bytes, ring_bytes_ - at);
    std::memcpy(ring_.get() + at, bytes.data(), static_cast<size_t>(first));
    std::memcpy(ring_.get(), bytes.data() + first, static_cast<size_t>(num_bytes - first));
  }

  // Lets the reader have what has come without a gap.
  void show_received() {
    if (fetch_.first_missing() <= received_end_) return;
    const std::lock_guard lock(mutex_);
    received_end_ = fetch_.first_missing();
    changed_.notify_all();
  }

  const std::shared_ptr<RemoteFile> file_;
  const UrlOptions options_;
  const std::atomic<bool>& cancelled_;
  const int64_t begin_;
  UrlIdentity identity_;  // belongs to the fetching thread
  const int64_t ring_bytes_;
  const std::unique_ptr<char[]> ring_;
  const int64_t wake_bytes_;
  std::atomic<int64_t> position_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<int64_t> received_end_;  // changes under mutex_
  UrlIdentity known_identity_;         // guarded by mutex_, as are the next two
  std::exception_ptr error_;
  bool is_done_ = false;
  std::atomic<bool> is_stopped_{false}, is_interrupted_{false};
  Fetch fetch_;
  std::thread thread_;
};

// Where the bytes of a range go that is read at once.
class MemorySink final : public FetchSink {
 public:
  MemorySink(int64_t begin, char* data, const std::atomic<bool>& cancelled)
      : begin_(begin), data_(data), cancelled_(cancelled) {}

  void on_identity(const UrlIdentity&, const std::string&) override {}
  void write(int64_t offset, std::string_view bytes) override {
    std::memcpy(data_ + (offset - begin_), bytes.data(), bytes.size());
  }
  void on_tick() override {
    if (cancelled_.load(std::memory_order_relaxed)) throw ReadCancelled{};
  }

 private:
  const int64_t begin_;
  char* const data_;
  const std::atomic<bool>& cancelled_;
};

}  // namespace

UrlStat stat_url(std::shared_ptr<RemoteFile> file, const UrlOptions& options,
                 const std::atomic<bool>& cancelled) {
  UrlOptions small = options;
  small.fetch.num_connections = 1;
  UrlSource source(std::move(file), small, {0, kNumMagicBytes}, cancelled);
  UrlStat stat;
  std::array<char, kNumMagicBytes> bytes;
  while (const size_t got = source.read(bytes.data(), bytes.size()))
    stat.first_bytes.append(bytes.data(), got);
  stat.identity = source.identity();
  stat.has_ranges = source.gives_ranges();
  return stat;
}

std::string read_url(std::shared_ptr<RemoteFile> file, const FetchOptions& options,
                     int64_t max_bytes, const std::atomic<bool>& cancelled) {
  UrlOptions limited;
  limited.fetch = options;
  limited.fetch.max_bytes = max_bytes;
  limited.fetch.num_connections = 1;
  limited.fetch.part_bytes = max_bytes;
  UrlSource source(std::move(file), limited, {0, ByteRange::kEndless}, cancelled);
  std::string text, block(64 << 10, '\0');
  while (const size_t got = source.read(block.data(), block.size())) text.append(block, 0, got);
  return text;
}

std::unique_ptr<ByteSource> open_url_source(std::shared_ptr<RemoteFile> file,
                                            const UrlOptions& options, int64_t begin,
                                            const std::atomic<bool>& cancelled) {
  return std::make_unique<UrlSource>(std::move(file), options,
                                     ByteRange{begin, ByteRange::kEndless}, cancelled);
}

void read_url_range(RemoteFile& file, const UrlOptions& options, ByteRange range, char* data,
                    const std::atomic<bool>& cancelled) {
  UrlIdentity identity = options.expected;
  MemorySink sink(range.begin, data, cancelled);
  Fetch fetch(file, options.fetch, range, identity, sink);
  try {
    fetch.run();
  } catch (const CannotContinue& cause) {
    throw cannot_go_on(file, fetch.first_missing(), cause);
  }
  if (fetch.first_missing() < range.end)
    throw cannot_go_on(file, fetch.first_missing(), {"the file is shorter"});
}

std::string version_text(const UrlIdentity& identity) {
  if (identity.validator().empty()) return "";
  return std::to_string(identity.size_bytes) + (identity.etag.empty() ? " changed " : " etag ") +
         identity.validator();
}

}  // namespace weft
