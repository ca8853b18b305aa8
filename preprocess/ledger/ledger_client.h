// The ledger as ranks other than 0 see it: a TCP connection to rank 0, found through the run's work
// folder, kept alive by a thread, made again when it breaks.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "preprocess/ledger/ledger_link.h"
#include "preprocess/ledger/message_socket.h"

namespace weft {

struct LedgerClientOptions {
  std::filesystem::path folder;  // where rank 0 publishes its address (coordinator_file.h)
  int rank = 1, num_ranks = 2;
  std::string launch_id;      // RankEnvironment's; a file of another launch is passed over
  std::string configuration;  // as LedgerServerOptions
  // How long rank 0 may take to show up. Network file systems may hide a new file for 30 s and more
  // from those who asked for it too early.
  std::chrono::milliseconds start_timeout{180'000};
  std::chrono::milliseconds peer_timeout{60'000};  // as LedgerServerOptions
  const std::atomic<bool>* cancelled = nullptr;    // ends waiting, with PeerLost
  std::function<bool()> stop_requested;            // the same; asked from any thread
  // Called ten times a second until rank 0 has answered for the first time, with why it has not;
  // what it throws ends the waiting.
  std::function<void(const std::string& problem)> while_waiting;
  // Asked ten times a second while a connection that broke cannot be made again: there is nothing
  // to come back for. Ends exchange() with PeerLost.
  std::function<bool()> is_over;
};

class LedgerClient : public LedgerLink {
 public:
  // Joins the run. Throws PeerLost when rank 0 does not show up in time or has given this rank up,
  // ConfigurationDiffers when the ranks were started differently; what while_waiting throws.
  explicit LedgerClient(LedgerClientOptions options);
  // Says goodbye (unless the connection is broken anyway): the rank has left, it was not lost.
  ~LedgerClient() override;
  LedgerClient(const LedgerClient&) = delete;
  LedgerClient& operator=(const LedgerClient&) = delete;

  // Thread-safe: one at a time. Throws PeerLost when rank 0 did not answer within the peer timeout,
  // and from then on.
  LedgerReply exchange(const LedgerRequest& request) override;

 private:
  void join(Deadline deadline, const std::function<void(const std::string&)>& while_waiting = {});
  bool try_join(std::string& problem, Deadline deadline);
  std::string hello() const;
  void pause(std::chrono::milliseconds time);
  void keep_alive();
  bool is_cancelled() const {
    if (options_.stop_requested && options_.stop_requested()) return true;
    return options_.cancelled != nullptr && *options_.cancelled;
  }

  LedgerClientOptions options_;
  std::string incarnation_;
  std::mutex mutex_;  // for socket_ and lost_
  std::optional<MessageSocket> socket_;
  std::optional<std::string> lost_;  // why there is no way back
  std::mutex stop_mutex_;
  std::condition_variable stop_changed_;
  bool stop_ = false;
  std::thread keep_alive_thread_;
};

}  // namespace weft
