// These tests check the lines that weft-data prints while it works.
#include "preprocess/commands/progress.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(Progress, LogLinesAreMegatrons) {
  ProgressText text(1000, -1);
  PipelineTotals totals;
  totals.num_documents = 999;
  totals.num_bytes = 999 * 1024;
  EXPECT_EQ(text.log_lines(totals, 1), "");
  totals.num_documents = 2001;
  totals.num_bytes = 2001 * 1024;
  EXPECT_EQ(text.log_lines(totals, 4),
            "Processed 1000 documents (250.0 docs/s, 0.244140625 MB/s).\n"
            "Processed 2000 documents (500.0 docs/s, 0.48828125 MB/s).\n");
  EXPECT_EQ(text.log_lines(totals, 5), "");
}

TEST(Progress, LiveLineTellsWhatIsLeft) {
  const ProgressText text(1000, 4'000'000);
  PipelineTotals totals;
  totals.num_file_bytes = 1'000'000;
  totals.num_bytes = 5'000'000;
  totals.num_documents = 1000;
  totals.num_tokens = 1'250'000;
  EXPECT_EQ(text.live_line(totals, 2),
            "tokenized 5.00 MB (25.0% of 4.00 MB of files) | 2.50 MB/s | 500 docs/s | 625 k "
            "tokens/s | 6 s left");
  totals.bad_lines.add(LineProblem::kBlank);
  EXPECT_NE(text.live_line(totals, 2).find(" | 1 bad line | "), std::string::npos);
}

TEST(Progress, SpeedsAreThoseOfThisRunWhenItGoesOnWithAnEarlierOne) {
  PipelineTotals before;
  before.num_file_bytes = 3'000'000;
  before.num_bytes = 15 << 20;
  before.num_documents = 2500;
  before.num_tokens = 3'000'000;
  ProgressText text(1000, 4'000'000, before);
  EXPECT_EQ(text.log_lines(before, 1), "");
  PipelineTotals totals = before;
  totals.num_file_bytes += 500'000;
  totals.num_bytes += 1 << 20;
  totals.num_documents += 500;
  totals.num_tokens += 250'000;
  EXPECT_EQ(text.log_lines(totals, 2), "Processed 3000 documents (250.0 docs/s, 0.5 MB/s).\n");
  EXPECT_EQ(text.live_line(totals, 2),
            "tokenized 16.8 MB (87.5% of 4.00 MB of files) | 524 kB/s | 250 docs/s | 125 k "
            "tokens/s | 2 s left");
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

}  // namespace
}  // namespace weft
