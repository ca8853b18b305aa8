#include <bzlib.h>
#include <gtest/gtest.h>
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include <atomic>
#include <fstream>
#include <random>
#include <stdexcept>

#include "preprocess/byte_source.h"
#include "tests/preprocess/temporary_folder.h"

namespace weft {
namespace {

std::string gzip(const std::string& text) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string xz(const std::string& text) {
  std::string out(lzma_stream_buffer_bound(text.size()), '\0');
  size_t size = 0;
  EXPECT_EQ(lzma_easy_buffer_encode(6, LZMA_CHECK_CRC64, nullptr,
                                    reinterpret_cast<const uint8_t*>(text.data()), text.size(),
                                    reinterpret_cast<uint8_t*>(out.data()), &size, out.size()),
            LZMA_OK);
  out.resize(size);
  return out;
}

std::string zstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  out.resize(ZSTD_compress2(context, out.data(), out.size(), text.data(), text.size()));
  ZSTD_freeCCtx(context);
  return out;
}

std::string bzip2(const std::string& text) {
  std::string out(text.size() + text.size() / 50 + 700, '\0');
  auto size = static_cast<unsigned>(out.size());
  EXPECT_EQ(BZ2_bzBuffToBuffCompress(out.data(), &size, const_cast<char*>(text.data()),
                                     static_cast<unsigned>(text.size()), 1, 0, 0),
            BZ_OK);
  out.resize(size);
  return out;
}

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
