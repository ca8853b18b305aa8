#include "preprocess/stream/read_ahead.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include "indexed_dataset/base/process/exit_code.h"
#include "preprocess/inputs/input_list.h"
#include "tests/preprocess/compressed/compressors.h"
#include "tests/temporary_folder.h"

namespace weft {
namespace {

// Gives `num_bytes` bytes in pieces, then ends, throws, or waits until it is interrupted.
class MadeUpSource final : public ByteSource {
 public:
  enum class End { kEnds, kThrows, kWaits };
  MadeUpSource(int64_t num_bytes, End end) : num_bytes_(num_bytes), end_(end) {}

  static char byte_at(int64_t position) { return static_cast<char>(position * 7 + position / 251); }

  size_t read(char* data, size_t size_bytes) override {
    if (position_ == num_bytes_) {
      if (end_ == End::kThrows) throw std::runtime_error("the end");
      while (end_ == End::kWaits) {
        if (interrupted_.wait(false), interrupted_) throw ReadCancelled{};
      }
      return 0;
    }
    size_t got = 0;
    for (; got < size_bytes && got < 70001 && position_ < num_bytes_; ++got)
      data[got] = byte_at(position_++);
    return got;
  }
  int64_t num_bytes_taken() const override { return position_; }
  void interrupt() noexcept override {
    interrupted_ = true;
    interrupted_.notify_all();
  }

 private:
  int64_t num_bytes_, position_ = 0;
  End end_;
  std::atomic<bool> interrupted_{false};
};

// Number of right bytes until the end or an error.
int64_t num_right_bytes(ByteSource& source, std::string* error = nullptr) {
  std::string buffer(50021, '\0');
  int64_t position = 0;
  try {
    while (const size_t got = source.read(buffer.data(), buffer.size())) {
      for (size_t i = 0; i < got; ++i, ++position)
        if (buffer[i] != MadeUpSource::byte_at(position)) return -1;
    }
  } catch (const std::runtime_error& thrown) {
    *error = thrown.what();
  }
  return position;
}

TEST(ReadAhead, ReadAheadGivesTheSameBytes) {
  const int64_t buffer_bytes = ReadAheadSource::kBufferBytes;
  for (const int64_t size : {int64_t{0}, int64_t{1}, buffer_bytes - 1, buffer_bytes,
                             4 * buffer_bytes, 11 * buffer_bytes + 12345}) {
    ReadAheadSource source(std::make_unique<MadeUpSource>(size, MadeUpSource::End::kEnds));
    EXPECT_EQ(num_right_bytes(source), size);
    EXPECT_EQ(source.num_bytes_taken(), size);
    char byte = 0;
    EXPECT_EQ(source.read(&byte, 1), 0u) << "the end stays the end";
  }
}

TEST(ReadAhead, AnErrorComesAfterTheBytesBeforeItAndStays) {
  for (const int64_t size : {0, 1, 1 << 20, 9000000}) {
    ReadAheadSource source(std::make_unique<MadeUpSource>(size, MadeUpSource::End::kThrows));
    std::string error;
    EXPECT_EQ(num_right_bytes(source, &error), size);
    EXPECT_EQ(error, "the end");
    char byte = 0;
    EXPECT_THROW(source.read(&byte, 1), std::runtime_error);
  }
}

TEST(ReadAhead, ReadAheadCanBeLeftAtAnyTime) {
  for (const auto end : {MadeUpSource::End::kEnds, MadeUpSource::End::kWaits}) {
    for (const int64_t size : {0, 1000, 20 << 20}) {
      ReadAheadSource source(std::make_unique<MadeUpSource>(size, end));
      char byte = 0;
      if (size > (1 << 20)) {
        EXPECT_EQ(source.read(&byte, 1), 1u);
      }
    }
  }
}

TEST(ReadAhead, ASilentPipeDoesNotKeepItAlive) {
  const TemporaryFolder folder;
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const std::string frame = zstd_of_unknown_size(some_text(1, 100000));
  ASSERT_EQ(::write(ends[1], frame.data(), frame.size() / 2),
            static_cast<ssize_t>(frame.size() / 2));
  std::atomic<bool> cancelled{false};
  {
    const auto source =
        open_input("/dev/fd/" + std::to_string(ends[0]), cancelled, {.read_ahead = true});
    EXPECT_NE(source, nullptr);
  }
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(ReadAhead, DamageAndLimitsComeOutOfReadAhead) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "x";
  std::atomic<bool> cancelled{false};
  const std::string text = some_text(1, 3000000);
  const std::string bytes = zstd(text);
  std::ofstream(path, std::ios::binary) << bytes.substr(0, bytes.size() - 1);
  std::string error, buffer(1 << 16, '\0');
  const auto drain = [&](int64_t max_output_bytes) {
    const auto source =
        open_input(path, cancelled, {.max_output_bytes = max_output_bytes, .read_ahead = true});
    while (source->read(buffer.data(), buffer.size()) > 0) {
    }
  };
  try {
    drain(1 << 30);
    FAIL() << "a cut file was read";
  } catch (const LimitExceeded&) {
    FAIL() << "no limit was near";
  } catch (const std::runtime_error& thrown) {
    EXPECT_THAT(thrown.what(), ::testing::HasSubstr("cut off"));
  }
  EXPECT_THROW(drain(2999999), LimitExceeded);
}

}  // namespace
}  // namespace weft
