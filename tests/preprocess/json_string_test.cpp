// The strings of the definition (exact_json_line.h), which have no others to be compared with.
#include "preprocess/documents/json_string.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace weft {
namespace {

struct Found {
  size_t position;
  std::string error;
  bool has_escapes;
  bool operator==(const Found&) const = default;
};

void PrintTo(const Found& found, std::ostream* out) {
  *out << "byte " << found.position << ", \"" << found.error << "\", escapes " << found.has_escapes;
}

// In memory of exactly its size, so that a sanitizer sees a read behind it. The text follows an
// opening quote.
Found find_end(const std::string& text) {
  std::vector<char> line(1 + text.size());
  line[0] = '"';
  std::copy(text.begin(), text.end(), line.begin() + 1);
  const StringEnd end = find_string_end(line.data() + 1, line.data() + line.size());
  return {static_cast<size_t>(end.position - line.data()), end.error == nullptr ? "" : end.error,
          end.has_escapes};
}

TEST(JsonString, EndsAtItsQuote) {
  EXPECT_EQ(find_end("abc\" d\""), (Found{4, "", false}));
  EXPECT_EQ(find_end("\""), (Found{1, "", false}));
  EXPECT_EQ(find_end("a\\\"c\" d\""), (Found{5, "", true}));
  EXPECT_EQ(find_end("\\\\\" d\""), (Found{3, "", true}));
  for (size_t length = 0; length < 100; ++length) {
    EXPECT_EQ(find_end(std::string(length, 'x') + "\"\x1f"), (Found{length + 1, "", false}));
    EXPECT_EQ(find_end(std::string(length, 'x') + "\\\"\" \""), (Found{length + 3, "", true}));
  }
}

TEST(JsonString, SaysWhatIsWrong) {
  EXPECT_EQ(find_end("abc"), (Found{0, "a string that starts here has no end", false}));
  EXPECT_EQ(find_end("abc\\n"), (Found{0, "a string that starts here has no end", true}));
  EXPECT_EQ(find_end("abcdefghi\x1f\""),
            (Found{10, "a raw control character inside a string", false}));
  EXPECT_EQ(find_end("a\\n\x1f\\x"), (Found{4, "a raw control character inside a string", true}));
  EXPECT_EQ(find_end("a\\"), (Found{2, "a backslash at the end of the line", true}));
  EXPECT_EQ(find_end("a\\x\""), (Found{2, "an unknown escape", true}));
  EXPECT_EQ(find_end("a\\u12\""), (Found{2, "a \\u escape without four hexadecimal digits", true}));
  EXPECT_EQ(find_end("a\\u12"), (Found{2, "a \\u escape without four hexadecimal digits", true}));
}

TEST(JsonString, StandsForItsText) {
  std::string text = "before ";
  EXPECT_EQ(unescape_json(R"(\"\\\/\b\f\n\r\tx\u0041\u00e9\u4E2d\ud83d\uDE00)", text), 0);
  EXPECT_EQ(text, "before \"\\/\b\f\n\r\txA\u00e9\u4e2d\U0001F600");
  text.clear();
  EXPECT_EQ(unescape_json(R"(\ud83d\ud83d\ude00\udc00-\ud800)", text), 3);
  EXPECT_EQ(text, "\uFFFD\U0001F600\uFFFD-\uFFFD");
  text.clear();
  EXPECT_EQ(unescape_json(R"(\u0000\u007f\u0080\u07ff\u0800\uffff\ud800\udc00\udbff\udfff)", text),
            0);
  EXPECT_EQ(text, std::string("\0\x7f", 2) + "\xC2\x80\u07ff\u0800\uffff\U00010000\U0010FFFF");
}

}  // namespace
}  // namespace weft
