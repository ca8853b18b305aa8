#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <fstream>
#include <functional>
#include <random>
#include <stdexcept>

#include "indexed_dataset/base/process/exit_code.h"
#include "preprocess/inputs/input_list.h"
#include "preprocess/stream/byte_source.h"
#include "tests/preprocess/compressed/byte_sources.h"
#include "tests/preprocess/compressed/compressors.h"
#include "tests/temporary_folder.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

struct Format {
  const char* name;
  std::string (*compress)(const std::string&);
  const char* gzip_library = "";
};
void PrintTo(const Format& format, std::ostream* out) { *out << format.name; }

std::string error_of(const std::function<void()>& read) {
  try {
    read();
    return "";
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

// The message of the limit that decoding meets; "" if it meets none.
std::string limit_of(const std::string& bytes, const DecoderLimits& limits = {}) {
  try {
    decoded(bytes, {.decoder = limits});
    return "";
  } catch (const LimitExceeded& error) {
    return error.what();
  }
}

class Decompress : public ::testing::TestWithParam<Format> {
 protected:
  void SetUp() override { ::setenv("WEFT_GZIP", GetParam().gzip_library, 1); }
  void TearDown() override { ::unsetenv("WEFT_GZIP"); }

  std::string read_file(const std::string& bytes, const std::string& name) {
    const std::string path = folder_.path() / name;
    std::ofstream(path, std::ios::binary) << bytes;
    const auto source = open_input(path, cancelled_);
    const std::string text = read_all(*source);
    EXPECT_EQ(source->num_bytes_taken(), static_cast<int64_t>(bytes.size()));
    return text;
  }
  std::string error_of_bytes(const std::string& bytes) {
    return error_of([&] { decoded(bytes); });
  }
  static std::string some_letters() {
    std::mt19937 random(7);
    std::string text;
    for (int i = 0; i < 20000; ++i) text += static_cast<char>('a' + random() % 20);
    return text;
  }

  TemporaryFolder folder_;
  std::atomic<bool> cancelled_{false};
};

TEST_P(Decompress, FindsTheFormatByContentNotByName) {
  EXPECT_EQ(read_file(GetParam().compress("hello\n"), "no_extension"), "hello\n");
}

TEST_P(Decompress, ReadsConcatenatedStreamsHoweverTheyArrive) {
  const auto compress = GetParam().compress;
  const std::string text = some_letters();
  const std::string bytes = compress(text) + compress("") + compress("x") + compress(text);
  for (const size_t max_piece_bytes : {1, 2, 7, 100, 5000, 1 << 20}) {
    for (const size_t buffer_bytes : {1, 3, 1000, 1 << 20}) {
      const auto source =
          decode(std::make_unique<StringSource>(bytes, max_piece_bytes), "https://a/b");
      ASSERT_EQ(read_all(*source, buffer_bytes), text + "x" + text) << max_piece_bytes;
      ASSERT_EQ(source->num_bytes_taken(), static_cast<int64_t>(bytes.size()));
    }
  }
}

TEST_P(Decompress, ReportsEveryTruncationWithNameAndOffset) {
  const std::string one = GetParam().compress(some_letters());
  const std::string bytes = one + GetParam().compress("the end");
  std::vector<size_t> sizes = {one.size() - 1, one.size() + 1, bytes.size() - 1};
  for (size_t size = 12; size < 212; ++size) sizes.push_back(size);
  for (size_t i = 0; i < 800; ++i) sizes.push_back(12 + i * (bytes.size() - 12) / 800);
  for (const size_t size : sizes) {
    if (size == one.size()) continue;  // nothing is missing that the format could tell
    const std::string error = error_of_bytes(bytes.substr(0, size));
    ASSERT_THAT(error, HasSubstr("made up: ")) << size;
    ASSERT_THAT(error, HasSubstr("compressed byte ")) << size;
  }
  EXPECT_EQ(error_of_bytes(one), "");
}

TEST_P(Decompress, NoticesFlippedBits) {
  const std::string text = some_letters(), good = GetParam().compress(text);
  std::mt19937 random(3);
  int num_noticed = 0;
  for (int round = 0; round < 1000; ++round) {
    std::string bytes = good;
    // The first bytes decide the format: without them it is plain text, which is not read here.
    bytes[6 + random() % (bytes.size() - 6)] ^= static_cast<char>(1 << random() % 8);
    std::string found;
    const std::string error = error_of([&] { found = decoded(bytes); });
    num_noticed += error.empty() ? 0 : 1;
    if (error.empty()) {
      ASSERT_EQ(found, text) << "round " << round;
    }
  }
  // A few bits mean nothing: gzip's time and system, bzip2's and deflate's last bits.
  EXPECT_GE(num_noticed, 990);
}

TEST_P(Decompress, RefusesWhatFollowsTheLastStream) {
  const std::string one = GetParam().compress("x");
  EXPECT_NE(error_of_bytes(one + "garbage, not a stream"), "");
  EXPECT_NE(error_of_bytes(one + "g"), "");
  EXPECT_NE(error_of_bytes(one + one.substr(0, 5)), "");
  // Zeros: padding after gzip, and after xz in fours.
  const std::string name = GetParam().name;
  for (const size_t num_zeros : {1, 3, 4, 8, 5000}) {
    const bool padding = name == "gzip" || (name == "xz" && num_zeros % 4 == 0);
    EXPECT_EQ(error_of_bytes(one + std::string(num_zeros, '\0')) == "", padding) << num_zeros;
    EXPECT_EQ(error_of_bytes(one + std::string(num_zeros, '\0') + one) == "", padding);
  }
}

TEST_P(Decompress, AnEmptyTextIsNoError) {
  EXPECT_EQ(decoded(GetParam().compress("")), "");
  EXPECT_EQ(decoded(GetParam().compress("") + GetParam().compress("")), "");
}

TEST_P(Decompress, TooMuchOutputIsALimit) {
  const std::string bytes = GetParam().compress("0123456789") + GetParam().compress("0123456789");
  for (const bool read_ahead : {false, true}) {
    EXPECT_EQ(decoded(bytes, {.max_output_bytes = 20, .read_ahead = read_ahead}).size(), 20u);
    try {
      decoded(bytes, {.max_output_bytes = 19, .read_ahead = read_ahead});
      FAIL() << "20 bytes passed";
    } catch (const LimitExceeded& error) {
      EXPECT_THAT(error.what(), HasSubstr("made up: "));
      EXPECT_THAT(error.what(), HasSubstr("--max-output"));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, Decompress,
                         ::testing::Values(Format{"gzip", gzip}, Format{"gzip", gzip, "zlib"},
                                           Format{"xz", xz}, Format{"zstd", zstd},
                                           Format{"bzip2", bzip2}),
                         [](const auto& tested) {
                           return std::string(tested.param.name) + tested.param.gzip_library;
                         });

class DecompressGzip : public Decompress {};

// Header fields of RFC 1952: extra, name, comment, header checksum.
TEST_P(DecompressGzip, ReadsEveryKindOfGzipHeader) {
  const std::string plain = gzip("text"), body = plain.substr(10);
  const std::string extra(
      "\x05\x00"
      "a\0b\0c",
      7),
      name("file.jsonl\0", 11), comment("ha!\0", 4);
  for (int flags = 0; flags < 32; ++flags) {
    std::string header = plain.substr(0, 10);
    header[3] = static_cast<char>(flags);
    if ((flags & 4) != 0) header += extra;
    if ((flags & 8) != 0) header += name;
    if ((flags & 16) != 0) header += comment;
    if ((flags & 2) != 0) {
      const uint32_t crc = crc32_of(header);
      header += static_cast<char>(crc);
      header += static_cast<char>(crc >> 8);
    }
    const std::string member = header + body;
    for (const size_t max_piece_bytes : {1, 5, 1000}) {
      const auto source =
          decode(std::make_unique<StringSource>(member + member, max_piece_bytes), "made up");
      EXPECT_EQ(read_all(*source), "texttext") << flags;
    }
    for (size_t size = 10; size < member.size(); ++size)
      EXPECT_NE(error_of_bytes(member.substr(0, size)), "") << flags << " " << size;
    if ((flags & 2) != 0) {
      std::string flipped = member;
      flipped[4] ^= 1;
      EXPECT_NE(error_of_bytes(flipped), "") << "header checksum";
    }
    header[3] |= '\x20';
    EXPECT_NE(error_of_bytes(header + body), "") << "reserved flag";
  }
}
INSTANTIATE_TEST_SUITE_P(Libraries, DecompressGzip,
                         ::testing::Values(Format{"isal", gzip}, Format{"zlib", gzip, "zlib"}),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST(DecompressOne, ReadsPlainTextOfAnyLength) {
  for (const char* text : {"", "{", "BZ", "{\"text\":\"abcdefghijk\"}\n"}) {
    const auto source = decode(std::make_unique<StringSource>(text, 1), "x.jsonl");
    EXPECT_EQ(read_all(*source), text);
  }
  const std::string text = some_text(1, 3000000);
  EXPECT_EQ(decoded(text, {.max_output_bytes = 10}), text) << "the limit is for compressed ones";
}

TEST(DecompressOne, TooShortFilesOfACompressedNameAreRefused) {
  for (const char* name : {"a.gz", "a.xz", "a.zst", "a.bz2"}) {
    EXPECT_THAT(error_of([&] { decode(std::make_unique<StringSource>(""), name); }),
                HasSubstr("incomplete"));
  }
}

TEST(DecompressOne, ReadsEveryKindOfZstdFrame) {
  EXPECT_EQ(decoded(gzip("a") + std::string(10, '\0') + gzip("b")), "ab");
  const std::string skip = zstd_skippable("xyz"), text = some_text(1, 500000);
  EXPECT_EQ(decoded(skip + zstd("a") + skip + zstd("b") + skip), "ab");
  EXPECT_EQ(decoded(skip), "");
  EXPECT_EQ(decoded(zstd_of_unknown_size(text) + zstd_of_unknown_size("", false)), text);
  EXPECT_NE(error_of([&] { decoded(zstd("a") + skip.substr(0, 9)); }), "");
}

TEST(DecompressOne, ZstdWindowsOver128MiBAreALimit) {
  const auto frame = [](char window) {
    return std::string("\x28\xB5\x2F\xFD\x00", 5) + window + std::string("\x09\x00\x00x", 4);
  };
  EXPECT_EQ(decoded(frame('\x88')), "x") << "2^27";
  EXPECT_THAT(limit_of(frame('\x89')), HasSubstr("needs 150994944 bytes"));
  EXPECT_THAT(limit_of(frame('\xA8')), HasSubstr("needs 2147483648 bytes"));
}

// The size that the message says is the smallest one that will do.
TEST(DecompressOne, WindowsSayHowLargeTheyMustBe) {
  const std::string text = some_text(1, 100'000);
  const std::string needs_32k =
      zstd_of_unknown_size(text, true, 10) + zstd_of_unknown_size(text, true, 15);
  const std::string needs_1m = xz_blocks({"a", text}, {.claimed_dictionary_bytes = 1 << 20});
  for (const auto& [bytes, whole] :
       {std::pair(needs_32k, text + text), std::pair(needs_1m, "a" + text)}) {
    const int64_t too_small = bytes == needs_32k ? 2'000 : 500'000;
    for (const int num_threads : {1, 3}) {
      const std::string message =
          limit_of(bytes, {.max_bytes = too_small, .num_threads = num_threads});
      EXPECT_THAT(message, HasSubstr("made up: "));
      const std::string option = "--decoder-memory ";
      const size_t at = message.find(option);
      ASSERT_NE(at, std::string::npos) << message;
      const int64_t needed = std::stoll(message.substr(at + option.size()));
      EXPECT_EQ(decoded(bytes, {.decoder = {.max_bytes = needed, .num_threads = num_threads}}),
                whole);
      EXPECT_NE(limit_of(bytes, {.max_bytes = needed - 1, .num_threads = num_threads}), "");
    }
  }
  EXPECT_THAT(limit_of(needs_32k, {.max_bytes = 2'000}), HasSubstr("needs 32768 bytes"));
}

TEST(DecompressOne, XzBlocksAreDecodedSideBySide) {
  std::vector<std::string> texts;
  std::string whole;
  for (uint32_t i = 0; i < 8; ++i) whole += texts.emplace_back(some_text(i, 150'000));
  for (const bool sizes : {false, true}) {
    const std::string one = xz_blocks(texts, {.block_sizes_in_headers = sizes});
    const std::string bytes = one + std::string(8, '\0') + xz_blocks({}) + one;
    for (const int num_threads : {1, 2, 7}) {
      const DecodeOptions options{.decoder = {.num_threads = num_threads}};
      EXPECT_EQ(decoded(bytes, options), whole + whole);
      EXPECT_THAT(error_of([&] { decoded(bytes.substr(0, bytes.size() - 40'000), options); }),
                  HasSubstr("compressed byte "));
      std::string flipped = bytes;
      flipped[one.size() / 2] ^= 0x10;
      EXPECT_THAT(error_of([&] { decoded(flipped, options); }), HasSubstr("compressed byte "));
    }
  }
}

TEST(DecompressOne, ReadsXzWithFiltersAndAllChecks) {
  const std::string text = some_text(1, 100000);
  for (const auto check :
       {LZMA_CHECK_NONE, LZMA_CHECK_CRC32, LZMA_CHECK_CRC64, LZMA_CHECK_SHA256}) {
    for (const bool x86 : {false, true})
      EXPECT_EQ(decoded(xz_blocks({text, "", "x"}, {check, true, x86})), text + "x");
  }
}

}  // namespace
}  // namespace weft
