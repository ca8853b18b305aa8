// The processes that make one output together, as ranks of MPI. Rank 0 leads.
//
//   other ranks    rank 0
//             <-   listing   what rank 0 has asked for all: the files of stores, then what they are
//   identity  ->             what this rank is about to make, for rank 0 to compare
//             <-   work      the ledger answers; the token in the work folder of rank 0
//   request   ->             to the ledger (ledger_link.h), as often as there is something to say
//             <-   reply
//   leave     ->             this rank has ended its work, and why if something is wrong
//             <-   end       how the whole run has ended: one exit code for all ranks
//   alive     ->             every few seconds, whatever else a rank does
//             <-   alive
//
// A thread in each process makes all calls of MPI from the constructor to end(); requests, and
// signs of life, so pass while the other threads work. If one rank fails, all end with its exit
// code. A rank that is silent for longer than the peer timeout is named: rank 0 lets the others
// save what they have done, then all processes are aborted with exit code 13. Time in which a
// process itself did not run, such as a suspended job's, is not counted as silence of others.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "indexed_dataset/base/ranks/rank_transport.h"
#include "preprocess/ledger/local_ledger.h"

namespace weft {

struct RunRanksOptions {
  std::chrono::milliseconds peer_timeout{60'000};
  // Says on standard error why the run ends; from any thread.
  std::function<void(const std::string& message)> print_error = [](const std::string&) {};
};

class RunRanks final : public LedgerLink {
 public:
  using StopRequested = std::function<bool()>;
  // Says in words what differs between the identities of two ranks; empty if they agree.
  using Difference =
      std::function<std::string(const std::string& rank_0, const std::string& other)>;

  // Joins the processes that the launcher started with this one; null if it is alone. Throws
  // UsageError if they have no way to find each other.
  static std::unique_ptr<RunRanks> join(RunRanksOptions options);

  RunRanks(std::unique_ptr<RankTransport> transport, RunRanksOptions options);
  // Aborts all ranks unless end() was called.
  ~RunRanks() override;

  int rank() const { return rank_; }
  int num_ranks() const { return num_ranks_; }
  // "rank 2 (node3, process 4711)"
  std::string name_of(int rank) const;

  // For rank 0, in this order. All waiting ends with RunFailed when another rank has failed or is
  // lost.

  // Gives all ranks what this one has asked a server, or found in files. Several times: the others
  // wait for each.
  void send_listing(const std::string& listing);
  // Waits for the identities of all ranks. Throws ConfigurationDiffers; RankStopped when
  // `stop_requested` says so.
  void compare(const std::string& identity, const Difference& difference,
               const StopRequested& stop_requested);
  // From now on the ledger answers requests; `work` goes to all ranks.
  void serve(std::shared_ptr<LocalLedger> ledger, const std::string& work);
  // Waits until all other ranks have ended their work or are lost. With a failure of this rank the
  // ledger tells it to them first; without one, that of another rank is thrown (RunFailed).
  void end_work(std::optional<RunFailure> failure = {});

  // For the other ranks, in this order.

  // Waits for what send_listing() was given next. Throws RunFailed and RankStopped as above.
  std::string wait_for_listing(const StopRequested& stop_requested);
  // Waits until there is work, and returns what serve() was given; nothing if the run has ended
  // well without this rank. Throws RunFailed and RankStopped as above.
  std::optional<std::string> wait_for_work(const std::string& identity,
                                           const StopRequested& stop_requested);
  LedgerReply exchange(const LedgerRequest& request) override;

  // For all ranks, whatever has happened before: `exit_code` and `message` are how this one ends
  // (0: well). Rank 0 prints the message. Returns the exit code of the run, or does not return
  // because the ranks were aborted.
  int end(int exit_code, const std::string& message);

 private:
  using Clock = std::chrono::steady_clock;
  using Lock = std::unique_lock<std::mutex>;
  enum Tag : int { kIdentity = 1, kWork, kRequest, kReply, kLeave, kEnd, kAlive, kListing };
  struct Peer {
    Clock::time_point last_heard, last_told;
    std::optional<std::string> identity;
    bool has_left = false, is_lost = false;
  };

  // The thread (run_ranks_thread.cpp). All with mutex_ held.
  void talk();
  void forgive_own_pause(Clock::time_point now);
  void handle(RankMessage& message);
  std::string answer(int rank, const std::string& message);
  void say_alive(Clock::time_point now);
  void check_silence(Clock::time_point now);

  // All with mutex_ held.
  void send(int to, int tag, std::string bytes = {});
  void record_failure(RunFailure failure);
  [[noreturn]] void abort(int exit_code, const std::string& message);
  bool have_others_left() const;
  int end_rank_0(Lock& lock, int exit_code, std::string message);
  int end_other_rank(Lock& lock, int exit_code, const std::string& message);

  std::unique_ptr<RankTransport> transport_;  // used with mutex_ held
  RunRanksOptions options_;
  const int rank_, num_ranks_;

  std::mutex mutex_;
  std::condition_variable news_;     // for the threads that call
  std::condition_variable to_send_;  // for the thread that talks
  std::deque<RankMessage> outbox_;   // to RankMessage::rank
  std::vector<Peer> peers_;          // rank 0: by rank; other ranks: rank 0 only
  Clock::time_point last_round_;
  bool is_closing_ = false;

  // Rank 0.
  std::shared_ptr<LocalLedger> ledger_;
  std::optional<RunFailure> failure_;          // the first one
  std::optional<std::string> loss_;            // the first rank that was lost
  std::optional<Clock::time_point> abort_at_;  // whatever is not at its end then

  // Other ranks: what rank 0 has said.
  std::deque<std::string> listings_;  // that were not waited for yet
  std::optional<std::string> work_, reply_;
  std::optional<RunFailure> end_;  // exit code 0: all is well

  std::thread thread_;
};

}  // namespace weft
