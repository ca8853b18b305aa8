// The strings of the definition (exact_json_line.h), which have no others to be compared with.
#include "preprocess/documents/json_scanner.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace weft {
namespace {

// Where the string that `text` continues ends, or what is wrong with it and where: "4" or
// "2: an unknown escape". It lies in memory of exactly its size, so that a sanitizer sees a read
// behind it, and follows an opening quote.
std::string end_of(const std::string& text) {
  std::vector<char> line(1 + text.size());
  line[0] = '"';
  std::copy(text.begin(), text.end(), line.begin() + 1);
  JsonScanner scanner({line.data(), line.size()});
  std::string_view raw;
  if (!scanner.string(raw)) return std::to_string(scanner.position()) + ": " + scanner.error();
  EXPECT_EQ(raw, text.substr(0, raw.size()));
  EXPECT_EQ(scanner.position(), raw.size() + 2);
  return std::to_string(raw.size() + 1);
}

std::string unescaped(const std::string& raw, int64_t expected_num_replaced) {
  std::string text = "before ";
  std::string_view rest = raw;
  EXPECT_EQ(unescape_json(rest, 1000, text), expected_num_replaced);
  EXPECT_EQ(rest, "");
  return text.substr(7);
}

TEST(JsonString, EndsAtItsQuote) {
  EXPECT_EQ(end_of("abc\" d\""), "4");
  EXPECT_EQ(end_of("\""), "1");
  EXPECT_EQ(end_of("a\\\"c\" d\""), "5");
  EXPECT_EQ(end_of("\\\\\" d\""), "3");
  for (size_t length = 0; length < 100; ++length) {
    EXPECT_EQ(end_of(std::string(length, 'x') + "\"\x1f"), std::to_string(length + 1));
    EXPECT_EQ(end_of(std::string(length, 'x') + "\\\"\" \""), std::to_string(length + 3));
  }
}

TEST(JsonString, SaysWhatIsWrong) {
  EXPECT_EQ(end_of("abc"), "0: a string that starts here has no end");
  EXPECT_EQ(end_of("abc\\n"), "0: a string that starts here has no end");
  EXPECT_EQ(end_of("abcdefghi\x1f\""), "10: a raw control character inside a string");
  EXPECT_EQ(end_of("a\\n\x1f\\x"), "4: a raw control character inside a string");
  EXPECT_EQ(end_of("a\\"), "2: a backslash at the end of the line");
  EXPECT_EQ(end_of("a\\x\""), "2: an unknown escape");
  EXPECT_EQ(end_of("a\\u12\""), "2: a \\u escape without four hexadecimal digits");
  EXPECT_EQ(end_of("a\\u12g4\""), "2: a \\u escape without four hexadecimal digits");
  EXPECT_EQ(end_of("a\\u12"), "2: a \\u escape without four hexadecimal digits");
}

TEST(UnescapeJson, TakesWholeCharactersUntilThereIsEnough) {
  std::string text;
  std::string_view rest = R"(ab\ud83d\ude00\ncd)";
  EXPECT_EQ(unescape_json(rest, 3, text), 0);
  EXPECT_EQ(text, "ab\U0001F600");
  EXPECT_EQ(rest, R"(\ncd)");
}

TEST(JsonString, StandsForItsText) {
  EXPECT_EQ(unescaped(R"(\"\\\/\b\f\n\r\tx\u0041\u00e9\u4E2d\ud83d\uDE00)", 0),
            "\"\\/\b\f\n\r\txA\u00e9\u4e2d\U0001F600");
  EXPECT_EQ(unescaped(R"(\ud83d\ud83d\ude00\udc00-\ud800)", 3), "\uFFFD\U0001F600\uFFFD-\uFFFD");
  EXPECT_EQ(unescaped(R"(\u0000\u007f\u0080\u07ff\u0800\uffff\ud800\udc00\udbff\udfff)", 0),
            std::string("\0\x7f", 2) + "\xC2\x80\u07ff\u0800\uffff\U00010000\U0010FFFF");
}

}  // namespace
}  // namespace weft
