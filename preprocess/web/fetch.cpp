#include "preprocess/web/fetch.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <new>
#include <stdexcept>

#include "indexed_dataset/base/process/exit_code.h"

namespace weft {
namespace {

constexpr int64_t kMinPartBytes = int64_t{4} << 20, kMaxPartBytes = int64_t{64} << 20;
// A new address, new credentials, a redirect or two: what goes on beyond is a circle.
constexpr int kMaxAskedAnew = 8;
constexpr double kMaxBackoffSeconds = 60, kMaxRetryAfterSeconds = 600;

// libcurl keeps connections with its "multi" handle. Hundreds of files of one server should not
// need a new one each time (three round trips with TLS), so handles are used again.
class IdleMultis {
 public:
  CURLM* take() {
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        CURLM* multi = idle_.back();
        idle_.pop_back();
        return multi;
      }
    }
    CURLM* multi = curl_multi_init();
    if (multi == nullptr) throw std::bad_alloc();
    return multi;
  }
  void put(CURLM* multi) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(multi);
  }

 private:
  std::mutex mutex_;
  std::vector<CURLM*> idle_;
};

// Never destroyed: when a program ends, OpenSSL may be gone before the connections that it
// encrypts.
IdleMultis& idle_multis() {
  static auto* const multis = new IdleMultis;
  return *multis;
}

// Nothing would ever come where libcurl cannot work.
void check_multi(CURLMcode result) {
  if (result == CURLM_OUT_OF_MEMORY) throw std::bad_alloc();
  if (result != CURLM_OK)
    throw std::logic_error(std::string("libcurl: ") + curl_multi_strerror(result));
}

std::chrono::steady_clock::duration duration_of(double seconds) {
  using std::chrono::steady_clock;
  return std::chrono::duration_cast<steady_clock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

void Fetch::PutBack::operator()(CURLM* multi) const { idle_multis().put(multi); }

Fetch::Fetch(RemoteFile& file, const FetchOptions& options, ByteRange wanted, UrlIdentity& identity,
             FetchSink& sink)
    : file_(file),
      options_(options),
      identity_(identity),
      sink_(sink),
      next_begin_(wanted.begin),
      end_(wanted.end),
      multi_(idle_multis().take()),
      is_whole_only_(!file.has_ranges()),
      num_allowed_(options.num_connections) {
  if (!identity.validator().empty() && identity.size_bytes >= 0)
    end_ = std::min(end_, identity.size_bytes);
  for (int i = 0; i < options.num_connections; ++i)
    connections_.push_back(std::make_unique<Connection>(*this, options.http));
}

Fetch::~Fetch() {
  for (const auto& connection : connections_) stop(*connection);
}

void Fetch::run() {
  while (first_missing() < end_) {
    start_connections();
    int num_running = 0;
    check_multi(curl_multi_perform(multi_.get(), &num_running));
    resume_paused();
    sink_.on_tick();
    // An ended request makes room for the next at once.
    if (!take_results()) check_multi(curl_multi_poll(multi_.get(), nullptr, 0, wait_ms(), nullptr));
  }
  // A server may add to what was asked for: that is not waited for.
  for (const auto& connection : connections_) stop(*connection);
}

int64_t Fetch::first_missing() const {
  int64_t first = std::min(next_begin_, end_);
  for (const auto& connection : connections_) {
    if (connection->part && !connection->is_done())
      first = std::min(first, connection->part->begin);
  }
  return first;
}

int64_t Fetch::num_bytes_held() const {
  int64_t num_bytes = std::min(next_begin_, end_);
  for (const auto& connection : connections_) {
    if (connection->part) num_bytes -= connection->part->end - connection->part->begin;
  }
  return num_bytes;
}

int64_t Fetch::part_bytes() const {
  if (options_.part_bytes > 0) return std::min(options_.part_bytes, int64_t{1} << 40);
  return std::clamp(identity_.size_bytes / (4 * options_.num_connections), kMinPartBytes,
                    kMaxPartBytes);
}

// The first answer tells whether there can be several.
int Fetch::num_connections() const { return is_known_ && !is_single_ ? num_allowed_ : 1; }

// The first bytes that no connection has taken. Nothing if they are not wanted yet, or lie so far
// behind a gap that a kill would lose much: only what lies before the gap can be continued.
std::optional<ByteRange> Fetch::next_part() {
  const ByteRange part{next_begin_, next_begin_ + std::min(part_bytes(), end_ - next_begin_)};
  const int64_t far_bytes = 2 * options_.num_connections * part_bytes();
  if (part.begin >= part.end || part.end > sink_.window_end() ||
      part.end - first_missing() > far_bytes) {
    return std::nullopt;
  }
  next_begin_ = part.end;
  return part;
}

// Until the next pause ends; at most a fifth of a second, which is how often on_tick() is called.
int Fetch::wait_ms() const {
  Clock::duration wait = std::chrono::milliseconds(200);
  for (const auto& connection : connections_) {
    if (connection->is_running || !connection->part) continue;
    const auto pause = std::max(connection->retry_at, hold_until_) - Clock::now();
    if (pause.count() > 0) wait = std::min(wait, pause);
  }
  return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(wait).count());
}

void Fetch::start_connections() {
  int num_busy = 0, num_running = 0;
  for (const auto& connection : connections_) {
    num_busy += connection->part ? 1 : 0;
    num_running += connection->is_running ? 1 : 0;
  }
  const auto now = Clock::now();
  for (const auto& connection : connections_) {
    if (num_running >= num_connections()) return;
    if (connection->is_running || now < std::max(connection->retry_at, hold_until_)) continue;
    // A part that has begun must never wait for the reader, which may wait for an earlier one.
    if (!connection->part && num_busy < num_connections()) {
      connection->part = next_part();
      num_busy += connection->part ? 1 : 0;
    }
    if (!connection->part) continue;
    start(*connection);
    ++num_running;
  }
}

void Fetch::start(Connection& connection) {
  try {
    if (is_whole_only_) {
      connection.prepare(std::nullopt, "");
    } else {
      connection.prepare(connection.part, identity_.validator());
    }
  } catch (const HttpFailure& failure) {  // while the file asked for an address or credentials
    return retry_later(connection, failure);
  }
  connection.begin = connection.part->begin;
  connection.is_whole_file = false;
  connection.is_cancelled = false;
  connection.is_running = true;
  check_multi(curl_multi_add_handle(multi_.get(), connection.handle()));
}

void Fetch::stop(Connection& connection) {
  if (!connection.is_running) return;
  curl_multi_remove_handle(multi_.get(), connection.handle());
  connection.is_running = false;
}

// True if a request has ended.
bool Fetch::take_results() {
  bool has_ended = false;
  int num_left = 0;
  while (const CURLMsg* message = curl_multi_info_read(multi_.get(), &num_left)) {
    if (message->msg != CURLMSG_DONE) continue;
    const CURL* handle = message->easy_handle;
    const CURLcode result = message->data.result;  // the message goes with the handle
    const auto connection =
        std::find_if(connections_.begin(), connections_.end(),
                     [&](const auto& candidate) { return candidate->handle() == handle; });
    stop(**connection);
    end(**connection, result);
    has_ended = true;
  }
  for (const auto& connection : connections_) {
    if (connection->is_cancelled) stop(*connection);
  }
  return has_ended;
}

void Fetch::resume_paused() {
  for (const auto& connection : connections_) {
    if (!connection->is_running || !connection->is_paused()) continue;
    if (connection->resume()) continue;
    stop(*connection);
    end(*connection, CURLE_WRITE_ERROR);
  }
}

void Fetch::end(Connection& connection, CURLcode result) {
  if (connection.is_cancelled) return;
  try {
    try {
      connection.finish(result);
      // A body without a length ends where the file does.
      if (connection.is_whole_file && identity_.size_bytes < 0) set_size(connection.position);
    } catch (const HttpFailure&) {
      // Where all that was asked for has come, what the server wanted to add does not matter.
      if (!connection.is_done()) throw;
    }
    if (connection.is_done()) {
      connection.part.reset();
      connection.num_fruitless = 0;
      allow_more();
    } else if (connection.part->begin <= connection.begin) {
      throw HttpFailure{"the server sent nothing of what is missing", true};
    }
    // Else the server sent less than asked for: the rest is asked for at once.
  } catch (const AskDifferently&) {
    // The next request of this connection is another one.
  } catch (const HttpFailure& failure) {
    retry_later(connection, failure);
  }
}

void Fetch::retry_later(Connection& connection, const HttpFailure& failure) {
  if (failure.asks_anew && ++connection.num_asked_anew <= kMaxAskedAnew) return;
  ++num_failures_;
  const bool is_further = num_received_ > connection.num_received_before && !failure.is_too_slow;
  connection.num_received_before = num_received_;
  connection.num_fruitless = is_further ? 0 : connection.num_fruitless + 1;
  // A host that was never found is a wrong name or a machine without a network: said at once.
  const bool may_pass = failure.may_pass && (is_known_ || !failure.is_unknown_host);
  if (!may_pass || connection.num_fruitless >= options_.num_attempts) {
    throw NetworkError(fmt::format("{}: {} (after {} attempt{})", file_.name(), failure.why,
                                   num_failures_, num_failures_ == 1 ? "" : "s"));
  }
  if (identity_.validator().empty() && num_received_ > 0) throw CannotContinue{failure.why};
  // The first pause is the one that was given, the next twice as long; half of it is random, so
  // that many runs do not come back at once.
  const double doubled =
      options_.first_backoff_s * (1 << std::clamp(connection.num_fruitless - 1, 0, 16));
  const double pause =
      std::min(doubled, kMaxBackoffSeconds) * std::uniform_real_distribution<>(0.5, 1)(random_);
  const double asked = std::min(static_cast<double>(failure.retry_after_s), kMaxRetryAfterSeconds);
  connection.retry_at = Clock::now() + duration_of(std::max(pause, asked));
  if (failure.is_overload) hold_back(asked);
}

// The server wants less: half as many connections, and none before it said.
void Fetch::hold_back(double seconds) {
  const auto now = Clock::now();
  // Those that run at the same time are refused together: that counts once.
  if (now >= hold_until_) num_allowed_ = std::max(1, num_allowed_ / 2);
  hold_until_ = std::max(hold_until_, now + duration_of(seconds));
  num_parts_since_overload_ = 0;
}

// They come back one by one.
void Fetch::allow_more() {
  if (num_allowed_ == options_.num_connections || ++num_parts_since_overload_ < 2 * num_allowed_)
    return;
  ++num_allowed_;
  num_parts_since_overload_ = 0;
}

}  // namespace weft
