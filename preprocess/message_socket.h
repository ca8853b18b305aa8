// Messages over TCP: u32 little-endian length, then so many bytes. For the few processes of one run
// on a trusted network: a shared secret keeps strangers out, nothing is encrypted.
//
// The first message of a connection is the caller's hello, the second the listener's answer:
//
//   hello := "WEFTRANK" version:u32 secret[32] payload
//
// All calls are bounded by a deadline (steady clock), none raises SIGPIPE, and a length is checked
// before anything is allocated. Linux; IPv4 and IPv6.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "indexed_dataset/exit_code.h"

namespace weft {

using Deadline = std::chrono::steady_clock::time_point;

// Larger messages are never sent, and announcing one ends the connection.
constexpr size_t kMaxMessageBytes = 16 << 20;

// The other side is gone, silent beyond the deadline, or talks something else.
struct ConnectionLost : NetworkError {
  using NetworkError::NetworkError;
};

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

using RunSecret = std::array<unsigned char, 32>;
RunSecret make_run_secret();  // from the kernel's random numbers

std::string framed(std::string_view message);  // throws LimitExceeded above kMaxMessageBytes
std::string make_hello(const RunSecret& secret, std::string_view payload);
// The payload of a hello with this secret, compared in constant time; nothing for anything else.
// Throws ConnectionLost when secret and magic are right but the version is another one.
std::optional<std::string> open_hello(const RunSecret& secret, std::string_view hello);

// Cuts received bytes into messages. Memory: what was received, never what was announced.
class MessageReader {
 public:
  explicit MessageReader(size_t max_message_bytes) : max_message_bytes_(max_message_bytes) {}
  void set_max_message_bytes(size_t bytes) { max_message_bytes_ = bytes; }
  void feed(std::string_view bytes) { buffer_.append(bytes); }
  // The next whole message, if it is there. Throws ConnectionLost for a length over the limit.
  std::optional<std::string> next();

 private:
  std::string buffer_;
  size_t begin_ = 0;  // of what was not returned yet
  size_t max_message_bytes_;
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
