// Messages (message_frames.h) over TCP, for the few processes of one run. All calls are bounded by
// a deadline (steady clock), none raises SIGPIPE. Linux; IPv4 and IPv6.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "preprocess/ledger/message_frames.h"

namespace weft {

using Deadline = std::chrono::steady_clock::time_point;

// A descriptor with an owner. Move-only; -1 is none.
class SocketFd {
 public:
  SocketFd() = default;
  explicit SocketFd(int fd) : fd_(fd) {}
  SocketFd(SocketFd&& other) noexcept;
  SocketFd& operator=(SocketFd&& other) noexcept;
  ~SocketFd();
  int get() const { return fd_; }

 private:
  int fd_ = -1;
};

// Waits for connections on a port that the kernel chose.
class MessageListener {
 public:
  // `address`: one of this machine, numeric, to listen on and to tell others; empty: all, of which
  // the non-loopback ones are told (loopback where there is no other). Throws std::system_error;
  // std::invalid_argument for an `address` that is none.
  explicit MessageListener(const std::string& address = "");
  int fd() const { return fd_.get(); }
  uint16_t port() const { return port_; }
  const std::vector<std::string>& addresses() const { return addresses_; }
  // A waiting connection, non-blocking; fd -1 when there is none or it went away meanwhile; throws
  // std::system_error when descriptors or memory are short (EMFILE, ENFILE, ENOBUFS, ENOMEM).
  SocketFd accept() const;

 private:
  SocketFd fd_;
  uint16_t port_ = 0;
  std::vector<std::string> addresses_;
};

// The calling side. Not thread-safe. Every failure is a ConnectionLost; the socket is then of no
// more use.
class MessageSocket {
 public:
  // Numeric addresses or host names.
  static MessageSocket connect(const std::string& address, uint16_t port, Deadline deadline);
  void send(std::string_view message, Deadline deadline);
  std::string receive(Deadline deadline);

 private:
  SocketFd fd_;
  std::string peer_;  // "10.0.0.1 port 4711", for messages
  MessageReader reader_{kMaxMessageBytes};
};

// Nodelay, keepalive, close-on-exec, non-blocking.
void prepare_connection(int fd);

}  // namespace weft
