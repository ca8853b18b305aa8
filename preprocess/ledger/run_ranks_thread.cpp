// The thread of RunRanks: it sends and receives, answers for the ledger, and notices silent ranks.
#include <algorithm>
#include <exception>
#include <stdexcept>
#include <utility>

#include "indexed_dataset/base/process/exit_code.h"
#include "preprocess/ledger/ledger_messages.h"
#include "preprocess/ledger/run_ranks.h"

namespace weft {
namespace {

using std::chrono::milliseconds;

// MPI has no way to wait for a message or for something to send: the thread looks this often. A
// request takes two of these at most, and comes ten times a second.
constexpr std::chrono::microseconds kIdlePause{500};
// A process that did not run for so long was suspended, or its machine was.
constexpr milliseconds kLongestRound{1'000};

constexpr char kHowToGoOn[] = "; run the same command again to go on, what was done is kept";

std::string seconds(milliseconds time) { return std::to_string(time.count() / 1000) + " s"; }

}  // namespace

void RunRanks::talk() {
  Lock lock(mutex_);
  try {
    while (!is_closing_ || !outbox_.empty() || !transport_->is_all_sent()) {
      const auto now = Clock::now();
      forgive_own_pause(now);
      bool is_idle = outbox_.empty();
      for (; !outbox_.empty(); outbox_.pop_front()) {
        RankMessage& message = outbox_.front();
        transport_->send(message.rank, message.tag, std::move(message.bytes));
      }
      for (; auto message = transport_->receive(); is_idle = false) handle(*message);
      say_alive(now);
      if (!is_closing_) check_silence(now);
      // A thread that waits for the mutex is let through.
      to_send_.wait_for(lock, is_idle ? kIdlePause : std::chrono::microseconds(1));
    }
  } catch (const std::logic_error& error) {
    abort(static_cast<int>(ExitCode::kInternalError), error.what());
  } catch (const std::exception& error) {
    abort(static_cast<int>(ExitCode::kPeerLost), error.what() + std::string(kHowToGoOn));
  }
}

void RunRanks::forgive_own_pause(Clock::time_point now) {
  const auto pause = now - std::exchange(last_round_, now);
  if (pause < kLongestRound) return;
  for (Peer& peer : peers_) peer.last_heard += pause;
  if (abort_at_) *abort_at_ += pause;
}

void RunRanks::handle(RankMessage& message) {
  Peer& peer = peers_.at(rank_ == 0 ? static_cast<size_t>(message.rank) : 0);
  peer.last_heard = Clock::now();
  switch (message.tag) {
    case kIdentity:
      peer.identity = std::move(message.bytes);
      break;
    case kWork:
      work_ = std::move(message.bytes);
      break;
    case kListing:
      listings_.push_back(std::move(message.bytes));
      break;
    case kRequest:
      send(message.rank, kReply, answer(message.rank, message.bytes));
      break;
    case kReply:
      reply_ = std::move(message.bytes);
      break;
    case kLeave: {
      peer.has_left = true;
      RunFailure failure = run_failure_from(message.bytes);
      if (failure.exit_code == 0) break;
      failure.message = name_of(message.rank) + ": " + failure.message;
      failure.rank = message.rank;
      record_failure(std::move(failure));
      break;
    }
    case kEnd:
      end_ = run_failure_from(message.bytes);
      break;
    case kAlive:
      if (rank_ == 0) send(message.rank, kAlive);
      return;
    default:
      throw std::domain_error("message " + std::to_string(message.tag) + " of " +
                              name_of(message.rank) + " is none of this program");
  }
  news_.notify_all();
}

std::string RunRanks::answer(int rank, const std::string& message) {
  LedgerRequest request = ledger_request_from(message);
  if (!ledger_) throw std::domain_error(name_of(rank) + " asks before there is work");
  if (request.leaving) request.leaving->message = name_of(rank) + ": " + request.leaving->message;
  return to_message(ledger_->answer(rank, request));
}

void RunRanks::say_alive(Clock::time_point now) {
  if (rank_ == 0) return;  // it answers
  const auto interval = std::min<milliseconds>(options_.peer_timeout / 8, milliseconds(5'000));
  if (now - peers_[0].last_told >= interval) send(0, kAlive);
}

void RunRanks::check_silence(Clock::time_point now) {
  const std::string silent = " was silent for " + seconds(options_.peer_timeout);
  if (rank_ != 0) {
    if (now - peers_[0].last_heard <= options_.peer_timeout) return;
    abort(static_cast<int>(ExitCode::kPeerLost), name_of(0) + silent + kHowToGoOn);
  }
  for (int rank = 1; rank < num_ranks_; ++rank) {
    Peer& peer = peers_[static_cast<size_t>(rank)];
    if (peer.is_lost || now - peer.last_heard <= options_.peer_timeout) continue;
    peer.is_lost = true;
    const std::string loss = name_of(rank) + silent + kHowToGoOn;
    if (!loss_) loss_ = loss;
    // One whose work has ended is missed only at the end.
    if (!peer.has_left) record_failure({static_cast<int>(ExitCode::kPeerLost), loss, {}});
    news_.notify_all();
  }
  if (!abort_at_ || now < *abort_at_) return;
  std::string missing;
  for (int rank = 1; rank < num_ranks_; ++rank) {
    const Peer& peer = peers_[static_cast<size_t>(rank)];
    if (!peer.has_left && !peer.is_lost) missing += (missing.empty() ? "" : ", ") + name_of(rank);
  }
  abort(failure_->exit_code, failure_->message + "\n  " + (missing.empty() ? name_of(0) : missing) +
                                 " did not end within " + seconds(options_.peer_timeout) +
                                 " of that");
}

}  // namespace weft
