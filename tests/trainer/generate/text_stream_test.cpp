#include "trainer/generate/text_stream.h"

#include <gtest/gtest.h>

#include <vector>

namespace weft {
namespace {

std::vector<std::string> pieces_of(TextStream& stream, const std::vector<std::string>& added) {
  std::vector<std::string> pieces;
  for (const std::string& bytes : added) pieces.push_back(stream.add(bytes));
  pieces.push_back(stream.finish());
  return pieces;
}

TEST(TextStream, ShowsWholeCharacters) {
  TextStream stream("");
  EXPECT_EQ(pieces_of(stream, {"a\xe2\x82", "\xac", "\xf0", "\x9f\x98\x80!", "\xc3"}),
            (std::vector<std::string>{"a", "\xe2\x82\xac", "", "\xf0\x9f\x98\x80!", "", "\xc3"}));
}

TEST(TextStream, EndsBeforeTheStopText) {
  TextStream stream("END");
  EXPECT_EQ(pieces_of(stream, {"one E", "N", "two EN", "D three", "four"}),
            (std::vector<std::string>{"one ", "", "ENtwo ", "", "", ""}));
  EXPECT_TRUE(stream.has_stopped());
  EXPECT_EQ(stream.text(), "one ENtwo ");
}

TEST(TextStream, FindsAStopTextOfSeveralTokensAndOneWithRepetitions) {
  TextStream stream("aab");
  EXPECT_EQ(pieces_of(stream, {"a", "a", "a", "b"}),
            (std::vector<std::string>{"", "", "a", "", ""}));
  EXPECT_EQ(stream.text(), "a");
}

TEST(TextStream, KeepsWhatOnlyBeginsLikeTheStopText) {
  TextStream stream("\n\n");
  EXPECT_EQ(pieces_of(stream, {"line\n", "next\n"}),
            (std::vector<std::string>{"line", "\nnext", "\n"}));
  EXPECT_FALSE(stream.has_stopped());
}

TEST(TextStream, PrintableTextHasNothingThatATerminalObeys) {
  EXPECT_EQ(printable("a\tb\n\x1b[31m\x7f\xc2\x9b\xff\xe2\x82\xac"),
            "a\tb\n\xef\xbf\xbd[31m\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xe2\x82\xac");
}

}  // namespace
}  // namespace weft
