// A source read by a thread of its own, so that decompression overlaps with what is done to the
// text: a file of one zstd frame or one xz block has no other parallelism.
#pragma once

#include <array>
#include <atomic>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

#include "preprocess/stream/byte_source.h"
#include "preprocess/stream/queue.h"

namespace weft {

// Reads `inner` at most kNumBuffers * kBufferBytes ahead. What `inner` throws comes out of read()
// after all bytes before it, and again from every later read().
class ReadAheadSource final : public ByteSource {
 public:
  // 4 x 1 MiB: a consumer that pauses for one chunk of text does not stop the decoder.
  static constexpr size_t kNumBuffers = 4, kBufferBytes = 1 << 20;

  explicit ReadAheadSource(std::unique_ptr<ByteSource> inner);
  ReadAheadSource(const ReadAheadSource&) = delete;
  // Interrupts `inner` and waits for the thread.
  ~ReadAheadSource() override;

  size_t read(char* data, size_t size_bytes) override;
  // Number of bytes handed out, rounded to whole buffers.
  int64_t num_bytes_taken() const override { return num_bytes_taken_; }
  void interrupt() noexcept override { inner_->interrupt(); }

 private:
  struct Buffer {
    std::vector<char> bytes;
    size_t size_bytes = 0;
    int64_t num_bytes_taken = 0;
    std::exception_ptr error;  // after these bytes
    bool last = false;         // nothing follows
  };

  void fill_buffers();
  void fill(Buffer& buffer) const;

  std::unique_ptr<ByteSource> inner_;
  std::array<Buffer, kNumBuffers> buffers_;
  Queue<Buffer*> empty_, full_;
  std::atomic<bool> stop_{false};
  Buffer* current_ = nullptr;  // handed out now, up to position_
  size_t position_ = 0;
  int64_t num_bytes_taken_ = 0;
  std::thread thread_;
};

}  // namespace weft
