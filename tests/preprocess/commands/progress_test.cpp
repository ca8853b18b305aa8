// These tests check the lines that weft-data prints while it works.
#include "preprocess/commands/progress.h"

#include <gtest/gtest.h>

#include "indexed_dataset/base/terminal/progress_line.h"

namespace weft {
namespace {

PipelineTotals totals_of(int64_t num_documents) {
  PipelineTotals totals;
  totals.num_documents = num_documents;
  totals.num_bytes = num_documents * 1024;
  totals.num_file_bytes = num_documents * 512;
  totals.num_tokens = num_documents * 250;
  return totals;
}

TEST(Progress, LogLinesAreMegatronsAndEach10SecondsAtMost) {
  ProgressText text(1000, -1);
  EXPECT_EQ(text.log_line(totals_of(999), 1), "");
  EXPECT_EQ(text.log_line(totals_of(1501), 2),
            "Processed 1000 documents (500.0 docs/s, 0.48828125 MB/s).\n");
  EXPECT_EQ(text.log_line(totals_of(2501), 4), "");
  EXPECT_EQ(text.log_line(totals_of(3000), 11.9), "");
  EXPECT_EQ(text.log_line(totals_of(3001), 12),
            "Processed 3000 documents (250.0 docs/s, 0.244140625 MB/s).\n");
  EXPECT_EQ(text.log_line(totals_of(3002), 30), "");  // no other thousand
}

TEST(Progress, ALogSaysEachMinuteWhatIsLeft) {
  ProgressText text(1000, 512'000'000);
  int num_lines = 0, num_live = 0;
  for (int second = 1; second <= 600; ++second) {
    const std::string line = text.log_line(totals_of(second * 1000), second);
    if (line.empty()) continue;
    ++num_lines;
    const bool is_live = line.starts_with(" > tokenized ");
    num_live += is_live;
    if (second == 61) {
      EXPECT_EQ(line,
                " > tokenized 6.1 % | 15 min left | 1.02 MB/s | 250 k tokens/s | 1.00 k docs/s | "
                "62.5 MB of text in 512 MB of files\n");
    }
    EXPECT_EQ(is_live || line.starts_with("Processed "), true) << line;
  }
  EXPECT_EQ(num_lines, 60);
  EXPECT_GE(num_live, 8);
  EXPECT_LE(num_live, 10);
}

TEST(Progress, LiveLineTellsWhatIsLeft) {
  const ProgressText text(1000, 4'000'000);
  PipelineTotals totals;
  totals.num_file_bytes = 1'000'000;
  totals.num_bytes = 5'000'000;
  totals.num_documents = 1000;
  totals.num_tokens = 1'250'000;
  EXPECT_EQ(text.live_line(totals, 2),
            "tokenized 25.0 % | 6 s left | 2.50 MB/s | 625 k tokens/s | 500 docs/s | 5.00 MB of "
            "text in 4.00 MB of files");
  totals.bad_lines.add(LineProblem::kBlank);
  EXPECT_NE(text.live_line(totals, 2).find(" | 1 bad line | "), std::string::npos);
  EXPECT_EQ(ProgressText(1000).live_line(totals, 2),
            "tokenized 2.50 MB/s | 625 k tokens/s | 500 docs/s | 1 bad line | 5.00 MB of text");
}

TEST(Progress, SpeedsAreThoseOfThisRunWhenItGoesOnWithAnEarlierOne) {
  PipelineTotals before;
  before.num_file_bytes = 3'000'000;
  before.num_bytes = 15 << 20;
  before.num_documents = 2500;
  before.num_tokens = 3'000'000;
  ProgressText text(1000, 4'000'000, before);
  EXPECT_EQ(text.log_line(before, 1), "");
  PipelineTotals totals = before;
  totals.num_file_bytes += 500'000;
  totals.num_bytes += 1 << 20;
  totals.num_documents += 500;
  totals.num_tokens += 250'000;
  EXPECT_EQ(text.log_line(totals, 2), "Processed 3000 documents (250.0 docs/s, 0.5 MB/s).\n");
  EXPECT_EQ(
      text.live_line(totals, 2),
      "tokenized 87.5 % | 2 s left | 524 kB/s | 125 k tokens/s | 250 docs/s | 16.8 MB of text "
      "in 4.00 MB of files");
  EXPECT_EQ(text.summary_line(totals, 2),
            "done: 3000 documents (0 empty), 3250000 tokens, 0 bad lines, 0 lone surrogates "
            "replaced, 16.8 MB, 1.05 MB of them now in 2.00 s, 0.5 MB/s");
}

TEST(Progress, NumbersKeepThreeDigits) {
  EXPECT_EQ(with_prefix(0, "B"), "0 B");
  EXPECT_EQ(with_prefix(999, "B"), "999 B");
  EXPECT_EQ(with_prefix(1000, "B"), "1.00 kB");
  EXPECT_EQ(with_prefix(99'960'000, "B"), "100 MB");
  EXPECT_EQ(with_prefix(12'340'000'000, ""), "12.3 G");
  EXPECT_EQ(python_float(1), "1.0");
  EXPECT_EQ(python_float(0.1), "0.1");
}

TEST(Progress, IsPercentTimeLeftAndRate) {
  EXPECT_EQ(progress_fields(124, 1000, 2, "samples"), "12.4 % | 7 min left | 2 samples/s");
  EXPECT_EQ(progress_fields(5e9, 1e10, 1e6, "B"), "50.0 % | 1 h 23 min left | 1.00 MB/s");
  EXPECT_EQ(progress_fields(5, -1, 2500, "tokens"), "2.50 k tokens/s");
  EXPECT_EQ(progress_fields(0, 10, 0, "B"), "0.0 %");
  EXPECT_EQ(progress_fields(0, 0, 1, "B"), "100.0 % | 0 s left | 1 B/s");
  EXPECT_EQ(time_left(119.4), "119 s left");
  EXPECT_EQ(time_left(120), "2 min left");
  EXPECT_EQ(time_left(3600), "1 h 0 min left");
  EXPECT_EQ(time_left(48 * 3600), "2 d 0 h left");
  EXPECT_EQ(time_left(-1), "0 s left");
}

}  // namespace
}  // namespace weft
