#include "preprocess/compressed/input_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <fstream>
#include <random>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "indexed_dataset/base/process/exit_code.h"
#include "preprocess/inputs/input_list.h"
#include "tests/preprocess/compressed/byte_sources.h"
#include "tests/preprocess/compressed/compressors.h"
#include "tests/temporary_folder.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kManyParts = int64_t{1} << 40;
constexpr LayoutLimits kEveryPart{.min_part_bytes = 1, .max_parts = kManyParts};

class Layouts : public ::testing::Test {
 protected:
  void write(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
  }
  std::string read_range(const InputLayout& layout, int64_t begin, int64_t end) {
    return read_all(*open_input_range(path_, layout, begin, end, cancelled_));
  }
  std::string read_parts(const InputLayout& layout) {
    std::string text;
    for (size_t i = 0; i < layout.part_begins.size(); ++i)
      text += read_range(layout, layout.part_begins[i], end_of_part(layout, i));
    return text;
  }
  static int64_t end_of_part(const InputLayout& layout, size_t part) {
    return part + 1 < layout.part_begins.size() ? layout.part_begins[part + 1] : layout.file_bytes;
  }

  // Writes `bytes`, and checks that any grouping of its parts gives `text`. Returns the layout.
  InputLayout expect_text(const std::string& bytes, const std::string& text,
                          const LayoutLimits& limits = kEveryPart) {
    write(bytes);
    const InputLayout layout = input_layout(path_, limits);
    EXPECT_EQ(layout.file_bytes, static_cast<int64_t>(bytes.size()));
    EXPECT_EQ(layout.part_begins.at(0), 0);
    EXPECT_EQ(read_all(*open_input(path_, cancelled_)), text) << "the file is not as meant";
    EXPECT_EQ(read_range(layout, 0, layout.file_bytes), text);
    EXPECT_EQ(read_parts(layout), text);
    std::mt19937 random(5);
    for (int round = 0; round < 8; ++round) {
      std::string grouped;
      int64_t begin = 0;
      for (size_t i = 0; i < layout.part_begins.size(); ++i) {
        if (random() % 3 == 0 && i + 1 < layout.part_begins.size()) continue;
        grouped += read_range(layout, begin, end_of_part(layout, i));
        begin = end_of_part(layout, i);
      }
      EXPECT_EQ(grouped, text);
    }
    return layout;
  }

  // The message of reading all parts; "" if that goes well.
  std::string error_of_parts(const InputLayout& layout) {
    try {
      read_parts(layout);
      return "";
    } catch (const std::runtime_error& error) {
      return error.what();
    }
  }

  TemporaryFolder folder_;
  std::string path_ = folder_.path() / "input";
  std::atomic<bool> cancelled_{false};
};

std::vector<std::string> some_texts(int num_texts, uint32_t max_bytes = 150000) {
  std::vector<std::string> texts;
  std::mt19937 random(11);
  for (int i = 0; i < num_texts; ++i)
    texts.push_back(
        some_text(static_cast<uint32_t>(i), random() % 9 == 0 ? 0 : random() % max_bytes));
  return texts;
}
std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += text;
  return all;
}

TEST_F(Layouts, PlainFilesAreCutAnywhere) {
  const std::string text = some_text(1, 100000);
  const InputLayout layout = expect_text(text, text);
  EXPECT_EQ(layout.format, "plain");
  EXPECT_TRUE(layout.cut_anywhere);
  EXPECT_THAT(layout.part_begins, ElementsAre(0));
  EXPECT_EQ(read_range(layout, 17, 99983), text.substr(17, 99983 - 17));
  EXPECT_EQ(read_range(layout, 17, 17), "");
  const InputLayout empty = expect_text("", "");
  EXPECT_TRUE(empty.cut_anywhere);
  EXPECT_EQ(empty.file_bytes, 0);
}

TEST_F(Layouts, GzipBzip2AndXzAreOnePart) {
  for (const auto compress : {gzip, bzip2, xz}) {
    const InputLayout layout = expect_text(compress("one\n") + compress("two\n"), "one\ntwo\n");
    EXPECT_FALSE(layout.cut_anywhere);
    EXPECT_THAT(layout.part_begins, ElementsAre(0));
  }
}

TEST_F(Layouts, ZstdPartsAreFrames) {
  const auto texts = some_texts(40);
  std::string bytes;
  std::vector<int64_t> begins;
  for (size_t i = 0; i < texts.size(); ++i) {
    begins.push_back(static_cast<int64_t>(bytes.size()));
    bytes += i % 2 == 0 ? zstd(texts[i]) : zstd_of_unknown_size(texts[i], i % 4 == 1);
  }
  EXPECT_EQ(expect_text(bytes, joined(texts)).part_begins, begins);
  const auto gathered = expect_text(bytes, joined(texts), {.min_part_bytes = 50000}).part_begins;
  EXPECT_GT(gathered.size(), 3u);
  EXPECT_LT(gathered.size(), begins.size());
}

TEST_F(Layouts, SkippableZstdFramesBelongToThePartBefore) {
  const std::string a = zstd("one\n"), b = zstd("two\n"), skip = zstd_skippable("ignored", 7);
  const auto layout = expect_text(skip + a + skip + skip + b + skip, "one\ntwo\n");
  EXPECT_THAT(layout.part_begins, ElementsAre(0, skip.size(), 3 * skip.size() + a.size()));
}

TEST_F(Layouts, ZstdPartsByPzstdsHintsAndBySeekTable) {
  const auto texts = some_texts(30);
  const auto hinted = expect_text(pzstd(texts), joined(texts));
  EXPECT_EQ(hinted.part_begins.size(), texts.size() + 1) << "the first has a hint before it";
  const auto tabled = expect_text(zstd_seekable(texts), joined(texts));
  EXPECT_EQ(tabled.part_begins.size(), texts.size());
  // The search took the hints and the table, not the blocks.
  const LayoutLimits no_blocks{
      .min_part_bytes = 1, .max_parts = kManyParts, .max_blocks_per_frame = 0};
  EXPECT_EQ(input_layout(path_, no_blocks).part_begins, tabled.part_begins);
  write(pzstd(texts));
  EXPECT_EQ(input_layout(path_, no_blocks).part_begins, hinted.part_begins);
}

TEST_F(Layouts, ZstdSeekTablesThatLieAreNotBelieved) {
  const std::string a = zstd(some_text(1, 5000)), b = zstd(some_text(2, 6000));
  const std::string text = some_text(1, 5000) + some_text(2, 6000);
  const auto size_a = static_cast<uint32_t>(a.size()), size_b = static_cast<uint32_t>(b.size());
  const std::vector<std::vector<uint32_t>> lies = {
      {size_a + 1, size_b - 1},  {size_a, size_b + 1}, {size_a, size_b, 1},    {size_a, 0, size_b},
      {0xFFFFFFFFU, 0xFFFFFFFF}, {size_b, size_a},     {size_a, size_b - 8, 8}};
  for (const auto& lie : lies) {
    for (const bool checksums : {false, true}) {
      const auto layout = expect_text(a + b + zstd_seek_table(lie, checksums), text);
      EXPECT_THAT(layout.part_begins, ElementsAre(0, size_a)) << "found by walking";
    }
  }
  // A number of frames that no file could hold.
  std::string table = zstd_seek_table({size_a, size_b});
  table.replace(table.size() - 9, 4, "\xFF\xFF\xFF\xFF");
  EXPECT_THAT(expect_text(a + b + table, text).part_begins, ElementsAre(0, size_a));
}

TEST_F(Layouts, AMagicNumberInsideAZstdFrameCannotMakeOtherBytes) {
  // A frame that holds, uncompressed, another frame; and a table and a hint that point into it.
  std::mt19937 random(3);
  std::string noise(3000, '\0');
  for (char& byte : noise) byte = static_cast<char>(random());
  const std::string inner = zstd("inner");
  const std::string outer = zstd(noise + inner + noise);
  const size_t at = outer.find(inner);
  ASSERT_NE(at, std::string::npos) << "zstd compressed the noise";
  const auto first = static_cast<uint32_t>(at), second = static_cast<uint32_t>(outer.size() - at);
  std::string hint(4, '\0');
  hint[0] = static_cast<char>(first);
  hint[1] = static_cast<char>(first >> 8);
  for (const std::string& bytes :
       {outer + zstd_seek_table({first, second}), zstd_skippable(hint) + outer}) {
    write(bytes);
    const InputLayout layout = input_layout(path_, kEveryPart);
    ASSERT_GT(layout.part_begins.size(), 1u);
    EXPECT_THAT(error_of_parts(layout), HasSubstr("compressed byte "));
    EXPECT_EQ(read_range(layout, 0, layout.file_bytes), noise + inner + noise);
  }
}

TEST_F(Layouts, TheSearchForZstdFramesEndsAtLargeFramesAndAfterItsReads) {
  const std::string large = some_text(5, 4 << 20);  // 32 blocks
  const std::string frame = zstd("a\n"), unknown = zstd_of_unknown_size(large);
  const LayoutLimits few_blocks{
      .min_part_bytes = 1, .max_parts = kManyParts, .max_blocks_per_frame = 20};
  const auto size = frame.size();
  EXPECT_THAT(expect_text(frame + unknown + frame, "a\n" + large + "a\n", few_blocks).part_begins,
              ElementsAre(0, size));
  EXPECT_THAT(
      expect_text(frame + zstd(large) + frame, "a\n" + large + "a\n", few_blocks).part_begins,
      ElementsAre(0, size));
  const LayoutLimits few_reads{.min_part_bytes = 1, .max_parts = kManyParts, .max_reads = 3};
  EXPECT_THAT(expect_text(frame + unknown + frame, "a\n" + large + "a\n", few_reads).part_begins,
              ElementsAre(0, size));
  EXPECT_EQ(expect_text(frame + unknown + frame, "a\n" + large + "a\n").part_begins.size(), 3u);
}

// Every part of a file with one flipped bit, or cut off, gives an error or the right text.
class DamagedLayouts : public Layouts, public ::testing::WithParamInterface<const char*> {};

TEST_P(DamagedLayouts, AreDetected) {
  const auto texts = some_texts(6, 40000);
  const std::string text = joined(texts);
  const std::string good = std::string(GetParam()) == "pzstd" ? pzstd(texts) : zstd_seekable(texts);
  std::mt19937 random(9);
  for (int round = 0; round < 300; ++round) {
    std::string bytes = good;
    bytes[6 + random() % (bytes.size() - 6)] ^= static_cast<char>(1 << random() % 8);
    write(bytes);
    try {
      // A file that says "plain" has lost the magic number and is another test's.
      const InputLayout layout = input_layout(path_, kEveryPart);
      EXPECT_EQ(read_parts(layout), text);
    } catch (const std::runtime_error& error) {
      EXPECT_THAT(error.what(), HasSubstr("compressed byte "));
    }
  }
  // Tables stand at the end, hints at the start: several wrong bytes there.
  for (int round = 0; round < 300; ++round) {
    std::string bytes = good;
    const size_t range = std::min<size_t>(bytes.size() - 8, 80);
    for (uint32_t changes = 1 + random() % 8; changes > 0; --changes) {
      const size_t at = random() % range;
      bytes[random() % 2 == 0 ? bytes.size() - 1 - at : 8 + at] =
          static_cast<char>(random() % 3 == 0 ? 0xFF : random());
    }
    write(bytes);
    try {
      EXPECT_EQ(read_parts(input_layout(path_, kEveryPart)), text);
    } catch (const std::runtime_error& error) {
      EXPECT_THAT(error.what(), HasSubstr("compressed byte "));
    }
  }
  for (int round = 0; round < 100; ++round) {
    const size_t size = 12 + random() % (good.size() - 12);
    write(good.substr(0, size));
    const std::string error = error_of_parts(input_layout(path_, kEveryPart));
    EXPECT_THAT(error, HasSubstr("compressed byte ")) << size;
  }
}
INSTANTIATE_TEST_SUITE_P(Formats, DamagedLayouts, ::testing::Values("seekable", "pzstd"),
                         [](const auto& tested) { return std::string(tested.param); });

TEST_F(Layouts, AFileThatChangesDuringTheRunIsRefused) {
  const std::string text = some_text(1, 10000);
  write(text);
  const InputLayout layout = input_layout(path_);
  write(text + "more");
  EXPECT_THROW(read_range(layout, 0, 10000), std::runtime_error);
  write(text.substr(1));
  EXPECT_THROW(read_range(layout, 0, 100), std::runtime_error);
  write(text);
  const auto source = open_input_range(path_, layout, 0, 10000, cancelled_);
  write("short");
  EXPECT_THROW(read_all(*source), std::runtime_error);
  cancelled_ = true;
  write(text);
  EXPECT_THROW(read_range(layout, 0, 10000), ReadCancelled);
}

TEST_F(Layouts, RangesThatBeginNoPartAreMistakes) {
  write(zstd("one\n") + zstd("two\n"));
  const InputLayout layout = input_layout(path_, kEveryPart);
  EXPECT_THROW(read_range(layout, 1, layout.file_bytes), std::logic_error);
  EXPECT_THROW(read_range(layout, 0, layout.file_bytes + 1), std::logic_error);
  EXPECT_THROW(read_range(layout, 0, layout.part_begins[1] + 1), std::logic_error);
}

}  // namespace
}  // namespace weft
