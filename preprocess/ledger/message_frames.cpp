#include "preprocess/ledger/message_frames.h"

#include <openssl/crypto.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace weft {
namespace {

constexpr std::string_view kMagic = "WEFTRANK";
constexpr uint32_t kVersion = 3;
constexpr size_t kLengthBytes = 4;

std::string little_endian(uint32_t value) {
  std::string bytes;
  for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<char>((value >> (8 * i)) & 0xFF));
  return bytes;
}

uint32_t little_endian_at(std::string_view bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) {
    value |= static_cast<uint32_t>(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
  }
  return value;
}

}  // namespace

RunSecret make_run_secret() {
  RunSecret secret{};
  if (::getentropy(secret.data(), secret.size()) != 0) {
    throw std::system_error(errno, std::generic_category(), "cannot make a random secret");
  }
  return secret;
}

std::string framed(std::string_view message) {
  if (message.size() > kMaxMessageBytes) {
    throw LimitExceeded("a message of " + std::to_string(message.size()) +
                        " bytes between ranks is over the limit of " +
                        std::to_string(kMaxMessageBytes));
  }
  return little_endian(static_cast<uint32_t>(message.size())).append(message);
}

std::string make_hello(const RunSecret& secret, std::string_view payload) {
  std::string hello(kMagic);
  hello += little_endian(kVersion);
  hello.append(reinterpret_cast<const char*>(secret.data()), secret.size());
  return hello.append(payload);
}

std::optional<std::string> open_hello(const RunSecret& secret, std::string_view hello) {
  const size_t secret_at = kMagic.size() + 4;
  if (hello.size() < secret_at + secret.size() || !hello.starts_with(kMagic)) return std::nullopt;
  if (CRYPTO_memcmp(hello.data() + secret_at, secret.data(), secret.size()) != 0) {
    return std::nullopt;
  }
  if (const uint32_t version = little_endian_at(hello, kMagic.size()); version != kVersion) {
    throw ConnectionLost("a rank speaks version " + std::to_string(version) +
                         " of the messages between ranks, this one version " +
                         std::to_string(kVersion) + "; start all ranks from one weft-data");
  }
  return std::string(hello.substr(secret_at + secret.size()));
}

std::optional<std::string> MessageReader::next() {
  const size_t have = buffer_.size() - begin_;
  if (have < kLengthBytes) return std::nullopt;
  const size_t size = little_endian_at(buffer_, begin_);
  if (size > max_message_bytes_) {
    throw ConnectionLost("a message of " + std::to_string(size) + " bytes is announced, over the " +
                         std::to_string(max_message_bytes_) + " allowed");
  }
  if (have - kLengthBytes < size) return std::nullopt;
  std::string message = buffer_.substr(begin_ + kLengthBytes, size);
  begin_ += kLengthBytes + size;
  // Moved to the front only now and then: many small messages cost no quadratic time.
  if (begin_ == buffer_.size() || begin_ > (64 << 10)) {
    buffer_.erase(0, begin_);
    begin_ = 0;
  }
  return message;
}

}  // namespace weft
