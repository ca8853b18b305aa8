// Decompression bombs: constant memory whatever the ratio, and an end at --max-output.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "indexed_dataset/base/process/exit_code.h"
#include "preprocess/compressed/decoded_source.h"
#include "preprocess/stream/byte_source.h"
#include "tests/preprocess/compressed/byte_sources.h"
#include "tests/preprocess/compressed/compressors.h"

namespace weft {
namespace {

struct Bomb {
  const char* format;
  const char* gzip_library = "";
};
void PrintTo(const Bomb& bomb, std::ostream* out) { *out << bomb.format; }

int64_t peak_memory_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

enum Outcome { kWhole = 0, kLimit = 1, kTooMuchMemory = 2, kOther = 3 };

// Reads all of `bytes` without keeping the text. The buffers and windows of every format together
// are below 48 MiB.
Outcome read_bomb(const std::string& bytes, int64_t num_bytes, const DecodeOptions& options) {
  const int64_t peak_before = peak_memory_bytes();
  Outcome outcome = kOther;
  try {
    const auto source = decode(std::make_unique<StringSource>(bytes), "bomb", options);
    std::vector<char> buffer(1 << 20);
    int64_t num_read = 0;
    while (const size_t got = source->read(buffer.data(), buffer.size()))
      num_read += static_cast<int64_t>(got);
    outcome = num_read == num_bytes ? kWhole : kOther;
  } catch (const LimitExceeded&) {
    outcome = kLimit;
  }
  return peak_memory_bytes() - peak_before < (int64_t{48} << 20) ? outcome : kTooMuchMemory;
}

// In a process of its own, whose peak of memory begins with what it has.
int outcome_of(const std::string& bytes, int64_t num_bytes, const DecodeOptions& options) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(read_bomb(bytes, num_bytes, options));
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

class Bombs : public ::testing::TestWithParam<Bomb> {
 protected:
  void SetUp() override { ::setenv("WEFT_GZIP", GetParam().gzip_library, 1); }
  void TearDown() override { ::unsetenv("WEFT_GZIP"); }
};

TEST_P(Bombs, BombsTakeConstantMemoryAndEndAtTheLimit) {
  // 1 GiB in the program with the label `long`, else enough to be noticed.
  const int64_t num_bytes = int64_t{WEFT_BOMB_MIB} << 20;
  const std::string bytes = compressed_zeros(GetParam().format, num_bytes);
  EXPECT_LT(bytes.size(), static_cast<size_t>(num_bytes / 200)) << "no bomb";
  for (const bool read_ahead : {false, true}) {
    EXPECT_EQ(outcome_of(bytes, num_bytes, {.read_ahead = read_ahead}), kWhole);
    EXPECT_EQ(
        outcome_of(bytes, num_bytes, {.max_output_bytes = num_bytes / 4, .read_ahead = read_ahead}),
        kLimit);
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, Bombs,
                         ::testing::Values(Bomb{"gzip"}, Bomb{"gzip", "zlib"}, Bomb{"xz"},
                                           Bomb{"zstd"}, Bomb{"bzip2"}),
                         [](const auto& tested) {
                           return std::string(tested.param.format) + tested.param.gzip_library;
                         });

}  // namespace
}  // namespace weft
