// The vector functions against the plain ones, on strings that turn on block edges.
#include "preprocess/documents/json_string.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
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
Found find_end(Simd simd, const std::string& text) {
  std::vector<char> line(1 + text.size());
  line[0] = '"';
  std::copy(text.begin(), text.end(), line.begin() + 1);
  const char* begin = line.data() + 1;
  const StringEnd end = find_string_end_with(simd, begin, line.data() + line.size());
  if (end.error == nullptr) {
    EXPECT_EQ(*end.position, '"');
  }
  return {static_cast<size_t>(end.position - line.data()), end.error == nullptr ? "" : end.error,
          end.has_escapes};
}

std::string unescape(Simd simd, std::string_view raw, int64_t& num_replaced) {
  const std::vector<char> exact(raw.begin(), raw.end());
  std::vector<char> out(raw.size() + kUnescapeSlackBytes);
  const char* end =
      unescape_string_with(simd, {exact.data(), exact.size()}, out.data(), num_replaced);
  return {out.data(), static_cast<size_t>(end - out.data())};
}

class JsonStringSimd : public testing::TestWithParam<Simd> {
 protected:
  void SetUp() override {
    if (!has_simd(GetParam())) GTEST_SKIP() << "this processor lacks the instructions";
  }

  void expect_same(const std::string& text) const {
    const Found expected = find_end(Simd::kScalar, text);
    ASSERT_EQ(find_end(GetParam(), text), expected) << testing::PrintToString(text);
    const size_t length = expected.error.empty() ? expected.position - 1 : text.size();
    if (!expected.error.empty()) return;
    const std::string_view raw = std::string_view(text).substr(0, length);
    int64_t num_replaced = 0, expected_num_replaced = 0;
    const std::string unescaped = unescape(Simd::kScalar, raw, expected_num_replaced);
    ASSERT_EQ(unescape(GetParam(), raw, num_replaced), unescaped) << testing::PrintToString(text);
    ASSERT_EQ(num_replaced, expected_num_replaced) << testing::PrintToString(text);
    ASSERT_EQ(unescaped == raw, !expected.has_escapes);  // no escape stands for itself
  }
};

// Everything that means something, in whole, in half and wrong.
const std::vector<std::string> kUnits = {
    "\"",      "\\",           "\\\\",    "\\\"",         "\\n",      "\\t",
    "\\/",     "\\u00e9",      "\\u0041", "\\ud83d",      "\\ude00",  "\\uD83D\\uDE00",
    "\\u",     "\\u12",        "\\u12g4", "\\uFFFF",      "\\x",      "\\U0041",
    "u",       "\x1f",         "\x7f",    "\x80",         "\xff",     std::string(1, '\0'),
    "\n",      "\u00e9",       "\u4e2d",  "\U0001F600",   "a",        "plain words and",
    "\\b\\f",  "\\r\\n",       "\\\x80",  "\\\xe9",       "\\u\"",    "\\\xa2",
    "\\\\u00", "\\u005c\\u22", "\\u0022", "\\ud800\\u00", "\\udc00x", "\\\\\\\\\\\\\\\\\\"};

TEST_P(JsonStringSimd, EqualsPlainForEveryUnitAtEveryOffset) {
  for (const std::string& unit : kUnits) {
    for (size_t offset = 0; offset <= 130; ++offset) {
      for (const std::string filler : {"x", "\\n"}) {
        std::string before;
        while (before.size() < offset) before += filler;
        expect_same(before + unit);  // the text ends there
        expect_same(before + unit + "\"");
        expect_same(before + unit + "0041 and more than one block of other words behind it, so " +
                    "that the \\\"string\\\" does not end with its block\" : 1}");
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(JsonStringSimd, EqualsPlainForEveryByteAtEveryOffset) {
  for (int byte = 0; byte < 256; ++byte) {
    for (size_t offset = 0; offset <= 130; ++offset) {
      const std::string before(offset, 'x'), after = std::string(70, 'y') + "\"";
      expect_same(before + static_cast<char>(byte) + after);
      expect_same(before + '\\' + static_cast<char>(byte) + after);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(JsonStringSimd, EqualsPlainOnRandomUnits) {
  std::mt19937 random(31);
  for (int round = 0; round < 30000; ++round) {
    std::string text(random() % 70, 'x');
    // Few wrong units, or nothing gets beyond the first block.
    const size_t num_units = random() % 60, one_wrong_in = 1 + random() % 60;
    for (size_t i = 0; i < num_units; ++i) {
      static const std::vector<std::string> right = {
          "\\\\",           "\\\"",           "\\n", "\\/",    "\\u00e9",
          "\\u4e2d\\u4E2D", "\\ud83d\\ude00", "a",   " ",      "plain word and",
          "\\ud800",        "\u00e9",         "u",   "\\udc00"};
      text += random() % one_wrong_in == 0 ? kUnits[random() % kUnits.size()]
                                           : right[random() % right.size()];
    }
    expect_same(text);
    expect_same(text + "\" ");
    if (HasFatalFailure()) return;
  }
}

TEST_P(JsonStringSimd, EqualsPlainOnAnyBytes) {
  std::mt19937 random(32);
  for (int round = 0; round < 20000; ++round) {
    std::string text(random() % 200, '\0');
    const bool printable = round % 2 == 0;
    for (char& c : text) {
      c = static_cast<char>(printable ? 0x20 + random() % 0x60 : random());
      if (c == '"' && random() % 8 != 0) c = '\\';
    }
    expect_same(text);
    if (HasFatalFailure()) return;
  }
}

TEST_P(JsonStringSimd, EqualsPlainOnRunsOfBackslashes) {
  for (size_t offset = 0; offset < 70; ++offset) {
    for (size_t length = 1; length < 140; ++length) {
      expect_same(std::string(offset, 'x') + std::string(length, '\\') + "\"n\" u\"");
      if (HasFatalFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Every, JsonStringSimd,
                         testing::Values(Simd::kAvx2, Simd::kAvx512, Simd::kNeon),
                         [](const auto& simd) {
                           return simd.param == Simd::kAvx2     ? "Avx2"
                                  : simd.param == Simd::kAvx512 ? "Avx512"
                                                                : "Neon";
                         });

// The plain functions have no other to be compared with.
TEST(JsonString, PlainFunctionsDoAsTheyShould) {
  using enum Simd;
  EXPECT_EQ(find_end(kScalar, "abc\" d\""), (Found{4, "", false}));
  EXPECT_EQ(find_end(kScalar, "\""), (Found{1, "", false}));
  EXPECT_EQ(find_end(kScalar, "a\\\"c\" d\""), (Found{5, "", true}));
  EXPECT_EQ(find_end(kScalar, "abc"), (Found{0, "a string that starts here has no end", false}));
  EXPECT_EQ(find_end(kScalar, "abcdefghi\x1f\""),
            (Found{10, "a raw control character inside a string", false}));
  EXPECT_EQ(find_end(kScalar, "a\\"), (Found{2, "a backslash at the end of the line", true}));
  EXPECT_EQ(find_end(kScalar, "a\\x\""), (Found{2, "an unknown escape", true}));
  EXPECT_EQ(find_end(kScalar, "a\\u12\""),
            (Found{2, "a \\u escape without four hexadecimal digits", true}));
  int64_t num_replaced = 0;
  EXPECT_EQ(unescape(kScalar, R"(\"\\\/\b\f\n\r\tx\u0041\u00e9\u4E2d\ud83d\uDE00)", num_replaced),
            "\"\\/\b\f\n\r\txA\u00e9\u4e2d\U0001F600");
  EXPECT_EQ(num_replaced, 0);
  EXPECT_EQ(unescape(kScalar, R"(\ud83d\ud83d\ude00\udc00-\ud800)", num_replaced),
            "\uFFFD\U0001F600\uFFFD-\uFFFD");
  EXPECT_EQ(num_replaced, 3);
}

}  // namespace
}  // namespace weft
