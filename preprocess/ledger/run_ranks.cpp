#include "preprocess/ledger/run_ranks.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/ranks/launcher.h"
#include "preprocess/ledger/ledger_messages.h"

namespace weft {
namespace {

using std::chrono::milliseconds;

// How late a request to stop may be noticed.
constexpr milliseconds kPatience{50};

}  // namespace

std::unique_ptr<RunRanks> RunRanks::join(RunRanksOptions options) {
  const Launch launch = find_launch();
  if (launch.num_processes == 1) return nullptr;
  if (!launch.has_mpi) {
    throw UsageError(
        "srun has started several tasks that do not know each other (" + launch.source +
        ", and no PMIX_RANK); start them with srun --mpi=pmix, or give --ranks off for a process "
        "of its own each");
  }
  std::unique_ptr<RankTransport> transport = make_mpi_transport(
      "give each a part of the work (--ranks off --shard I/N) and put the parts together with "
      "weft-data merge",
      {options.peer_timeout, "--peer-timeout", options.print_error});
  if (transport->num_ranks() > 1) {
    return std::make_unique<RunRanks>(std::move(transport), std::move(options));
  }
  transport->end();
  if (launch.num_processes == 0) return nullptr;
  throw UsageError(
      "several processes were started together (" + launch.source +
      "), but Open MPI finds one: the launcher is of another MPI; use that Open MPI's mpirun or "
      "srun --mpi=pmix, or give --ranks off for a process of its own each");
}

RunRanks::RunRanks(std::unique_ptr<RankTransport> transport, RunRanksOptions options)
    : transport_(std::move(transport)),
      options_(std::move(options)),
      rank_(transport_->rank()),
      num_ranks_(transport_->num_ranks()),
      peers_(rank_ == 0 ? static_cast<size_t>(num_ranks_) : 1) {
  last_round_ = Clock::now();
  for (Peer& peer : peers_) peer.last_heard = peer.last_told = last_round_;
  thread_ = std::thread([this] { talk(); });
}

RunRanks::~RunRanks() {
  if (!thread_.joinable()) return;
  const Lock lock(mutex_);
  abort(static_cast<int>(ExitCode::kInternalError), "a rank has ended without a word");
}

std::string RunRanks::name_of(int rank) const {
  return "rank " + std::to_string(rank) + " (" + transport_->place_of(rank) + ")";
}

// ---- all threads, with mutex_ held ----

void RunRanks::send(int to, int tag, std::string bytes) {
  outbox_.push_back({to, tag, std::move(bytes)});
  peers_[rank_ == 0 ? static_cast<size_t>(to) : 0].last_told = Clock::now();
  to_send_.notify_one();
}

void RunRanks::record_failure(RunFailure failure) {
  // A rank that ends because of what the ledger told it may leave before the rank that has failed.
  if (ledger_) failure = ledger_->fail(std::move(failure));
  if (!failure_) failure_ = std::move(failure);
  if (!abort_at_) abort_at_ = Clock::now() + options_.peer_timeout;
  news_.notify_all();
}

void RunRanks::abort(int exit_code, const std::string& message) {
  if (!message.empty()) options_.print_error(message);
  transport_->abort(exit_code);
  std::terminate();  // it does not return
}

bool RunRanks::have_others_left() const {
  return std::all_of(peers_.begin() + 1, peers_.end(),
                     [](const Peer& peer) { return peer.has_left || peer.is_lost; });
}

// ---- rank 0 ----

void RunRanks::send_listing(const std::string& listing) {
  const Lock lock(mutex_);
  for (int rank = 1; rank < num_ranks_; ++rank) send(rank, kListing, listing);
}

void RunRanks::compare(const std::string& identity, const Difference& difference,
                       const StopRequested& stop_requested) {
  Lock lock(mutex_);
  const auto has_identity = [](const Peer& peer) { return peer.identity.has_value(); };
  while (!failure_ && !std::all_of(peers_.begin() + 1, peers_.end(), has_identity)) {
    if (stop_requested()) throw RankStopped{};
    news_.wait_for(lock, kPatience);
  }
  if (failure_) throw RunFailed(failure_->exit_code, failure_->message);
  for (int rank = 1; rank < num_ranks_; ++rank) {
    const std::string text = difference(identity, *peers_[static_cast<size_t>(rank)].identity);
    if (text.empty()) continue;
    throw ConfigurationDiffers(name_of(rank) + " would make something else than rank 0: " + text);
  }
}

void RunRanks::serve(std::shared_ptr<LocalLedger> ledger, const std::string& work) {
  const Lock lock(mutex_);
  ledger_ = std::move(ledger);
  if (failure_) ledger_->fail(*failure_);
  for (int rank = 1; rank < num_ranks_; ++rank) send(rank, kWork, work);
}

void RunRanks::end_work(std::optional<RunFailure> failure) {
  Lock lock(mutex_);
  if (failure) record_failure(*failure);
  news_.wait(lock, [this] { return have_others_left(); });
  if (!failure && failure_) throw RunFailed(failure_->exit_code, failure_->message);
}

// ---- other ranks ----

std::string RunRanks::wait_for_listing(const StopRequested& stop_requested) {
  Lock lock(mutex_);
  while (listings_.empty() && !end_) {
    if (stop_requested()) throw RankStopped{};
    news_.wait_for(lock, kPatience);
  }
  if (listings_.empty()) throw RunFailed(end_->exit_code, end_->message);
  std::string listing = std::move(listings_.front());
  listings_.pop_front();
  return listing;
}

std::optional<std::string> RunRanks::wait_for_work(const std::string& identity,
                                                   const StopRequested& stop_requested) {
  Lock lock(mutex_);
  send(0, kIdentity, identity);
  while (!work_ && !end_) {
    if (stop_requested()) throw RankStopped{};
    news_.wait_for(lock, kPatience);
  }
  if (end_ && end_->exit_code != 0) throw RunFailed(end_->exit_code, end_->message);
  return end_ ? std::nullopt : work_;
}

LedgerReply RunRanks::exchange(const LedgerRequest& request) {
  Lock lock(mutex_);
  reply_.reset();
  send(0, kRequest, to_message(request));
  news_.wait(lock, [this] { return reply_ || end_; });
  if (reply_) return ledger_reply_from(*reply_);
  throw RunFailed(end_->exit_code, end_->message);
}

// ---- the end ----

int RunRanks::end(int exit_code, const std::string& message) {
  Lock lock(mutex_);
  const int code =
      rank_ == 0 ? end_rank_0(lock, exit_code, message) : end_other_rank(lock, exit_code, message);
  is_closing_ = true;
  lock.unlock();
  thread_.join();
  transport_->end();
  return code;
}

int RunRanks::end_rank_0(Lock& lock, int exit_code, std::string message) {
  if (exit_code == 0 && failure_) exit_code = failure_->exit_code, message = failure_->message;
  if (exit_code != 0) record_failure({exit_code, message, {}});
  if (!message.empty()) options_.print_error(message);
  for (int rank = 1; rank < num_ranks_; ++rank) {
    send(rank, kEnd, to_message(RunFailure{exit_code, message, {}}));
  }
  news_.wait(lock, [this] { return have_others_left(); });
  // MPI's own end would wait for a rank that is lost.
  if (loss_) abort(static_cast<int>(ExitCode::kPeerLost), exit_code == 0 ? *loss_ : "");
  abort_at_.reset();
  return exit_code;
}

int RunRanks::end_other_rank(Lock& lock, int exit_code, const std::string& message) {
  send(0, kLeave, to_message(RunFailure{exit_code, message, {}}));
  news_.wait(lock, [this] { return end_.has_value(); });
  if (end_->exit_code != 0) return end_->exit_code;
  if (!message.empty()) options_.print_error(message);  // rank 0 had ended before
  return exit_code;
}

}  // namespace weft
