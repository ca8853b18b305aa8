// How the processes of one run find each other: rank 0 listens and says where in the work folder,
// the others come.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "preprocess/ledger_client.h"
#include "preprocess/ledger_host.h"
#include "preprocess/ledger_server.h"
#include "preprocess/rank_environment.h"

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
  RankServer(const RunRanks& ranks, LedgerHost& host, std::function<void(const std::string&)> note);
  ~RankServer();

  // Lets the others learn how the run has ended; does not wait long for those that do not ask.
  void let_all_leave();

 private:
  RunRanks ranks_;
  std::unique_ptr<LedgerServer> server_;
};

// The other ranks: waits for rank 0. Null if `is_finished` says meanwhile that there is nothing to
// do. Throws as LedgerClient.
std::unique_ptr<LedgerClient> join_run(const RunRanks& ranks,
                                       const std::function<bool()>& is_finished,
                                       const std::function<bool()>& stop_requested,
                                       const std::atomic<bool>& cancelled);

}  // namespace weft
