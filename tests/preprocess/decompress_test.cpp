#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <random>
#include <stdexcept>

#include "preprocess/byte_source.h"
#include "tests/preprocess/compressors.h"
#include "tests/preprocess/temporary_folder.h"

namespace weft {
namespace {

struct Format {
  const char* name;
  std::string (*compress)(const std::string&);
};
void PrintTo(const Format& format, std::ostream* out) { *out << format.name; }

class Decompress : public ::testing::TestWithParam<Format> {
 protected:
  std::string read_back(const std::string& bytes, const std::string& name = "input") {
    const std::string path = folder_.path() / name;
    std::ofstream(path, std::ios::binary) << bytes;
    const auto source = open_input(path, cancelled_);
    format_ = source->format();
    std::string text, buffer(4099, '\0');
    while (const size_t got = source->read(buffer.data(), buffer.size()))
      text.append(buffer, 0, got);
    EXPECT_EQ(source->num_bytes_taken(), static_cast<int64_t>(bytes.size()));
    return text;
  }

  // "" if it can be read, else the message.
  std::string error_of(const std::string& bytes) {
    try {
      read_back(bytes);
      return "";
    } catch (const std::runtime_error& error) {
      return error.what();
    }
  }

  static std::string some_text() {
    std::mt19937 random(7);
    std::string text;
    for (int i = 0; i < 60000; ++i) text += static_cast<char>('a' + random() % 20);
    return text;
  }

  TemporaryFolder folder_;
  std::atomic<bool> cancelled_{false};
  std::string format_;
};

TEST_P(Decompress, FindsTheFormatByContentNotByName) {
  EXPECT_EQ(read_back(GetParam().compress("hello\n"), "no_extension"), "hello\n");
  EXPECT_EQ(format_, GetParam().name);
}

TEST_P(Decompress, ReadsConcatenatedStreams) {
  const std::string text = some_text();
  const auto compress = GetParam().compress;
  EXPECT_EQ(read_back(compress(text) + compress("") + compress("x") + compress(text)),
            text + "x" + text);
}

TEST_P(Decompress, ReportsEveryTruncationWithFileAndOffset) {
  const std::string bytes = GetParam().compress(some_text()) + GetParam().compress("the end");
  const size_t first = GetParam().compress(some_text()).size();
  for (size_t size = 12; size < bytes.size(); size += size < 200 || size > first - 100 ? 1 : 997) {
    const std::string error = error_of(bytes.substr(0, size));
    if (size == first) {
      EXPECT_EQ(error, "")
          << "cut between two streams: nothing is missing that the format could tell";
      continue;
    }
    EXPECT_NE(error.find("/input: "), std::string::npos) << size << error;
    EXPECT_NE(error.find("compressed byte "), std::string::npos) << size << error;
  }
}

TEST_P(Decompress, NoticesFlippedBits) {
  const std::string good = GetParam().compress(some_text());
  const std::string text = some_text();
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    std::string bytes = good;
    // The first bytes decide the format: without them it is plain text, which is not read here.
    bytes[10 + random() % (bytes.size() - 10)] ^= static_cast<char>(1 << random() % 8);
    try {
      EXPECT_EQ(read_back(bytes), text)
          << "a bit that means nothing may flip, but the text must not change";
    } catch (const std::runtime_error&) {
    }
  }
}

TEST_P(Decompress, RefusesWhatFollowsTheLastStream) {
  EXPECT_NE(error_of(GetParam().compress("x") + "garbage, not a stream"), "");
}

INSTANTIATE_TEST_SUITE_P(Formats, Decompress,
                         ::testing::Values(Format{"gzip", gzip}, Format{"xz", xz},
                                           Format{"zstd", zstd}, Format{"bzip2", bzip2}),
                         [](const auto& tested) { return std::string(tested.param.name); });

class DecompressOne : public Decompress {};
TEST_P(DecompressOne, ReadsPlainTextOfAnyLength) {
  for (const char* text : {"", "{", "BZ", "{\"text\":\"abcdefghijk\"}\n"}) {
    EXPECT_EQ(read_back(text), text);
    EXPECT_EQ(format_, "plain");
  }
}
TEST_P(DecompressOne, SkipsZerosAfterGzipAndSkippableFramesOfZstd) {
  EXPECT_EQ(read_back(gzip("a") + std::string(1000, '\0')), "a");
  EXPECT_EQ(read_back(gzip("a") + std::string(10, '\0') + gzip("b")), "ab");
  const std::string skippable("\x50\x2A\x4D\x18\x03\x00\x00\x00xyz", 11);
  EXPECT_EQ(read_back(skippable + zstd("a") + skippable + zstd("b")), "ab");
}
INSTANTIATE_TEST_SUITE_P(Once, DecompressOne, ::testing::Values(Format{"plain", nullptr}));

}  // namespace
}  // namespace weft
