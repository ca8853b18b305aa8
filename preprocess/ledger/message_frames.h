// Messages as bytes on a connection: u32 little-endian length, then so many bytes. A length is
// checked before anything is allocated.
//
// The first message of a connection is the caller's hello, the second the listener's answer:
//
//   hello := "WEFTRANK" version:u32 secret[32] payload
//
// On a trusted network: the shared secret keeps strangers out, nothing is encrypted.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "indexed_dataset/process/exit_code.h"

namespace weft {

// Larger messages are never sent, and announcing one ends the connection.
constexpr size_t kMaxMessageBytes = 16 << 20;

// The other side is gone, silent beyond the deadline, or talks something else.
struct ConnectionLost : NetworkError {
  using NetworkError::NetworkError;
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

}  // namespace weft
