// The words of the tools: options, progress, escaped text.
#include <gtest/gtest.h>

#include "indexed_dataset/process/nearest_name.h"
#include "preprocess/commands/progress.h"
#include "preprocess/datasets/sample_query.h"
#include "preprocess/terminal/option_set.h"
#include "preprocess/terminal/terminal_text.h"

namespace weft {
namespace {

TEST(TerminalLine, IsCutBetweenCharacters) {
  EXPECT_EQ(first_columns("caf\xC3\xA9 au lait", 4), "caf\xC3\xA9");
  EXPECT_EQ(first_columns("caf\xC3\xA9", 3), "caf");
  EXPECT_EQ(first_columns("caf", 80), "caf");
  EXPECT_EQ(first_columns("caf", 0), "");
  EXPECT_EQ(fit_to_terminal(std::string(200, 'x'), -1), std::string(79, 'x'));
}

TEST(Options, IntegersMayHoldUnderscores) {
  EXPECT_EQ(parse_int64("300_000_000"), 300000000);
  EXPECT_EQ(parse_int64("-5"), -5);
  EXPECT_EQ(parse_int64("9223372036854775807"), INT64_MAX);
  for (const char* text :
       {"", "_1", "1_", "1__0", "1.5", "1e3", "9223372036854775808", "12k", " 1", "-_1"}) {
    EXPECT_EQ(parse_int64(text), std::nullopt) << text;
  }
}

TEST(Options, NearestNameIsFoundOnlyWhenNear) {
  const std::vector<std::string> names{"--input", "--workers", "--output-prefix"};
  EXPECT_EQ(nearest_name("--wrokers", names), "--workers");
  EXPECT_EQ(nearest_name("--output_prefix", names), "--output-prefix");
  EXPECT_EQ(nearest_name("--banana", names), "");
}

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

TEST(TerminalText, EscapesWhatATerminalWouldObey) {
  EXPECT_EQ(escape_for_terminal("plain é 漢 \U0001F600"), "plain é 漢 \U0001F600");
  EXPECT_EQ(escape_for_terminal("a\nb\tc\\d\r"), "a\\nb\\tc\\\\d\\x0D");
  EXPECT_EQ(escape_for_terminal("\x1b[31m\x7f"), "\\x1B[31m\\x7F");
  EXPECT_EQ(escape_for_terminal(std::string("\0", 1)), "\\x00");
  EXPECT_EQ(escape_for_terminal("\u202e\u2066\u200f\u0085\u2028"),
            "\\u{202E}\\u{2066}\\u{200F}\\u{85}\\u{2028}");
  EXPECT_EQ(escape_for_terminal("\U000E0041"), "\\u{E0041}");
}

TEST(TerminalText, MessagesKeepTheirOwnSecondLinesAndNoOthers) {
  EXPECT_EQ(escape_message("error: a\nerror: b\x1b]0;t\x07\n  more\n"),
            "error: a\\nerror: b\\x1B]0;t\\x07\n  more\\n");
  EXPECT_EQ(escape_message("C:\\x 's/^\\xEF//'"), "C:\\x 's/^\\xEF//'");
}

TEST(TerminalText, EscapesInvalidBytesOneByOne) {
  EXPECT_EQ(escape_for_terminal("a\xff\xc3"), "a\\xFF\\xC3");
  EXPECT_EQ(escape_for_terminal("\xed\xa0\x80"), "\\xED\\xA0\\x80");
  EXPECT_EQ(escape_for_terminal("\xc0\xaf\xe2\x80"), "\\xC0\\xAF\\xE2\\x80");
}

TEST(SampleOrder, IterationsTakeConsecutiveSamples) {
  SampleOrder order;
  order.global_batch_size = 432;
  EXPECT_EQ(samples_of_iteration(order, 1), (std::pair<int64_t, int64_t>{0, 432}));
  EXPECT_EQ(samples_of_iteration(order, 100), (std::pair<int64_t, int64_t>{99 * 432, 100 * 432}));
}

TEST(SampleOrder, RefusesIterationsWhoseSamplesDoNotFit) {
  SampleOrder order;
  order.global_batch_size = 64;
  EXPECT_EQ(samples_of_iteration(order, int64_t{1} << 50).first, ((int64_t{1} << 50) - 1) * 64);
  for (const int64_t iteration : {INT64_MAX, (int64_t{1} << 57) + 1, int64_t{1} << 57}) {
    EXPECT_THROW(samples_of_iteration(order, iteration), std::invalid_argument) << iteration;
  }
}

TEST(SampleOrder, IterationsFollowTheRampUp) {
  // 32 -> 64 by 16 within 100 samples: two increments of 50 samples each.
  SampleOrder order;
  order.global_batch_size = 64;
  order.rampup_batch_size = {32, 16, 100};
  const std::vector<std::pair<int64_t, int64_t>> expected{
      {0, 32}, {32, 64}, {64, 112}, {112, 176}, {176, 240}};
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(samples_of_iteration(order, static_cast<int64_t>(i) + 1), expected[i]) << i;
  }
  EXPECT_EQ(samples_of_iteration(order, 1000005).first, 176 + int64_t{64} * 1000000);
}

}  // namespace
}  // namespace weft
