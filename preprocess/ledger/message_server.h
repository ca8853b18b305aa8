// The listening side of message_socket.h: one thread polls all connections.
//
// Strangers are harmless: until its hello with the run's secret is whole, a connection may send at
// most 64 KiB, has 10 s, and is one of at most 64 such (the oldest goes first). Nothing here waits
// for one connection only.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "preprocess/ledger/message_socket.h"

namespace weft {

class MessageServer {
 public:
  using PeerId = uint64_t;  // of one connection; never used again
  using Clock = std::function<std::chrono::steady_clock::time_point()>;

  // All called from poll_once(); they may call send() and close_peer().
  struct Events {
    // A connection with the right secret; the first message to it is the answer to its hello.
    std::function<void(PeerId, std::string payload)> on_hello;
    std::function<void(PeerId, std::string message)> on_message;
    // It broke or was closed by the other side (not by close_peer).
    std::function<void(PeerId)> on_gone;
  };

  // Throws as MessageListener. `clock` decides when a hello is late; tests bring their own.
  MessageServer(const std::string& address, const RunSecret& secret, Events events, Clock clock);
  ~MessageServer();
  MessageServer(const MessageServer&) = delete;
  MessageServer& operator=(const MessageServer&) = delete;

  uint16_t port() const { return listener_.port(); }
  const std::vector<std::string>& addresses() const { return listener_.addresses(); }

  // Handles what has arrived, waiting for at most `wait` for it.
  void poll_once(std::chrono::milliseconds wait);
  // Makes a poll_once() that waits return. From any thread.
  void wake();
  // Queues a message; unknown peers are ignored (they may just have gone).
  void send(PeerId peer, std::string_view message);
  // Closes once what was sent to it has left, or cannot leave.
  void close_peer(PeerId peer);

  int num_connections() const { return static_cast<int>(connections_.size()); }

 private:
  struct Connection;
  void accept_all();
  void read_from(PeerId id);
  void handle(PeerId id, std::string message);
  void write_to(PeerId id);
  void drop(PeerId id, bool report);
  void drop_late_strangers();
  bool drop_oldest_stranger();

  MessageListener listener_;
  RunSecret secret_;
  Events events_;
  Clock clock_;
  SocketFd wake_fd_;
  PeerId next_id_ = 1;
  bool accept_fails_ = false;                 // the last poll found no descriptor for a newcomer
  std::map<PeerId, Connection> connections_;  // ascending ids: the oldest first
};

}  // namespace weft
