// The thread of a TransportGroup, and the end of all ranks.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/process/stop_signal.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "trainer/ranks/failure_file.h"
#include "trainer/ranks/transport_group.h"

namespace weft {
namespace {

using std::chrono::milliseconds;

// How often the thread looks at processes, messages and clocks. The main thread looks by itself
// while it waits.
constexpr milliseconds kWatchInterval{50};
// A rank tells that it is alive at least so often; a thread does it, whatever else the rank does.
constexpr milliseconds kAliveInterval{1'000};
// A process whose thread is silent for so long is stopped or lost, however long collectives may
// take.
constexpr milliseconds kLongestSilence{60'000};
// A process whose connection has closed is gone after this silence: it would have said that it is
// alive, whatever has closed the connection.
constexpr milliseconds kSilenceOfClosed{2'000};
// Slurm sends SIGTERM to the processes that a lost node leaves, and kills them 30 s later
// (KillWait).
// A rank that is silent for so long then would keep the others from saving.
constexpr milliseconds kSilenceAfterSigterm{5'000};
// A process that did not run for so long was suspended, or its machine was.
constexpr milliseconds kLongestRound{1'000};
// The end of a process is seen at once. The reason, if it had one to tell, arrives within this
// time, which must be shorter than the second that mpirun leaves to the other processes.
constexpr milliseconds kGrace{300};
// A rank that has reported to another one ends the run by itself if it still lives after this time.
constexpr milliseconds kPatience{5'000};

int code(ExitCode exit_code) { return static_cast<int>(exit_code); }

std::string seconds(milliseconds time) {
  return fmt::format("{:g} s", static_cast<double>(time.count()) / 1e3);
}

milliseconds since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - start);
}

}  // namespace

void TransportGroup::watch() {
  while (true) {
    const std::vector<int> ended = processes_.wait_for_ends(kWatchInterval);
    const std::vector<int> closed = connections_.closed();
    Lock lock(mutex_);
    for (const int rank : ended) peers_[static_cast<size_t>(rank)].is_gone = true;
    for (const int rank : closed) peers_[static_cast<size_t>(rank)].is_closed = true;
    if (is_ending_) return;
    try {
      const auto now = Clock::now();
      forgive_own_pause(now);
      pump();
      say_alive(now);
      if (failed_ || end_) report(lock, {});
      check_processes(lock, now);
      check_silence(lock, now);
      check_waiting(lock);
    } catch (const std::exception& error) {
      report(lock, {code(ExitCode::kPeerLost), name_of(rank_) + ": " + error.what()});
    }
  }
}

void TransportGroup::say_alive(Clock::time_point now) {
  if (rank_ == 0) return;  // it answers
  const auto interval = std::min(options_.timeout / 8, kAliveInterval);
  if (now - peers_[0].last_told >= interval) send(0, kAlive, to_text(progress_of(recorder_)));
}

void TransportGroup::forgive_own_pause(Clock::time_point now) {
  const auto pause = now - std::exchange(last_watched_, now);
  if (pause < kLongestRound) return;
  for (Peer& peer : peers_) peer.last_heard += pause;
  recorder_.forgive(pause);
}

void TransportGroup::check_processes(Lock& lock, Clock::time_point now) {
  const auto gone =
      std::find_if(peers_.begin(), peers_.end(), [](const Peer& peer) { return peer.is_gone; });
  if (gone == peers_.end()) return;
  if (!gone_at_) gone_at_ = now;
  if (now - *gone_at_ < kGrace) return;
  report(lock, {code(ExitCode::kPeerLost),
                name_of(static_cast<int>(gone - peers_.begin())) +
                    ": its process has ended without a word; it was killed (see the kernel's log "
                    "for the out-of-memory killer) or has crashed"});
}

void TransportGroup::check_silence(Lock& lock, Clock::time_point now) {
  const auto limit =
      std::min(options_.timeout, stop_signal() == SIGTERM ? kSilenceAfterSigterm : kLongestSilence);
  for (int rank = 0; rank < (rank_ == 0 ? size_ : 1); ++rank) {
    Peer& peer = peers_[static_cast<size_t>(rank)];
    const auto silence = now - peer.last_heard;
    if (rank == rank_ || silence <= (peer.is_closed ? std::min(limit, kSilenceOfClosed) : limit))
      continue;
    peer.is_gone = true;
    if (peer.is_closed) return;  // check_processes() reports it
    report(lock, {code(ExitCode::kHang), name_of(rank) + " was silent for " + seconds(limit) +
                                             ": its process is stopped, or its machine or the "
                                             "network to it is lost"});
  }
}

void TransportGroup::check_waiting(Lock& lock) {
  if (rank_ != 0) return;
  peers_[0].progress = progress_of(recorder_);
  std::vector<RankProgress> ranks;
  std::vector<std::string> names;
  for (int rank = 0; rank < size_; ++rank) {
    ranks.push_back(peers_[static_cast<size_t>(rank)].progress);
    names.push_back(name_of(rank));
  }
  const std::string message = hang_message(ranks, names, options_.timeout);
  if (!message.empty()) report(lock, {code(ExitCode::kHang), message});
}

// --- the end of all ---

// Rank 0 reports while it lives; else the first rank that this one does not know to be gone.
bool TransportGroup::is_reporter() const {
  for (int rank = 0; rank < rank_; ++rank) {
    if (!peers_[static_cast<size_t>(rank)].is_gone) return false;
  }
  return true;
}

void TransportGroup::report(Lock& lock, const Failure& failure) {
  // The first to tell a failure has named its cause; later ones follow from it.
  const Failure first = end_ ? *end_ : failed_ ? *failed_ : failure;
  if (!end_ && is_reporter()) conclude(lock, first);
  if (!end_ && !peers_[0].is_gone) {
    send(0, kFailed,
         nlohmann::json{first.exit_code, first.message}.dump(
             -1, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  const auto start = Clock::now();
  bool has_written = false;
  while (since(start) < kPatience) {
    pump();
    if (end_ && !std::exchange(has_written, true) && end_->exit_code == code(ExitCode::kHang)) {
      write_operations();
    }
    std::this_thread::sleep_for(milliseconds(1));
  }
  if (end_) end_process(lock, end_->exit_code);
  conclude(lock, first);
}

void TransportGroup::conclude(Lock& lock, const Failure& failure) {
  options_.print_error(failure.message);
  write_failure(failure);
  const bool hangs = failure.exit_code == code(ExitCode::kHang);
  if (hangs) write_operations();
  const std::string text = nlohmann::json{failure.exit_code, failure.message}.dump(
      -1, ' ', false, nlohmann::json::error_handler_t::replace);
  for (int rank = 0; rank < size_; ++rank) {
    // MPI would try to connect to a process that is gone, and complain.
    if (rank != rank_ && !peers_[static_cast<size_t>(rank)].is_gone)
      transport_->send(rank, kEnd, text);
  }
  const auto start = Clock::now();
  const milliseconds patience(hangs ? 500 : 200);  // after a hang the others write operations
  while (since(start) < patience) {
    if (transport_->is_all_sent() && !hangs) break;
    std::this_thread::sleep_for(milliseconds(1));
  }
  end_process(lock, failure.exit_code);
}

void TransportGroup::end_process(Lock& /*lock*/, int exit_code) {
  transport_->abort(exit_code);
  std::terminate();  // it does not return
}

void TransportGroup::write_failure(const Failure& failure) const {
  // A rank that is cut off from rank 0 sees the others lost, after rank 0 has told the cause.
  std::error_code ignored;
  if (rank_ != 0 && std::filesystem::exists(failure_folder_ / "failure.json", ignored)) return;
  std::vector<RankAtFailure> ranks;
  for (int rank = 0; rank < size_; ++rank) {
    const Peer& peer = peers_[static_cast<size_t>(rank)];
    ranks.push_back({transport_->place_of(rank), peer.is_gone,
                     rank == rank_ ? progress_of(recorder_) : peer.progress});
  }
  write_failure_file(failure_folder_, failure.exit_code, failure.message, ranks);
}

void TransportGroup::write_operations() const {
  if (failure_folder_.empty()) return;
  try {
    write_file_atomically(failure_folder_ / fmt::format("operations.rank_{:05d}.txt", rank_),
                          recorder_.to_text());
  } catch (const std::exception&) {
  }
}

}  // namespace weft
