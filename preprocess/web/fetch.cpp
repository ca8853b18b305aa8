#include "preprocess/web/fetch.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "indexed_dataset/process/exit_code.h"
#include "preprocess/web/fetch_state.h"

namespace weft {
namespace {

constexpr int64_t kMinPartBytes = int64_t{4} << 20, kMaxPartBytes = int64_t{64} << 20;
constexpr double kMaxBackoffSeconds = 60, kMaxRetryAfterSeconds = 600;

// libcurl keeps connections with its "multi" handle. Hundreds of files of one server should not need
// a new one each time (three round trips with TLS), so handles are used again.
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

FetchClock::duration duration_of(double seconds) {
  return std::chrono::duration_cast<FetchClock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

void Fetch::State::PutBack::operator()(CURLM* multi) const { idle_multis().put(multi); }

Fetch::State::State(std::string url, const FetchOptions& options, UrlIdentity& identity,
                    FetchPlan& plan, FetchSink& sink)
    : url_(std::move(url)),
      options_(options),
      identity_(identity),
      plan_(plan),
      sink_(sink),
      multi_(idle_multis().take()),
      num_allowed_(options.num_connections) {
  for (int i = 0; i < options.num_connections; ++i)
    connections_.push_back(std::make_unique<Connection>(*this, options.http));
}

Fetch::State::~State() {
  for (const auto& connection : connections_) stop(*connection);
}

void Fetch::State::run() {
  while (!plan_.is_complete()) {
    start_connections();
    int num_running = 0;
    curl_multi_perform(multi_.get(), &num_running);
    resume_paused();
    sink_.on_tick();
    // An ended request makes room for the next at once.
    if (!take_results()) curl_multi_poll(multi_.get(), nullptr, 0, wait_ms(), nullptr);
  }
  // What a server adds to what was asked for is not waited for.
  for (const auto& connection : connections_) {
    stop(*connection);
    connection->part = kNoPart;
  }
}

int64_t Fetch::State::part_bytes() const {
  if (is_single_) return FetchPlan::kEndless;
  if (options_.part_bytes > 0) return options_.part_bytes;
  return std::clamp(identity_.size_bytes / (4 * options_.num_connections), kMinPartBytes,
                    kMaxPartBytes);
}

// The first answer tells whether there can be several.
int Fetch::State::num_connections() const { return is_known_ && !is_single_ ? num_allowed_ : 1; }

// Until the next pause ends; at most a fifth of a second, which is how often on_tick() is called.
int Fetch::State::wait_ms() const {
  FetchClock::duration wait = std::chrono::milliseconds(200);
  for (const auto& connection : connections_) {
    if (connection->is_running || connection->part == kNoPart) continue;
    wait = std::min(wait, std::max(connection->retry_at, hold_until_) - FetchClock::now());
  }
  const int64_t count = std::chrono::ceil<std::chrono::milliseconds>(wait).count();
  return static_cast<int>(std::max<int64_t>(0, count));
}

void Fetch::State::start_connections() {
  int num_busy = 0;
  for (const auto& connection : connections_) num_busy += connection->part != kNoPart;
  const auto now = FetchClock::now();
  for (const auto& connection : connections_) {
    if (connection->is_running || now < std::max(connection->retry_at, hold_until_)) continue;
    if (connection->part == kNoPart) {
      if (num_busy >= num_connections()) continue;
      // A part that has begun must never wait for the reader, who may wait for an earlier one.
      const auto part =
          plan_.take(part_bytes(), is_single_ ? FetchPlan::kEndless : sink_.window_end());
      if (!part) continue;
      connection->part = *part;
      ++num_busy;
    } else if (num_busy > num_connections()) {
      plan_.give_back(connection->part);
      connection->part = kNoPart;
      --num_busy;
      continue;
    }
    start(*connection);
  }
}

void Fetch::State::start(Connection& connection) {
  const ByteRange missing = plan_.missing_of(connection.part);
  if (is_whole_only_) {
    connection.request.prepare(url_, std::nullopt, "");
  } else {
    connection.request.prepare(url_, missing, identity_.validator());
  }
  connection.begin = missing.begin;
  connection.is_cancelled = false;
  connection.is_running = true;
  curl_multi_add_handle(multi_.get(), connection.request.handle());
}

void Fetch::State::stop(Connection& connection) {
  if (!connection.is_running) return;
  curl_multi_remove_handle(multi_.get(), connection.request.handle());
  connection.is_running = false;
}

// True if a request has ended.
bool Fetch::State::take_results() {
  bool has_ended = false;
  int num_left = 0;
  while (const CURLMsg* message = curl_multi_info_read(multi_.get(), &num_left)) {
    if (message->msg != CURLMSG_DONE) continue;
    const CURL* handle = message->easy_handle;
    const CURLcode result = message->data.result;  // the message goes with the handle
    const auto connection =
        std::find_if(connections_.begin(), connections_.end(),
                     [&](const auto& candidate) { return candidate->request.handle() == handle; });
    stop(**connection);
    end(**connection, result);
    has_ended = true;
  }
  for (const auto& connection : connections_) {
    if (connection->is_cancelled) stop(*connection);
  }
  return has_ended;
}

void Fetch::State::resume_paused() {
  for (const auto& connection : connections_) {
    if (!connection->is_running || !connection->request.is_paused()) continue;
    if (connection->request.resume()) continue;
    stop(*connection);
    end(*connection, CURLE_WRITE_ERROR);
  }
}

bool Fetch::State::is_done(const Connection& connection) const {
  const ByteRange missing = plan_.missing_of(connection.part);
  return missing.begin >= missing.end;
}

void Fetch::State::end(Connection& connection, CURLcode result) {
  if (connection.is_cancelled) return;
  try {
    try {
      connection.request.finish(result);
    } catch (const HttpFailure&) {
      // Where all that was asked for has come, what the server wanted to add does not matter.
      if (!is_done(connection)) throw;
    }
    const ByteRange missing = plan_.missing_of(connection.part);
    // A body without a length ends where the file does.
    if (missing.end == FetchPlan::kEndless && identity_.size_bytes < 0) set_size(missing.begin);
    if (is_done(connection)) {
      plan_.give_back(connection.part);
      connection.part = kNoPart;
      connection.num_fruitless = 0;
      allow_more();
    } else if (missing.begin <= connection.begin) {
      throw HttpFailure{"the server sent nothing of what is missing", true};
    }
    // Else the server sent less than asked for: the rest is asked for at once.
  } catch (const AskDifferently&) {
    // The next request of this connection is another one.
  } catch (const HttpFailure& failure) {
    retry_later(connection, failure);
  }
}

void Fetch::State::retry_later(Connection& connection, const HttpFailure& failure) {
  ++num_failures_;
  const bool is_further = num_received_ > connection.num_received_before && !failure.is_too_slow;
  connection.num_received_before = num_received_;
  connection.num_fruitless = is_further ? 0 : connection.num_fruitless + 1;
  // A host that was never found is a wrong name or a machine without a network: said at once.
  const bool may_pass = failure.may_pass && (is_known_ || !failure.is_unknown_host);
  if (!may_pass || connection.num_fruitless >= options_.num_attempts) {
    throw NetworkError(fmt::format("{}: {} (after {} attempt{})", display_url(url_), failure.why,
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
  connection.retry_at = FetchClock::now() + duration_of(std::max(pause, asked));
  if (failure.is_overload) hold_back(asked);
}

// The server wants less: half as many connections, and none before it said.
void Fetch::State::hold_back(double seconds) {
  const auto now = FetchClock::now();
  // Those that run at the same time are refused together: that counts once.
  if (now >= hold_until_) num_allowed_ = std::max(1, num_allowed_ / 2);
  hold_until_ = std::max(hold_until_, now + duration_of(seconds));
  num_parts_since_overload_ = 0;
}

// They come back one by one.
void Fetch::State::allow_more() {
  if (num_allowed_ == options_.num_connections || ++num_parts_since_overload_ < 2 * num_allowed_)
    return;
  ++num_allowed_;
  num_parts_since_overload_ = 0;
}

Fetch::Fetch(std::string url, const FetchOptions& options, UrlIdentity& identity, FetchPlan& plan,
             FetchSink& sink)
    : state_(std::make_unique<State>(std::move(url), options, identity, plan, sink)) {}
Fetch::~Fetch() = default;
void Fetch::run() { state_->run(); }
void Fetch::wake() { state_->wake(); }

}  // namespace weft
