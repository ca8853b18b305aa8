#include "preprocess/web/download.h"

#include <fmt/format.h>
#include <sys/xattr.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <thread>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/base/storage/free_space.h"
#include "indexed_dataset/base/storage/sha256.h"
#include "preprocess/web/download_state.h"
#include "preprocess/web/fetch.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;

// A crash may cost so much. Each time, all that has come is synced: more often would slow the disk.
constexpr auto kSaveInterval = std::chrono::seconds(2);

constexpr char kOriginAttribute[] = "user.xdg.origin.url";

// OUTPUT.part with its state, while it is fetched from one URL.
class PartFile final : public FetchSink {
 public:
  PartFile(const DownloadRequest& request, RemoteFile& file, const DownloadProgress& progress)
      : request_(request),
        remote_(file),
        progress_(progress),
        part_(request.output.string() + ".part"),
        state_file_(part_.string() + ".json"),
        state_(find_state()),
        was_continued_(state_.num_bytes > 0),
        fetch_(remote_, request.fetch, {state_.num_bytes, ByteRange::kEndless}, state_.identity,
               *this) {
    try {
      // The state says whose the part is, so it comes first; one of no bytes continues nothing.
      if (!was_continued_)
        write_file_atomically(state_file_, to_json({.url = state_.url, .identity = {}}));
      file_ = OutputFile(part_, /*keep=*/was_continued_);
    } catch (...) {  // the destructor does not run
      remove_useless();
      throw;
    }
  }

  ~PartFile() {
    if (saving_.valid()) saving_.wait();
    remove_useless();
  }
  PartFile(const PartFile&) = delete;

  // Returns when the part is whole and synced.
  void fetch() {
    try {
      fetch_.run();
      saving_ = {};
      file_.truncate(size_bytes());
      file_.sync();
      file_.close();
    } catch (const NetworkError& error) {
      if (const std::string why = try_save(); !why.empty())
        throw NetworkError(std::string(error.what()) + "; nor can what has come be kept: " + why);
      throw;
    } catch (const ReadCancelled&) {
      try_save();
      throw;
    } catch (const LimitExceeded& error) {
      forget();
      throw LimitExceeded(std::string(error.what()) + " (--max-bytes)");
    }
  }

  DownloadResult check_and_commit() {
    const std::string expected =
        request_.sha256.empty() ? linked_sha256_ : lower_sha256(request_.sha256);
    const std::string found = sha256_of_file(part_);
    if (!expected.empty() && found != expected) {
      forget();
      throw ChecksumMismatch(remote_.name() + ": SHA-256 is " + found + ", expected " + expected +
                             "; the download was removed");
    }
    // Some file systems have no attributes.
    const std::string origin = request_.file->key();
    (void)::setxattr(part_.c_str(), kOriginAttribute, origin.data(), origin.size(), 0);
    commit_rename(part_, request_.output);
    remove_file(state_file_);
    return {size_bytes(), found, !expected.empty()};
  }

  int64_t num_bytes_held() const { return fetch_.num_bytes_held(); }

  // True if some of it came in an earlier call.
  bool was_continued() const { return was_continued_; }

  void forget() {
    if (saving_.valid()) saving_.wait();
    remove_file(state_file_);
    remove_file(part_);
  }

  void on_identity(const UrlIdentity& identity, const std::string& linked_sha256) override {
    linked_sha256_ = linked_sha256;
    if (known_size_bytes_ >= 0 && identity.size_bytes != known_size_bytes_)
      throw CannotContinue{"the mirror's file has another size"};
    if (identity.size_bytes < 0) return;
    const int64_t needed = identity.size_bytes - fetch_.num_bytes_held();
    const std::optional<int64_t> free = free_bytes(folder_of(request_.output));
    if (!free || needed <= *free) return;
    throw std::system_error(ENOSPC, std::generic_category(),
                            fmt::format("'{}' needs {} more bytes, its file system has {}",
                                        request_.output.string(), needed, *free));
  }
  void write(int64_t offset_bytes, std::string_view bytes) override {
    file_.write_at(bytes.data(), bytes.size(), offset_bytes);
    has_news_ = true;
  }
  void on_tick() override {
    if (progress_ && !progress_(num_bytes_held(), size_bytes())) throw ReadCancelled{};
    const auto now = Clock::now();
    if (has_news_ && now - last_saved_ >= kSaveInterval) save(now);
  }

 private:
  // A part that nothing can be continued with is of no use to the next call. Its state alone would
  // make that call take any file of the part's name for ours.
  void remove_useless() const noexcept {
    if (state_.num_bytes > 0) return;
    std::error_code ignored;
    for (const auto& file : {part_, state_file_}) std::filesystem::remove(file, ignored);
  }

  int64_t size_bytes() const { return state_.identity.size_bytes; }
  bool can_be_continued() const {
    return !state_.identity.validator().empty() && fetch_.first_missing() > 0;
  }

  // The state that an earlier call has left; 0 bytes if nothing can be continued.
  DownloadState find_state() {
    const DownloadState none{.url = remote_.key(), .identity = {}};
    std::error_code no_part;
    const auto part_bytes = std::filesystem::file_size(part_, no_part);
    if (no_part || !std::filesystem::exists(state_file_)) return none;
    auto state = parse_download_state(read_file(state_file_), static_cast<int64_t>(part_bytes));
    if (!state) return none;
    if (state->url == none.url) return *state;
    // Another server's ETag proves nothing here, but the checksum will.
    if (request_.sha256.empty() || state->identity.size_bytes < 0) return none;
    known_size_bytes_ = state->identity.size_bytes;
    return {none.url, {}, state->num_bytes};
  }

  // In the background, so that the connections go on: the disk may take its time. A state only
  // speaks of bytes that are on the disk.
  void save(Clock::time_point now) {
    if (!can_be_continued()) return;
    if (saving_.valid()) {
      if (saving_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return;
      saving_.get();
    }
    last_saved_ = now;
    has_news_ = false;
    state_.num_bytes = fetch_.first_missing();
    saving_ = std::async(std::launch::async, [this, json = to_json(state_)] {
      file_.sync();
      write_file_atomically(state_file_, json);
    });
  }

  void save_at_end() {
    if (saving_.valid()) saving_.get();
    if (!can_be_continued()) return forget();
    if (has_news_) save(Clock::now());
    if (saving_.valid()) saving_.get();
  }

  // Why what has come cannot be kept; "" if it is. The call ends for another reason anyhow.
  std::string try_save() {
    try {
      save_at_end();
      return "";
    } catch (const std::exception& error) {
      return error.what();
    }
  }

  const DownloadRequest& request_;
  RemoteFile& remote_;
  const DownloadProgress& progress_;
  const std::filesystem::path part_, state_file_;
  int64_t known_size_bytes_ = -1;  // of the file, by another mirror whose bytes are there
  DownloadState state_;
  const bool was_continued_;
  Fetch fetch_;
  OutputFile file_;
  std::string linked_sha256_;
  bool has_news_ = false;  // since the state was saved
  Clock::time_point last_saved_ = Clock::now();
  std::future<void> saving_;  // last: waits for it before the rest goes
};

// Waits in small steps, so that `progress` can still stop it.
void wait_before_retry(double seconds, const DownloadProgress& progress) {
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (Clock::now() < end) {
    if (progress && !progress(0, -1)) throw ReadCancelled{};
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

DownloadResult download_from(RemoteFile& file, const DownloadRequest& request,
                             const DownloadProgress& progress) {
  int64_t best_num_bytes = 0;
  int num_fruitless = 0;  // fresh starts in a row that came no further
  for (int num_attempts = 1;; ++num_attempts) {
    PartFile part(request, file, progress);
    try {
      part.fetch();
      return part.check_and_commit();
    } catch (const CannotContinue& cause) {
      num_fruitless = part.num_bytes_held() > best_num_bytes ? 0 : num_fruitless + 1;
      best_num_bytes = std::max(best_num_bytes, part.num_bytes_held());
      part.forget();
      if (num_fruitless >= request.fetch.num_attempts) {
        throw NetworkError(
            fmt::format("{}: {} (after {} attempts)", file.name(), cause.why, num_attempts));
      }
    } catch (const ChecksumMismatch&) {
      // Old and new bytes may not belong together: once more from the first one, without them.
      if (!part.was_continued()) throw;
    }
    wait_before_retry(request.fetch.first_backoff_s * std::min(num_fruitless, 60), progress);
  }
}

}  // namespace

DownloadResult download_file(const DownloadRequest& request, const DownloadProgress& progress) {
  std::vector<std::shared_ptr<RemoteFile>> files{request.file};
  files.insert(files.end(), request.mirrors.begin(), request.mirrors.end());
  std::string failures;
  bool has_mismatch = false;
  for (const auto& file : files) {
    try {
      return download_from(*file, request, progress);
    } catch (const ChecksumMismatch& error) {
      has_mismatch = true;
      failures += (failures.empty() ? "" : "\n") + std::string(error.what());
    } catch (const NetworkError& error) {
      failures += (failures.empty() ? "" : "\n") + std::string(error.what());
    }
  }
  if (has_mismatch) throw ChecksumMismatch(failures);
  throw NetworkError(failures);
}

void check_download_part(const std::filesystem::path& output) {
  const std::filesystem::path part = output.string() + ".part", state = part.string() + ".json";
  if (std::filesystem::exists(state) && parse_download_state(read_file(state), INT64_MAX)) return;
  for (const std::filesystem::path& file : {part, state}) {
    if (!std::filesystem::exists(std::filesystem::symlink_status(file))) continue;
    throw UsageError("'" + file.string() +
                     "' was left by another program, and would be overwritten; move it "
                     "away, or give another --output");
  }
}

std::string origin_url_of(const std::filesystem::path& file) {
  std::string url(4096, '\0');
  const ssize_t size = ::getxattr(file.c_str(), kOriginAttribute, url.data(), url.size());
  url.resize(size > 0 ? static_cast<size_t>(size) : 0);
  return url;
}

}  // namespace weft
