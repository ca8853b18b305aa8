#include "preprocess/ledger/ledger_server.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "indexed_dataset/process/exit_code.h"
#include "preprocess/datasets/json_integer.h"
#include "preprocess/ledger/ledger_messages.h"

namespace weft {
namespace {

using std::chrono::milliseconds;

// A killed process's connection breaks at once; one that only lost its connection is back by then.
constexpr milliseconds kReconnectTime{10'000};
// Between looks at the clock.
constexpr milliseconds kMaxWait{250};
// When this process itself stood still for so long (stopped, a journal on a hanging file system),
// the others could not be heard: it does not count as their silence.
constexpr milliseconds kStall{2'000};
// A hello's texts come from another process and go to a log.
constexpr size_t kMaxShownBytes = 200;

constexpr int kPeerLost = static_cast<int>(ExitCode::kPeerLost);
constexpr int kConfigurationDiffers = static_cast<int>(ExitCode::kConfigurationDiffers);

std::string printable(std::string text) {
  if (text.size() > kMaxShownBytes) text.resize(kMaxShownBytes);
  for (char& c : text) {
    if (c < 0x20 || c > 0x7E) c = '?';
  }
  return text;
}

struct Hello {
  int rank = -1, num_ranks = 0;
  std::string incarnation, host, configuration;
  int64_t process = 0;
};

Hello parsed_hello(const std::string& payload) {
  const nlohmann::json json = nlohmann::json::parse(payload);
  Hello hello;
  hello.rank = json_integer<int>(json.at("rank"));
  hello.num_ranks = json_integer<int>(json.at("num_ranks"));
  hello.incarnation = json.at("incarnation").get<std::string>();
  hello.host = printable(json.at("host").get<std::string>());
  hello.process = json_integer(json.at("process"));
  hello.configuration = printable(json.at("configuration").get<std::string>());
  return hello;
}

std::string seconds(milliseconds time) { return std::to_string(time.count() / 1000) + " s"; }

}  // namespace

LedgerServer::LedgerServer(LedgerServerOptions options)
    : options_(std::move(options)),
      ranks_(static_cast<size_t>(std::max(options_.num_ranks, 1))),
      server_(options_.address, options_.secret,
              {[this](auto peer, std::string payload) { on_hello(peer, payload); },
               [this](auto peer, std::string message) { on_message(peer, message); },
               [this](auto peer) { on_gone(peer); }},
              options_.clock),
      thread_([this] { serve(); }) {}

LedgerServer::~LedgerServer() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  server_.wake();
  thread_.join();
}

void LedgerServer::serve() {
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (stop_) return;
    }
    const auto before = std::chrono::steady_clock::now();
    try {
      server_.poll_once(std::min(kMaxWait, options_.peer_timeout / 4));
    } catch (const std::exception& error) {
      give_up_all(error);
      return;
    }
    const auto passed = std::chrono::steady_clock::now() - before;
    if (passed > kStall) {
      const std::lock_guard lock(mutex_);
      for (Rank& rank : ranks_) rank.last_heard += passed, rank.broken_since += passed;
    }
    lose_silent_ranks();
  }
}

int LedgerServer::rank_of(MessageServer::PeerId peer) const {
  for (size_t i = 0; i < ranks_.size(); ++i) {
    if (ranks_[i].peer == peer && ranks_[i].state == Rank::State::kConnected) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

void LedgerServer::refuse(MessageServer::PeerId peer, int exit_code, const std::string& why) {
  options_.note("refused: " + why);
  const nlohmann::json answer = {{"exit_code", exit_code}, {"message", why}};
  server_.send(peer, answer.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
  server_.close_peer(peer);
}

void LedgerServer::on_hello(MessageServer::PeerId peer, const std::string& payload) {
  Hello hello;
  try {
    hello = parsed_hello(payload);
  } catch (const std::exception&) {
    return refuse(peer, kConfigurationDiffers,
                  "a rank whose hello cannot be read; start all ranks from one weft-data");
  }
  const std::string who = "rank " + std::to_string(hello.rank) + " (" + hello.host + ", process " +
                          std::to_string(hello.process) + ")";
  const std::lock_guard lock(mutex_);
  if (hello.num_ranks != std::ssize(ranks_) || hello.rank < 1 || hello.rank >= std::ssize(ranks_)) {
    return refuse(peer, kConfigurationDiffers,
                  who + " says it is one of " + std::to_string(hello.num_ranks) +
                      " ranks, rank 0 knows of " + std::to_string(ranks_.size()) +
                      "; start all ranks with one srun or mpirun");
  }
  if (hello.configuration != options_.configuration) {
    return refuse(
        peer, kConfigurationDiffers,
        who + " was started with other options, inputs or another version: its configuration is " +
            hello.configuration + ", that of rank 0 " + options_.configuration);
  }
  Rank& rank = ranks_[static_cast<size_t>(hello.rank)];
  if (rank.state == Rank::State::kLost || rank.state == Rank::State::kLeft) {
    return refuse(peer, kPeerLost,
                  who +
                      " was silent for too long and was given up, its work went to others; run the "
                      "same command again if the run does not end by itself");
  }
  if (rank.state != Rank::State::kAwaited && rank.incarnation != hello.incarnation) {
    return refuse(peer, kPeerLost,
                  who + " comes a second time: " + rank.where + " is in this run already");
  }
  rank.incarnation = hello.incarnation;
  rank.where = who;
  const MessageServer::PeerId old = rank.state == Rank::State::kConnected ? rank.peer : 0;
  const bool is_new = rank.state == Rank::State::kAwaited;
  rank.state = Rank::State::kConnected;
  rank.peer = peer;
  rank.last_heard = options_.clock();
  if (old != 0) server_.close_peer(old);
  options_.note(who + (is_new ? " joined" : " is back"));
  server_.send(peer, nlohmann::json{{"exit_code", 0}}.dump());
}

void LedgerServer::on_message(MessageServer::PeerId peer, const std::string& message) {
  std::unique_lock lock(mutex_);
  const int rank_idx = rank_of(peer);
  if (rank_idx < 0 || message.empty()) return server_.close_peer(peer);
  Rank& rank = ranks_[static_cast<size_t>(rank_idx)];
  rank.last_heard = options_.clock();
  if (message[0] == kHeartbeatMessage) return;
  if (message[0] == kLeaveMessage) {
    rank.state = Rank::State::kLeft;
    rank.last_reply.clear();
    server_.close_peer(peer);
    lock.unlock();
    options_.rank_lost(rank_idx);  // of what it may still hold, after a failure
    return changed_.notify_all();
  }
  lock.unlock();
  // Only this thread writes to ranks_: `rank` stays what it is.
  try {
    if (message[0] != kRequestMessage) throw ConnectionLost("a message of an unknown kind");
    const LedgerRequest request = ledger_request_from(std::string_view(message).substr(1));
    server_.send(peer, reply_to(rank_idx, rank, request));
  } catch (const ConnectionLost& error) {
    lose(rank_idx, rank, error.what());
  } catch (const std::invalid_argument& error) {
    lose(rank_idx, rank, error.what());
  }
}

std::string LedgerServer::reply_to(int rank_idx, Rank& rank, const LedgerRequest& request) {
  // The reply to the last request may have been lost with the connection.
  if (request.number == rank.last_number && !rank.last_reply.empty()) return rank.last_reply;
  if (request.number <= rank.last_number) {
    throw std::invalid_argument("request " + std::to_string(request.number) + " after request " +
                                std::to_string(rank.last_number));
  }
  LedgerReply reply;
  reply.failure = failure();
  if (!reply.failure) {
    try {
      reply = options_.answer(rank_idx, request);
    } catch (const std::invalid_argument&) {
      throw;
    } catch (const std::exception& error) {
      reply = {};
      reply.failure = RunFailure{static_cast<int>(exit_code_for(error)), error.what(), {}};
      const std::lock_guard lock(mutex_);
      failure_ = reply.failure;
    }
  }
  rank.last_number = request.number;
  rank.last_reply = kReplyMessage + to_message(reply);
  return rank.last_reply;
}

void LedgerServer::on_gone(MessageServer::PeerId peer) {
  const std::lock_guard lock(mutex_);
  const int rank_idx = rank_of(peer);
  if (rank_idx < 0) return;
  Rank& rank = ranks_[static_cast<size_t>(rank_idx)];
  rank.state = Rank::State::kBroken;
  rank.broken_since = options_.clock();
}

void LedgerServer::lose(int rank_idx, Rank& rank, const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    if (rank.state == Rank::State::kConnected) server_.close_peer(rank.peer);
    rank.state = Rank::State::kLost;
    rank.last_reply.clear();
  }
  options_.rank_lost(rank_idx);
  options_.note(rank.where + " is lost (" + why + "); its work goes to the other ranks");
  changed_.notify_all();
}

void LedgerServer::lose_silent_ranks() {
  const auto now = options_.clock();
  const milliseconds reconnect_time = std::min(kReconnectTime, options_.peer_timeout);
  for (size_t i = 0; i < ranks_.size(); ++i) {
    Rank& rank = ranks_[i];
    if (rank.state == Rank::State::kConnected && now - rank.last_heard > options_.peer_timeout) {
      lose(static_cast<int>(i), rank, "silent for " + seconds(options_.peer_timeout));
    } else if (rank.state == Rank::State::kBroken && now - rank.broken_since > reconnect_time) {
      lose(static_cast<int>(i), rank, "its connection broke " + seconds(reconnect_time) + " ago");
    }
  }
}

// Nobody will be heard any more: what ranks hold must not be waited for.
void LedgerServer::give_up_all(const std::exception& error) {
  {
    const std::lock_guard lock(mutex_);
    failure_ = RunFailure{static_cast<int>(exit_code_for(error)), error.what(), {}};
  }
  for (size_t i = 1; i < ranks_.size(); ++i) {
    const Rank::State state = ranks_[i].state;
    if (state == Rank::State::kLost || state == Rank::State::kLeft) continue;
    lose(static_cast<int>(i), ranks_[i], std::string("rank 0 cannot hear it: ") + error.what());
  }
}

std::vector<int> LedgerServer::ranks_in(Rank::State state) const {
  const std::lock_guard lock(mutex_);
  std::vector<int> found;
  for (size_t i = 1; i < ranks_.size(); ++i) {
    if (ranks_[i].state == state) found.push_back(static_cast<int>(i));
  }
  return found;
}

std::vector<int> LedgerServer::ranks_that_never_came() const {
  return ranks_in(Rank::State::kAwaited);
}
std::vector<int> LedgerServer::lost_ranks() const { return ranks_in(Rank::State::kLost); }

bool LedgerServer::wait_until_all_left(Deadline deadline) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, deadline, [this] {
    return std::all_of(ranks_.begin() + 1, ranks_.end(), [](const Rank& rank) {
      return rank.state == Rank::State::kLeft || rank.state == Rank::State::kLost;
    });
  });
}

std::optional<RunFailure> LedgerServer::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

}  // namespace weft
