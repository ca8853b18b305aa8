// Compressed files of any content, found by their first bytes: an error, or the same bytes however
// they are read and however the file arrives.
#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

#include "preprocess/compressed/decoded_source.h"
#include "preprocess/stream/byte_source.h"
#include "tests/fuzz/fuzz_check.h"

namespace weft {
namespace {

// Hands bytes out in pieces of at most `piece_bytes`.
class MemorySource final : public ByteSource {
 public:
  MemorySource(std::string_view bytes, size_t piece_bytes)
      : rest_(bytes), piece_bytes_(piece_bytes) {}
  size_t read(char* data, size_t size_bytes) override {
    const size_t got = std::min({size_bytes, piece_bytes_, rest_.size()});
    if (got > 0) std::memcpy(data, rest_.data(), got);
    rest_.remove_prefix(got);
    num_bytes_taken_ += static_cast<int64_t>(got);
    return got;
  }
  int64_t num_bytes_taken() const override { return num_bytes_taken_; }

 private:
  std::string_view rest_;
  size_t piece_bytes_;
  int64_t num_bytes_taken_ = 0;
};

struct Outcome {
  std::string bytes;
  bool failed = false;
};

Outcome read_all(std::string_view file, size_t piece_bytes, size_t buffer_bytes) {
  constexpr size_t kMaxOutputBytes = 1 << 20;
  Outcome outcome;
  std::string buffer(buffer_bytes, '\0');
  try {
    const auto source = decode(std::make_unique<MemorySource>(file, piece_bytes), "fuzz",
                               {.max_output_bytes = kMaxOutputBytes});
    while (const size_t got = source->read(buffer.data(), buffer.size())) {
      FUZZ_CHECK(got <= buffer.size());
      outcome.bytes.append(buffer, 0, got);
      FUZZ_CHECK(outcome.bytes.size() <= std::max(kMaxOutputBytes + buffer_bytes, file.size()));
    }
    FUZZ_CHECK(source->read(buffer.data(), buffer.size()) == 0);
  } catch (const std::runtime_error&) {
    outcome.failed = true;
  }
  return outcome;
}

}  // namespace
}  // namespace weft

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  const weft::Outcome at_once = weft::read_all(file, size + 1, 1 << 16);
  const weft::Outcome in_pieces = weft::read_all(file, 7, 1000);
  FUZZ_CHECK(at_once.failed == in_pieces.failed);
  if (!at_once.failed) FUZZ_CHECK(at_once.bytes == in_pieces.bytes);
  return 0;
}
