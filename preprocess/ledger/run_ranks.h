// How the processes of one run find each other: rank 0 listens and says where in the work folder,
// the others come.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "preprocess/ledger/ledger_client.h"
#include "preprocess/ledger/ledger_server.h"
#include "preprocess/ledger/local_ledger.h"
#include "preprocess/ledger/rank_environment.h"

namespace weft {

struct RunRanks {
  std::filesystem::path folder;  // the work folder, shared by all ranks
  RankEnvironment environment;
  std::string configuration;  // hash of all that must be equal in all ranks
  std::chrono::milliseconds peer_timeout{60'000};
};

// Rank 0: answers the others while it lives.
class RankServer {
 public:
  // Listens, and publishes where in the folder. `note` is called from another thread. Throws
  // std::system_error.
  RankServer(const RunRanks& ranks, LocalLedger& host,
             std::function<void(const std::string&)> note);
  ~RankServer();

  // Lets the others learn how the run has ended; does not wait long for those that do not ask.
  void let_all_leave();

 private:
  RunRanks ranks_;
  std::unique_ptr<LedgerServer> server_;
};

// What a rank that waits for rank 0 asks and says.
struct WaitingRank {
  std::function<bool()> is_finished;             // there is nothing to do any more
  std::function<bool()> is_over;                 // the same, of a run it was in; from any thread
  std::function<bool()> stop_requested;          // end; asked from any thread
  std::function<void()> check_rank_0_can_begin;  // throws what rank 0 must have ended with
  std::function<void(const std::string&)> note;
};

// The other ranks: waits for rank 0, and after 10 s (or the peer timeout, if that is shorter) says
// so. Null if there is nothing to do. Throws as LedgerClient, RankStopped, and what
// check_rank_0_can_begin throws; that is asked only after this time, for a rank 0 that lives says
// better what is wrong.
std::unique_ptr<LedgerClient> join_run(const RunRanks& ranks, const WaitingRank& waiting);

}  // namespace weft
