// Rank 0's side of the talk between ranks: one thread that answers the others' requests.
//
// A rank is *lost* when it was silent for longer than the peer timeout (frozen, cut off), or when
// its connection broke and it did not come back within 10 s or the timeout, whichever is less
// (killed). What it held goes to others; if it wakes up, it is told to end (exit code 13). A
// request that is repeated after a reconnection is answered as the first time, without effect.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "preprocess/ledger/ledger_link.h"
#include "preprocess/ledger/message_server.h"

namespace weft {

// First bytes of messages between ranks, after the hello.
constexpr char kRequestMessage = 'Q', kReplyMessage = 'A', kHeartbeatMessage = 'H',
               kLeaveMessage = 'L';

struct LedgerServerOptions {
  std::string address;  // to listen on; empty: all of this machine
  RunSecret secret{};
  int num_ranks = 1;  // with rank 0, which does not come by TCP
  // A hash of all that must be equal in all ranks.
  std::string configuration;
  std::chrono::milliseconds peer_timeout{60'000};

  // Called from the server's thread, one at a time; required. An std::invalid_argument from
  // `answer` gives that rank up; any other exception is every rank's failure from then on
  // (failure()).
  std::function<LedgerReply(int rank, const LedgerRequest&)> answer;
  std::function<void(int rank)> rank_lost;
  // What people may want to read: who came, was refused, was lost.
  std::function<void(const std::string&)> note = [](const std::string&) {};

  MessageServer::Clock clock = [] { return std::chrono::steady_clock::now(); };  // for tests
};

class LedgerServer {
 public:
  // Listens and starts the thread. Throws as MessageListener.
  explicit LedgerServer(LedgerServerOptions options);
  ~LedgerServer();  // ends the thread and all connections
  LedgerServer(const LedgerServer&) = delete;
  LedgerServer& operator=(const LedgerServer&) = delete;

  uint16_t port() const { return server_.port(); }
  const std::vector<std::string>& addresses() const { return server_.addresses(); }

  // All from any thread.
  std::vector<int> ranks_that_never_came() const;
  std::vector<int> lost_ranks() const;
  // Waits until every rank has come, and has left or is lost; false at the deadline. A rank may
  // come late: in a short run, when all is done already.
  bool wait_until_all_left(Deadline deadline);
  // Why requests cannot be answered any more.
  std::optional<RunFailure> failure() const;

 private:
  struct Rank {
    enum class State : uint8_t {
      kAwaited,
      kConnected,
      kBroken,
      kLost,
      kLeft
    } state = State::kAwaited;
    MessageServer::PeerId peer = 0;
    std::string incarnation;  // one process's random name
    std::string where;        // "rank 2 (node3, process 4711)"
    std::chrono::steady_clock::time_point last_heard, broken_since;
    int64_t last_number = 0;  // of the last request that was answered
    std::string last_reply;
  };
  void serve();
  void on_hello(MessageServer::PeerId peer, const std::string& payload);
  void on_message(MessageServer::PeerId peer, const std::string& message);
  void on_gone(MessageServer::PeerId peer);
  void welcome(MessageServer::PeerId peer, Rank& rank);
  void refuse(MessageServer::PeerId peer, int exit_code, const std::string& why);
  std::string reply_to(int rank_idx, Rank& rank, const LedgerRequest& request);
  void lose(int rank_idx, Rank& rank, const std::string& why);
  void lose_silent_ranks();
  void give_up_all(const std::exception& error);
  int rank_of(MessageServer::PeerId peer) const;  // -1: none
  std::vector<int> ranks_in(Rank::State state) const;

  LedgerServerOptions options_;
  mutable std::mutex mutex_;  // for ranks_, failure_ and stop_; not held while options_.answer runs
  std::condition_variable changed_;
  std::vector<Rank> ranks_;
  std::optional<RunFailure> failure_;
  bool stop_ = false;
  MessageServer server_;
  std::thread thread_;
};

}  // namespace weft
