// The memory of weft-data preprocess: at most 256 MiB, and for each worker 64 MiB and kLineMultiple
// times its longest line. WEFT_MEMORY_LINE_MIB is the size of the long lines.

#include <linux/magic.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <ostream>

#include "indexed_dataset/base/storage/file_io.h"
#include "tests/preprocess/compressed/compressors.h"
#include "tests/preprocess/run/memory_run.h"

namespace weft {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kLineBytes = int64_t{WEFT_MEMORY_LINE_MIB} * kMiB;
constexpr bool kIsLong = WEFT_MEMORY_LINE_MIB > 100;
// The line and its text, a token of four bytes for each byte, and as much again while that grows.
constexpr int64_t kLineMultiple = 10;

// Such lines have a token for each byte, or take more than one copy of their text.
struct Kind {
  const char* name;
  std::string unit, head = R"({"text": ")", tail = R"("})";

  // Or its addresses, other ones in each run, become part of the test's name.
  friend void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }
};
const std::vector<Kind> kKinds = {
    {"digits", "7351946028164"},
    {"Han", "\u6f22\u5b57\u8a9e\u4e2d"},
    {"punctuation", ".;:-_#+*~<>|!?"},
    {"escapes", R"(\u0041)"},
    {"strings in a list", R"("a",)", R"({"text": [)", R"("a"]})"},
    {"a key with escapes", R"(\u0041)", R"({")", R"(": 1, "text": "a"})"},
};
[[maybe_unused]] const std::vector<Kind> kMoreKinds = {
    {"prose", "it is a truth universally acknowledged, "},
    {"letters", "qzjxkvbwpyg"},
    {"one letter", "a"},
    {"spaces", " "},
    {"escaped Han", R"(\u6f22\u5b57)"},
    {"line breaks", R"(\n)"},
    {"backslashes", R"(\\)"},
    {"another key", "abc ", R"({"x": ")", R"(", "text": "a"})"},
    {"a list of numbers", "1,", R"({"x": [)", R"(1], "text": "a"})"},
    {"a number", "1", R"({"x": )", R"(, "text": "a"})"},
    {"space between", " ", R"({"x": 1, )", R"("text": "a"})"},
};

// A block at a time: the peak of a process counts for those it starts.
bool are_equal(const std::string& a, const std::string& b) {
  std::ifstream one(a, std::ios::binary), other(b, std::ios::binary);
  std::string block(kMiB, '\0'), other_block(kMiB, '\0');
  while (one && other) {
    one.read(block.data(), kMiB);
    other.read(other_block.data(), kMiB);
    if (one.gcount() != other.gcount() || block != other_block) return false;
  }
  return one.eof() && other.eof();
}

class Memory : public MemoryRun {
 protected:
  void expect_bounded(const std::string& input, int num_workers, int exit_code = 0,
                      int64_t bound_mib = 256) const {
    const End end =
        preprocess(input, num_workers, nullptr, {"--max-output", "350000000", "--dtype", "int32"});
    EXPECT_EQ(end.exit_code, exit_code) << end.log;
    EXPECT_LE(end.peak_mib, bound_mib + 64 * num_workers) << input;
  }
};

TEST_F(Memory, OrdinaryLinesStayWithinTheBound) {
  write_lines("ordinary", 20'000, 1'000);
  expect_bounded("ordinary", 1);
  expect_bounded("ordinary", 4);
}

TEST_F(Memory, ManyLinesOf10MiBStayWithinTheBound) {
  write_lines("lines of 10 MiB", 10, size_t{10} << 20);
  expect_bounded("lines of 10 MiB", 4, 0, 256 + 4 * kLineMultiple * 10);
}

// Each worker may have a long line.
TEST_F(Memory, LongLinesSideBySideStayWithinTheBound) {
  constexpr int kNumFiles = 2;
  write_line("line", "7351946028164", kLineBytes);
  write_file_atomically(path("in0"), gzip(read_file(path("line"))));
  std::filesystem::create_hard_link(path("in0"), path("in1"));
  const End end =
      preprocess("in0", kNumFiles, nullptr, {"--dtype", "int32", "--input", path("in1")});
  EXPECT_EQ(end.exit_code, 0) << end.log;
  EXPECT_NE(end.log.find("done: 2 documents"), std::string::npos) << end.log;
  EXPECT_LE(end.peak_mib, 256 + kNumFiles * (64 + kLineMultiple * int64_t{WEFT_MEMORY_LINE_MIB}));
}

TEST_F(Memory, BombsStayWithinTheBound) {
  for (const char* format : {"gzip", "xz", "zstd", "bzip2"}) {
    const std::string name = std::string("bomb of ") + format;
    const std::string part = compressed_zeros(format, 20 * kMiB);
    std::ofstream file(path(name), std::ios::binary);
    for (int i = 0; i < 20; ++i) file << part;
    file.close();
    expect_bounded(name, 1, 9, 256 + 256);  // it ends within a line of --max-line-bytes
  }
}

// As many files as workers, each of which has a large window and fills it.
TEST_F(Memory, LargeWindowsStayWithinTheBound) {
  constexpr int kNumFiles = 4;
  const std::string member = random_characters("etaoin shrdlu", 10'000);
  std::ofstream file(path("lines"), std::ios::binary);
  for (int64_t i = 0; i < 80 * kMiB / std::ssize(member); ++i)
    file << R"({"x": ")" << member << R"(", "text": "of )" << i << "\"}\n";
  file.close();
  const std::string command =
      "cd '" + folder_.path().string() + "' && xz -T1 --lzma2=preset=0,dict=64MiB < lines > in0";
  ASSERT_EQ(std::system(command.c_str()), 0);
  std::vector<std::string> options;
  for (int i = 1; i < kNumFiles; ++i) {
    std::filesystem::create_hard_link(path("in0"), path("in" + std::to_string(i)));
    options.insert(options.end(), {"--input", path("in" + std::to_string(i))});
  }
  const End end = preprocess("in0", kNumFiles, nullptr, options);
  ASSERT_EQ(end.exit_code, 0) << end.log;
  EXPECT_LE(end.peak_mib, 64 + (32 + 65) * kNumFiles);
}

bool is_in_memory(const std::filesystem::path& folder) {
  struct statfs status {};
  return ::statfs(folder.c_str(), &status) == 0 && status.f_type == TMPFS_MAGIC;
}

class MemoryOfLongLines : public Memory, public ::testing::WithParamInterface<Kind> {
 protected:
  void SetUp() override {
    Memory::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    write_line("line", GetParam().unit, kLineBytes, GetParam().head, GetParam().tail);
  }
  std::vector<std::string> options() const {
    return {"--dtype", "int32", "--append-eod", "--max-line-bytes", "300000000"};
  }
};

// Beyond what a worker holds anyway.
TEST_P(MemoryOfLongLines, IsBounded) {
  for (const int num_workers : kIsLong ? std::vector<int>{1, 4} : std::vector<int>{1}) {
    const End end = preprocess("line", num_workers, nullptr, options());
    EXPECT_EQ(end.exit_code, 0) << end.log;
    EXPECT_NE(end.log.find("done: 1 documents"), std::string::npos) << end.log;
    EXPECT_LE(end.peak_mib, 64 * num_workers + 64 + kLineMultiple * WEFT_MEMORY_LINE_MIB)
        << GetParam().name;
  }
}

// With the pages of its files, which the system may write out and drop but must hold for a moment.
TEST_P(MemoryOfLongLines, FitsAControlGroup) {
  if (is_in_memory(folder_.path())) GTEST_SKIP() << folder_.path() << " is in memory itself";
  const std::string out = path("out_text_document"), expected = path("expected");
  ASSERT_EQ(preprocess("line", 1, nullptr, options()).exit_code, 0);
  for (const char* suffix : {".bin", ".idx"})
    std::filesystem::rename(out + suffix, expected + suffix);
  for (const int num_workers : kIsLong ? std::vector<int>{1, 4} : std::vector<int>{1}) {
    std::string reason;
    const auto group = MemoryGroup::make(
        ((kIsLong ? 256 : 64) + 64 * num_workers) * kMiB + kLineMultiple * kLineBytes, reason);
    if (!group) GTEST_SKIP() << reason;
    const End limited = preprocess("line", num_workers, &*group, options());
    ASSERT_EQ(limited.exit_code, 0) << limited.log;
    for (const char* suffix : {".bin", ".idx"}) {
      EXPECT_TRUE(are_equal(expected + suffix, out + suffix)) << suffix;
    }
  }
}

std::string name_of(const ::testing::TestParamInfo<Kind>& info) {
  std::string name = info.param.name;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Some, MemoryOfLongLines, ::testing::ValuesIn(kKinds), name_of);
#if WEFT_MEMORY_LINE_MIB > 100
INSTANTIATE_TEST_SUITE_P(More, MemoryOfLongLines, ::testing::ValuesIn(kMoreKinds), name_of);
#endif

// Inputs that are no long lines, in half of the memory: the bound's other half is for such lines.
TEST_F(Memory, AnyInputFitsAControlGroup) {
  if (is_in_memory(folder_.path())) GTEST_SKIP() << folder_.path() << " is in memory itself";
  write_lines("ordinary", 10'000, 1'000);
  std::ifstream file(path("ordinary"), std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  ASSERT_EQ(preprocess("ordinary", 1).exit_code, 0);
  const std::string bin = read_file(path("out_text_document.bin"));
  const std::vector<std::pair<const char*, std::string>> inputs = {{"plain", text},
                                                                   {"gzip", gzip(text)},
                                                                   {"xz", xz(text)},
                                                                   {"zstd", zstd(text)},
                                                                   {"bzip2", bzip2(text)}};
  for (const auto& [format, bytes] : inputs) {
    const std::string name = std::string("text of ") + format;
    std::ofstream(path(name), std::ios::binary) << bytes;
    std::string reason;
    const auto group = MemoryGroup::make((128 + 64) * kMiB, reason);
    if (!group) GTEST_SKIP() << reason;
    const End end = preprocess(name, 1, &*group);
    ASSERT_EQ(end.exit_code, 0) << end.log;
    EXPECT_TRUE(read_file(path("out_text_document.bin")) == bin) << format;
  }
  for (const char* format : {"gzip", "xz", "zstd", "bzip2"}) {
    std::ofstream bomb(path("bomb"), std::ios::binary);
    const std::string part = compressed_zeros(format, 20 * kMiB);
    for (int i = 0; i < 20; ++i) bomb << part;
    bomb.close();
    std::string reason;
    const auto group = MemoryGroup::make((512 + 64) * kMiB, reason);
    if (!group) GTEST_SKIP() << reason;
    const End end = preprocess("bomb", 1, &*group, {"--max-output", "350000000"});
    EXPECT_EQ(end.exit_code, 9) << end.log;
  }
}

}  // namespace
}  // namespace weft
