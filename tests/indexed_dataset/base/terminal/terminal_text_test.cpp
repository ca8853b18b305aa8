#include "indexed_dataset/base/terminal/terminal_text.h"

#include <gtest/gtest.h>

#include "indexed_dataset/base/terminal/option_table.h"

namespace weft {
namespace {

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

TEST(TerminalText, ShowsNoSecretsOfAddresses) {
  EXPECT_EQ(display_url("https://u:p@h:1/a?sig=1#f"), "https://h:1/a");
  EXPECT_EQ(display_url("https://h/a@b?c"), "https://h/a@b");
  EXPECT_EQ(display_url("https://h?x@y"), "https://h");
  EXPECT_TRUE(looks_like_url("s3://bucket/key"));
  EXPECT_FALSE(looks_like_url("folder/name://x"));
}

TEST(TerminalLine, IsCutBetweenCharacters) {
  EXPECT_EQ(first_columns("caf\xC3\xA9 au lait", 4), "caf\xC3\xA9");
  EXPECT_EQ(first_columns("caf\xC3\xA9", 3), "caf");
  EXPECT_EQ(first_columns("caf", 80), "caf");
  EXPECT_EQ(first_columns("caf", 0), "");
  EXPECT_EQ(fit_to_terminal(std::string(200, 'x'), -1), std::string(79, 'x'));
  EXPECT_EQ(fit_to_terminal("done 5 % | 3 s left | " + std::string(60, 'x'), -1),
            "done 5 % | 3 s left");
}

// Standard output of tests is no terminal.
TEST(TerminalHelp, FitsTheColumns) {
  ::setenv("COLUMNS", "60", 1);
  EXPECT_EQ(wrapped_help("  --name TEXT                 one two three four five six seven eight\n"),
            "  --name TEXT                 one two three four five six\n"
            "                              seven eight\n");
  EXPECT_EQ(wrapped_help(std::string(70, 'x') + "\n"), std::string(70, 'x') + "\n");
  EXPECT_EQ(wrapped_command("program command --first-option value --second-option value"),
            "  program command --first-option value \\\n      --second-option value\n");
  ::unsetenv("COLUMNS");
  EXPECT_EQ(wrapped_command("program command --first-option value --second-option value"),
            "  program command --first-option value --second-option value\n");
}

}  // namespace
}  // namespace weft
