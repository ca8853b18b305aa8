#include "preprocess/stream/line_chunks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>

#include "preprocess/documents/text_reader.h"
#include "tests/preprocess/compressed/byte_sources.h"

namespace weft {
namespace {

struct Line {
  int64_t offset_bytes;
  std::string text;  // "(too long)" for one over the limit
  bool operator==(const Line&) const = default;
};
void PrintTo(const Line& line, std::ostream* out) { *out << line.offset_bytes << ":" << line.text; }

// Python's universal newlines, byte by byte.
std::vector<Line> simple_lines(const std::string& text, size_t max_line_bytes) {
  std::vector<Line> lines;
  size_t start = 0;
  const auto end_line = [&](size_t end) {
    const std::string line = text.substr(start, end - start);
    lines.push_back(
        {static_cast<int64_t>(start), line.size() > max_line_bytes ? "(too long)" : line});
  };
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\n' && text[i] != '\r') continue;
    end_line(i);
    if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') ++i;
    start = i + 1;
  }
  if (start < text.size()) end_line(text.size());
  return lines;
}

std::vector<Line> chunked_lines(const std::string& text, size_t piece, size_t chunk_bytes,
                                size_t max_line_bytes) {
  StringSource source(text, piece);
  LineChunker chunker(source, chunk_bytes, max_line_bytes);
  std::vector<Line> lines;
  LineChunk chunk;
  while (chunker.next(chunk)) {
    if (chunk.is_too_long_line) {
      lines.push_back({chunk.offset_bytes, "(too long)"});
      continue;
    }
    LineWalker walker(chunk.text());
    std::string_view line;
    while (walker.next(line)) {
      lines.push_back({chunk.offset_bytes + (line.data() - chunk.buffer.data()),
                       line.size() > max_line_bytes ? "(too long)" : std::string(line)});
    }
  }
  EXPECT_EQ(chunker.offset_bytes(), static_cast<int64_t>(text.size()));
  return lines;
}

TEST(LineChunks, LinesEndAsInPython) {
  const std::vector<Line> expected = {{0, "a"}, {2, "b"}, {5, ""}, {6, "c"}, {8, ""}, {9, "d"}};
  EXPECT_EQ(chunked_lines("a\nb\r\n\nc\r\rd", 100, 100, 100), expected);
  EXPECT_TRUE(chunked_lines("", 1, 1, 1).empty());
}

TEST(LineChunks, LinesDoNotDependOnChunksOrReads) {
  std::mt19937 random(20261120);
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    const size_t size = random() % 60;
    // Few kinds of bytes, so that line ends meet every border.
    const std::string letters = round % 3 == 0 ? "ab\n" : "aaab\r\n";
    for (size_t i = 0; i < size; ++i) text += letters[random() % letters.size()];
    const size_t piece = 1 + random() % 9, chunk_bytes = 1 + random() % 20,
                 max_line_bytes = 1 + random() % 12;
    SCOPED_TRACE(::testing::PrintToString(text) + " piece " + std::to_string(piece) + " chunk " +
                 std::to_string(chunk_bytes) + " limit " + std::to_string(max_line_bytes));
    ASSERT_EQ(chunked_lines(text, piece, chunk_bytes, max_line_bytes),
              simple_lines(text, max_line_bytes));
  }
}

std::vector<int64_t> chunk_begins(const std::string& text, size_t begin, size_t piece,
                                  size_t chunk_bytes, size_t max_line_bytes) {
  StringSource source(text.substr(begin), piece);
  LineChunker chunker(source, chunk_bytes, max_line_bytes, static_cast<int64_t>(begin));
  std::vector<int64_t> begins;
  for (LineChunk chunk; chunker.next(chunk);) begins.push_back(chunk.offset_bytes);
  return begins;
}

// Lines that are longer than a chunk leave more than a chunk behind.
TEST(LineChunks, ReaderThatBeginsAtAChunkMakesTheSameChunks) {
  std::mt19937 random(20261122);
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (size_t lines = random() % 12; lines > 0; --lines) {
      text += std::string(random() % (random() % 3 == 0 ? 40 : 6), 'a');
      text += std::array{"\n", "\r\n", "\r", "\n"}[random() % 4];
    }
    text += std::string(random() % 8, 'b');
    const size_t chunk_bytes = 1 + random() % 12, max_line_bytes = 1 + random() % 50;
    SCOPED_TRACE(::testing::PrintToString(text) + " chunk " + std::to_string(chunk_bytes) +
                 " limit " + std::to_string(max_line_bytes));
    const std::vector<int64_t> all = chunk_begins(text, 0, 7, chunk_bytes, max_line_bytes);
    for (size_t i = 0; i < all.size(); ++i) {
      ASSERT_EQ(chunk_begins(text, static_cast<size_t>(all[i]), 1 + random() % 9, chunk_bytes,
                             max_line_bytes),
                std::vector<int64_t>(all.begin() + static_cast<std::ptrdiff_t>(i), all.end()))
          << "from " << all[i];
    }
  }
}

// The texts between blank lines, found line by line.
std::vector<Line> simple_paragraphs(const std::string& text, size_t max_bytes) {
  std::vector<Line> paragraphs;
  bool is_open = false;
  for (const Line& line : simple_lines(text, text.size())) {
    if (!line.text.empty() && is_open) {
      const auto begin = static_cast<size_t>(paragraphs.back().offset_bytes);
      paragraphs.back().text =
          text.substr(begin, static_cast<size_t>(line.offset_bytes) + line.text.size() - begin);
    } else if (!line.text.empty()) {
      paragraphs.push_back(line);
    }
    is_open = !line.text.empty();
  }
  for (Line& paragraph : paragraphs) {
    if (paragraph.text.size() > max_bytes) paragraph.text = "(too long)";
  }
  return paragraphs;
}

// Begins anew at every chunk, as a run does that was killed.
std::vector<Line> chunked_texts(const std::string& text, SplitAt split_at, size_t piece,
                                size_t chunk_bytes, size_t max_bytes) {
  std::vector<Line> texts;
  size_t begin = 0;
  TextReader reader(split_at, max_bytes);
  for (bool goes_on = true; goes_on;) {
    StringSource source(text.substr(begin), piece);
    LineChunker chunker(source, chunk_bytes, max_bytes, static_cast<int64_t>(begin), split_at);
    chunker.pass_byte_order_mark();
    LineChunk chunk;
    for (int num_chunks = 0; num_chunks < 3 && (goes_on = chunker.next(chunk)); ++num_chunks) {
      reader.open(chunk);
      while (reader.next()) {
        texts.push_back({reader.locator(), "(too long)"});
        if (reader.outcome().problem == LineProblem::kTooLong) continue;
        reader.each_text(0, [&](std::string_view each) {
          texts.back().text = each;
          return true;
        });
      }
    }
    begin = static_cast<size_t>(chunker.offset_bytes());
  }
  return texts;
}

TEST(LineChunks, TextsDoNotDependOnChunksOrReads) {
  std::mt19937 random(20261128);
  const std::string mark = "\xEF\xBB\xBF";
  for (int round = 0; round < 6000; ++round) {
    std::string text;
    const size_t size = random() % 60;
    const std::string letters = round % 3 == 0 ? "ab\n" : "aa\r\n";
    for (size_t i = 0; i < size; ++i) text += letters[random() % letters.size()];
    const size_t piece = 1 + random() % 9, chunk_bytes = 1 + random() % 20,
                 max_bytes = 1 + random() % 12;
    const bool has_mark = random() % 4 == 0;
    SCOPED_TRACE(::testing::PrintToString(text) + (has_mark ? " with mark" : "") + " piece " +
                 std::to_string(piece) + " chunk " + std::to_string(chunk_bytes) + " limit " +
                 std::to_string(max_bytes));
    const auto expected = [&](std::vector<Line> texts) {
      for (Line& each : texts) each.offset_bytes += has_mark ? 3 : 0;
      return texts;
    };
    const std::string whole = has_mark ? mark + text : text;
    ASSERT_EQ(chunked_texts(whole, SplitAt::kLine, piece, chunk_bytes, max_bytes),
              expected(simple_lines(text, max_bytes)));
    ASSERT_EQ(chunked_texts(whole, SplitAt::kBlankLine, piece, chunk_bytes, max_bytes),
              expected(simple_paragraphs(text, max_bytes)));
    std::vector<Line> one;
    if (!text.empty()) one = {{0, text.size() > max_bytes ? "(too long)" : text}};
    ASSERT_EQ(chunked_texts(whole, SplitAt::kNowhere, piece, chunk_bytes, max_bytes),
              expected(one));
  }
}

TEST(LineChunks, LineOverTheLimitIsHeldOnlyInPart) {
  StringSource source(std::string(1 << 22, 'x') + "\nend\n", 1 << 16);
  LineChunker chunker(source, 1 << 12, 1 << 14);
  LineChunk chunk;
  ASSERT_TRUE(chunker.next(chunk));
  EXPECT_TRUE(chunk.is_too_long_line);
  EXPECT_LE(chunk.buffer.size(), size_t{1} << 15);
  ASSERT_TRUE(chunker.next(chunk));
  EXPECT_EQ(chunk.text(), "end\n");
  EXPECT_EQ(chunk.offset_bytes, (1 << 22) + 1);
}

// Nothing of them says where they end, not even a byte that is no line end.
TEST(LineChunks, TextsOverTheLimitAreHeldOnlyInPart) {
  for (const auto& [split_at, text] : {std::pair{SplitAt::kNowhere, std::string(1 << 22, '\n')},
                                       {SplitAt::kNowhere, std::string(1 << 22, 'x')},
                                       {SplitAt::kBlankLine, std::string(1 << 22, 'x')}}) {
    StringSource source(text, 1 << 16);
    LineChunker chunker(source, 1 << 12, 1 << 14, 0, split_at);
    LineChunk chunk;
    ASSERT_TRUE(chunker.next(chunk));
    EXPECT_TRUE(chunk.is_too_long_line);
    EXPECT_EQ(chunk.num_bytes(), 1 << 22);
    EXPECT_LE(chunk.buffer.size(), size_t{1} << 15);
    EXPECT_FALSE(chunker.next(chunk));
  }
}

}  // namespace
}  // namespace weft
