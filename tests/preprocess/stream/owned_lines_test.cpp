// Lines that a range owns, against their definition: a line belongs to the range in which the byte
// before its first one lies, the first line to the first range.
#include "preprocess/stream/owned_lines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "indexed_dataset/base/process/exit_code.h"
#include "preprocess/inputs/work_plan.h"
#include "preprocess/rank/task_reader.h"
#include "tests/preprocess/compressed/byte_sources.h"
#include "tests/preprocess/compressed/compressors.h"
#include "tests/temporary_folder.h"

namespace weft {
namespace {

struct LineRange {
  size_t begin, end;  // its line end included
};

std::vector<LineRange> line_ranges_of(const std::string& text) {
  std::vector<LineRange> lines;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = text.find_first_of("\r\n", begin);
    if (end == std::string::npos) {
      end = text.size();
    } else {
      end += text.compare(end, 2, "\r\n") == 0 ? 2 : 1;
    }
    lines.push_back({begin, end});
    begin = end;
  }
  return lines;
}

// The lines of the range [begin, end), and where the first of them begins (end if there is none).
LineRange owned(const std::vector<LineRange>& lines, size_t begin, size_t end) {
  LineRange all{end, end};
  bool has_any = false;
  for (const LineRange& line : lines) {
    const size_t byte_before = line.begin == 0 ? 0 : line.begin - 1;
    if (byte_before < begin || byte_before >= end) continue;
    if (!has_any) all.begin = line.begin;
    all.end = line.end;
    has_any = true;
  }
  if (!has_any) all.end = all.begin;
  return all;
}

void check_range(const std::string& text, size_t begin, size_t end, size_t step, size_t read_size) {
  const LineRange want = owned(line_ranges_of(text), begin, end);
  OwnedLines::OpenRest open_rest;
  if (end < text.size()) {
    open_rest = [&] { return std::make_unique<StringSource>(text.substr(end), step); };
  }
  OwnedLines lines(std::make_unique<StringSource>(text.substr(begin, end - begin), step), open_rest,
                   begin == 0);
  ASSERT_EQ(read_all(lines, read_size), text.substr(want.begin, want.end - want.begin))
      << "range " << begin << " to " << end << ", steps of " << step << ", reads of " << read_size;
  EXPECT_EQ(lines.num_range_bytes(), static_cast<int64_t>(end - begin));
  if (want.end > want.begin) {
    EXPECT_EQ(lines.first_offset_bytes(), static_cast<int64_t>(want.begin - begin));
  }
}

// Every text of few letters, every range, every size of reads: nothing is left to chance here.
TEST(OwnedLines, RangesOfAllShortTextsMakeTheWhole) {
  constexpr char kLetters[] = {'a', '\n', '\r'};
  for (size_t length = 1; length <= 6; ++length) {
    size_t count = 1;
    for (size_t i = 0; i < length; ++i) count *= 3;
    for (size_t code = 0; code < count; ++code) {
      std::string text;
      for (size_t rest = code; text.size() < length; rest /= 3) text += kLetters[rest % 3];
      for (size_t begin = 0; begin < length; ++begin) {
        for (size_t end = begin + 1; end <= length; ++end) {
          for (size_t step = 1; step <= 3; ++step) {
            check_range(text, begin, end, step, 1 + (code + step) % 7);
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

std::string random_text(std::mt19937& random, size_t max_bytes, size_t max_line_bytes) {
  std::string text;
  const size_t size = random() % max_bytes + 1;
  while (text.size() < size) {
    text.append(random() % 4 == 0 ? random() % max_line_bytes : random() % 8, 'x');
    constexpr const char* kEnds[] = {"\n", "\r\n", "\r", "\n\n", "\r\r\n"};
    text += kEnds[random() % 5];
  }
  if (random() % 2 == 0) text.resize(size);
  return text;
}

TEST(OwnedLines, RangesOfRandomTextsMakeTheWhole) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const std::string text = random_text(random, 200, 60);
    for (size_t cut = 1; cut < text.size(); ++cut) {
      const size_t step = random() % 7 + 1, read_size = random() % 7 + 1;
      check_range(text, 0, cut, step, read_size);
      check_range(text, cut, text.size(), step, read_size);
      const size_t other = cut + random() % (text.size() - cut) + 1;
      check_range(text, cut, other, step, read_size);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(OwnedLines, LinesLongerThanItsBlocks) {
  std::mt19937 random(2);
  for (int round = 0; round < 20; ++round) {
    const std::string text = random_text(random, 400'000, 300'000);
    const size_t begin = random() % text.size(), end = begin + random() % (text.size() - begin) + 1;
    check_range(text, begin, end, random() % 100'000 + 1, random() % 100'000 + 1);
    if (HasFatalFailure()) return;
  }
}

// A task that is read to some place, and from there by another reader, gives the same lines.
class TaskReading : public ::testing::Test {
 protected:
  void write_input(const std::string& bytes) { std::ofstream(path_, std::ios::binary) << bytes; }
  // Reads task by task; begins each chunk anew where `restart` says so.
  std::string read_tasks(int64_t task_bytes, size_t chunk_bytes, std::mt19937* random) {
    const std::atomic<bool> cancelled{false};
    const WorkPlan plan = plan_work(make_inputs({path_}), task_bytes, cancelled);
    num_tasks_ = std::ssize(plan.tasks);
    RankOptions options;
    options.chunk_bytes = chunk_bytes;
    std::string text;
    int64_t range_bytes = 0;
    for (const Task& task : plan.tasks) {
      int64_t next = 0;
      const auto open = [&] {
        return open_task(plan.input_of(task), task, next, options, DecodeOptions{}, cancelled);
      };
      auto reader = open();
      Chunk chunk;
      while (reader->next(chunk)) {
        // Where the text stands in its task: the lines begin behind the earlier tasks' bytes.
        EXPECT_EQ(range_bytes + chunk.lines.offset_bytes, static_cast<int64_t>(text.size()));
        text += chunk.lines.text();
        next = reader->next_offset_bytes();
        if (random != nullptr && (*random)() % 2 == 0) {
          reader = open();
        }
      }
      range_bytes += reader->num_range_bytes();
    }
    EXPECT_EQ(range_bytes, static_cast<int64_t>(text.size()));
    return text;
  }

  TemporaryFolder folder_;
  std::string path_ = folder_.path() / "in";
  int64_t num_tasks_ = 0;
};

TEST_F(TaskReading, PlainFilesFromAnyPlace) {
  std::mt19937 random(3);
  for (int round = 0; round < 60; ++round) {
    const std::string text = random_text(random, 600, 100);
    write_input(text);
    for (const int64_t task_bytes : {1, 2, 3, 7, 50, 1000}) {
      ASSERT_EQ(read_tasks(task_bytes, random() % 40 + 1, &random), text) << task_bytes;
    }
  }
}

TEST_F(TaskReading, CompressedFilesFromAnyPlace) {
  std::mt19937 random(4);
  std::vector<std::string> texts;
  std::string text;
  for (int i = 0; i < 6; ++i) {
    texts.push_back(random_text(random, 1'200'000, 2'000));
    texts.back().resize(700'000, 'y');  // frames end in the middle of lines
    text += texts.back();
  }
  for (const std::string& bytes :
       {zstd_seekable(texts), pzstd(texts), xz_blocks(texts), gzip(text)}) {
    write_input(bytes);
    EXPECT_EQ(read_tasks(1, 100'000, &random), text);
    EXPECT_EQ(read_tasks(1, 300'000, nullptr), text);
  }
}

// Incompressible enough that frames are large: cut into several tasks indeed.
TEST_F(TaskReading, PartsOfCompressedFilesAreTasks) {
  std::vector<std::string> texts;
  std::string text;
  for (uint32_t i = 0; i < 5; ++i) {
    texts.push_back(some_text(i, 900'000));
    text += texts.back();
  }
  std::mt19937 random(5);
  write_input(zstd_seekable(texts));
  EXPECT_EQ(read_tasks(1, 100'000, &random), text);
  EXPECT_GT(num_tasks_, 1);
  write_input(xz_blocks(texts));  // by its own threads
  EXPECT_EQ(read_tasks(1, 100'000, &random), text);
  EXPECT_EQ(num_tasks_, 1);
}

}  // namespace
}  // namespace weft
