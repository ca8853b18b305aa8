// Sources of bytes in memory, and what reading them gives.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>

#include "preprocess/compressed/decoded_source.h"
#include "preprocess/stream/byte_source.h"

namespace weft {

// `bytes` in pieces of random size up to `max_piece_bytes`.
class StringSource final : public ByteSource {
 public:
  explicit StringSource(std::string bytes, size_t max_piece_bytes = 1 << 20)
      : bytes_(std::move(bytes)), max_piece_bytes_(max_piece_bytes) {}
  size_t read(char* data, size_t size_bytes) override {
    const size_t piece = 1 + random_() % max_piece_bytes_;
    const size_t got = std::min({size_bytes, piece, bytes_.size() - position_});
    std::memcpy(data, bytes_.data() + position_, got);
    position_ += got;
    return got;
  }
  int64_t num_bytes_taken() const override { return static_cast<int64_t>(position_); }

 private:
  std::string bytes_;
  size_t max_piece_bytes_, position_ = 0;
  std::mt19937 random_{1};
};

inline std::string read_all(ByteSource& source, size_t buffer_bytes = 4099) {
  std::string text, buffer(buffer_bytes, '\0');
  while (const size_t got = source.read(buffer.data(), buffer.size())) text.append(buffer, 0, got);
  return text;
}

// The text in compressed `bytes`.
inline std::string decoded(const std::string& bytes, const DecodeOptions& options = {}) {
  return read_all(*decode(std::make_unique<StringSource>(bytes), "made up", options));
}

}  // namespace weft
