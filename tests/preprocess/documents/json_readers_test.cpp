// simdjson's reading of a line against the definition of what it means.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "preprocess/inputs/input_list.h"
#include "preprocess/stream/line_chunks.h"
#include "tests/preprocess/documents/both_json_readers.h"

namespace weft {
namespace {

// Everything that means something in a string, in whole, in half and wrong.
const std::vector<std::string> kUnits = {"\"",       "\\",
                                         "\\\\",     "\\\"",
                                         "\\n",      "\\t",
                                         "\\/",      "\\u00e9",
                                         "\\u0041",  "\\ud83d",
                                         "\\ude00",  "\\uD83D\\uDE00",
                                         "\\u",      "\\u12",
                                         "\\u12g4",  "\\uFFFF",
                                         "\\x",      "\\U0041",
                                         "u",        "\x1f",
                                         "\x7f",     "\x80",
                                         "\xff",     std::string(1, '\0'),
                                         "\n",       "\u00e9",
                                         "\u4e2d",   "\U0001F600",
                                         "a",        "plain words and",
                                         "\\b\\f",   "\\r\\n",
                                         "\\\x80",   "\\\xe9",
                                         "\\u\"",    "\xED\xA0\x80",
                                         "\\\\u00",  "\\u005c\\u22",
                                         "\\u0022",  "\\ud800\\u00",
                                         "\\udc00x", "\\\\\\\\\\\\\\\\\\",
                                         "\\u0000",  "\\ud800\\ud800\\udc00",
                                         "\uFEFF",   "\\ufeff"};

class JsonReadersTest : public ::testing::Test {
 protected:
  void expect_same(const std::string& line) {
    ASSERT_EQ(readers_.difference(line), "") << testing::PrintToString(line);
  }
  // True if the line is read, and as it should be.
  bool reads(const std::string& line) {
    const int64_t before = readers_.num_read();
    EXPECT_EQ(readers_.difference(line), "") << line;
    return readers_.num_read() > before;
  }
  BothJsonReaders readers_{{"text", "other"}};
};

TEST_F(JsonReadersTest, ReadsOrdinaryLines) {
  EXPECT_TRUE(reads(R"({"text":"a","other":"b"})"));
  EXPECT_TRUE(reads(R"({ "text" : "a\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00" , "other" : [ ] } )"));
  EXPECT_TRUE(reads(R"({"x":[{"text":1},1e5,-0,true,null],"other":["b","","\u0000"],"text":""})"));
  EXPECT_TRUE(reads(R"({"url":"https://a.org","text":"a","other":"b","meta":{"url":"x"}})"));
  EXPECT_TRUE(reads(R"({"":0,"text":"a","\u006fther":"b","x":18446744073709551615})"));
  EXPECT_TRUE(reads(R"({"text":"a","other":")" + std::string(kMaxDomLineBytes - 23, 'b') + "\"}"));
}

TEST_F(JsonReadersTest, FindsTheSameValues) {
  for (const char* value : {"0",
                            "-0",
                            "-1",
                            "1.5",
                            "0.1",
                            "1e5",
                            "1E-7",
                            "9223372036854775807",
                            "18446744073709551615",
                            "-9223372036854775808",
                            "4.9e-324",
                            "1.7976931348623157e308",
                            "9007199254740993",
                            "true",
                            "false",
                            "null",
                            "{}",
                            "[1]",
                            R"("")",
                            R"("a\u00e9\"b")"}) {
    EXPECT_TRUE(
        reads(fmt::format(R"({{"text":"a","other":"b","x":{0},"meta":{{"score":{0}}}}})", value)));
  }
  EXPECT_TRUE(reads(R"({"text":"a","other":"b","meta":{"score":1},"meta.score":2,"x":1,"x":"2"})"));
}

TEST_F(JsonReadersTest, TakesTheLastOfEqualKeys) {
  EXPECT_TRUE(reads(R"({"text":"a","text":"b","other":["c"],"other":"d"})"));
  EXPECT_TRUE(reads(R"({"text":3,"text":"b","other":[1],"other":["d"]})"));
  EXPECT_TRUE(reads(R"({"text":"a","other":"b","url":"https://a","url":3,"source":"c"})"));
  EXPECT_TRUE(reads(R"({"text":"a","other":"b","meta":{"url":"https://a"},"meta":{}})"));
  EXPECT_FALSE(reads(R"({"text":"a","text":3,"other":"b"})"));
}

class NestedKeysTest : public ::testing::Test {
 protected:
  // The texts of the first key, by both readers; "-" for a line that has none.
  std::string text_of(const std::string& line) {
    EXPECT_EQ(readers_.difference(line), "") << line;
    ExactJsonLine exact({"meta.text"});
    const LineOutcome outcome = exact.parse(line);
    if (outcome.problem != LineProblem::kNone) return "-";
    std::string texts;
    exact.each_text(0, [&](std::string_view text) {
      texts += text;
      return true;
    });
    return texts;
  }
  BothJsonReaders readers_{{"meta.text"}};
};

TEST_F(NestedKeysTest, AreFoundInObjectsWithinTheLine) {
  EXPECT_EQ(text_of(R"({"meta":{"text":"a","n":1},"text":"b"})"), "a");
  EXPECT_EQ(text_of(R"({"meta":{"n":{"text":1},"text":["a","b"]}})"), "ab");
  EXPECT_EQ(text_of(R"({"m\u0065ta":{"te\u0078t":"a"}})"), "a");
  for (const char* line :
       {R"({"meta":{"n":1}})", R"({"meta":"text"})", R"({"meta":[{"text":"a"}]})",
        R"({"text":"a"})", R"({"meta":{"text":{"text":"a"}}})", R"({"meta":{"text":null}})",
        R"({"x":{"meta":{"text":"a"}}})"}) {
    EXPECT_EQ(text_of(line), "-") << line;
  }
  EXPECT_GT(readers_.num_read(), 0);
}

TEST_F(NestedKeysTest, OfEqualKeysTheLastOneCounts) {
  EXPECT_EQ(text_of(R"({"meta":{"text":"a"},"meta":{"text":"b","text":"c"}})"), "c");
  EXPECT_EQ(text_of(R"({"meta":{"text":"a"},"meta":{}})"), "-");
  EXPECT_EQ(text_of(R"({"meta":{"text":"a"},"meta":3})"), "-");
}

TEST_F(NestedKeysTest, AKeyOfTheWholeNameComesFirst) {
  EXPECT_EQ(text_of(R"({"meta":{"text":"a"},"meta.text":"b"})"), "b");
  EXPECT_EQ(text_of(R"({"meta.text":"b","meta":{"text":"a"}})"), "b");
  EXPECT_EQ(text_of(R"({"meta.text":null,"meta":{"text":"a"}})"), "-");
}

TEST_F(NestedKeysTest, MayHaveDotsInThemselves) {
  BothJsonReaders readers({R"(a\.b.c\\)"});
  EXPECT_EQ(readers.difference(R"({"a.b":{"c\\":"x"}})"), "");
  EXPECT_EQ(readers.num_read(), 1);
  EXPECT_EQ(nested_path("text"), KeyPath{});
  EXPECT_EQ(nested_path("a.b"), (KeyPath{"a", "b"}));
  for (const char* wrong : {".a", "a.", "a..b", R"(a\x.b)"})
    EXPECT_THROW(nested_path(wrong), std::invalid_argument) << wrong;
}

TEST_F(NestedKeysTest, AreReadAlikeInRandomLines) {
  std::mt19937 random(20261128);
  const std::vector<std::string> names = {"meta", "text", "meta.text", "m\\u0065ta", "n"};
  const auto value = [&](const auto& self, int depth) -> std::string {
    switch (random() % 6) {
      case 0:
        return R"("a")";
      case 1:
        return R"(["a","b\n"])";
      case 2:
        return random() % 4 == 0 ? "NaN" : "1.5";
      default: {
        if (depth == 0) return R"("c")";
        std::string object = "{";
        for (size_t i = random() % 4; i > 0; --i) {
          object += '"' + names[random() % names.size()] + "\":" + self(self, depth - 1);
          if (i > 1) object += ",";
        }
        return object + "}";
      }
    }
  };
  for (int i = 0; i < 20'000; ++i) {
    const std::string line = R"({"n":0,")" + names[random() % names.size()] +
                             "\":" + value(value, 3) + ",\"meta\":" + value(value, 2) + "}";
    ASSERT_EQ(readers_.difference(line), "") << line;
  }
  EXPECT_GT(readers_.num_read(), 1'000);
}

TEST_F(JsonReadersTest, LeavesToTheDefinitionWhatSimdjsonRefuses) {
  for (const char* value :
       {"NaN", "Infinity", "-Infinity", "1e999", "18446744073709551616", "-9223372036854775809",
        R"("\ud800")", R"("\udc00")", R"("\ud800\u0041")", "\"\xff\"", "\"\x01\"", "01", "[1,]"}) {
    EXPECT_FALSE(reads(R"({"text":"a","other":"b","x":)" + std::string(value) + "}")) << value;
  }
  for (const char* line :
       {"", " ", "[]", "3", "\"text\"", "{}", R"({"text":"a"})", R"({"text":"a","other":1})",
        R"({"text":"a","other":["b",1]})", "\uFEFF{\"text\":\"a\",\"other\":\"b\"}",
        R"({"text":"a","other":"b"} x)", R"({"text":"a","other":"b)"}) {
    EXPECT_FALSE(reads(line)) << line;
  }
}

TEST_F(JsonReadersTest, IsTheDefinitionForEveryUnitAtEveryOffset) {
  for (const std::string& unit : kUnits) {
    for (size_t offset = 0; offset <= 130; ++offset) {
      for (const std::string filler : {"x", "\\n"}) {
        std::string before;
        while (before.size() < offset) before += filler;
        const std::string behind = "0041 and more than one block of other words behind it\\\"";
        expect_same(R"({"other":"b","text":")" + before + unit + "\"}");
        expect_same(R"({"other":"b","text":")" + before + unit + behind + "\"}");
        expect_same(R"({"other":"b","text":"a",")" + before + unit + "\":1}");
        expect_same(R"({"other":"b","text":"a","url":")" + before + unit + "\"}");
        expect_same(R"({"other":"b","text":")" + before + unit);  // the line ends there
        if (HasFatalFailure()) return;
      }
    }
  }
  EXPECT_GT(readers_.num_read(), 10'000);
  EXPECT_GT(readers_.num_given_up(), 10'000);
}

TEST_F(JsonReadersTest, IsTheDefinitionForEveryByteAnywhere) {
  const std::string line =
      R"({"url":"https://a.b/c","x":[-1.5e3,{"y":true}],"text":"a\né","other":["b"]})";
  for (size_t at = 0; at <= line.size(); ++at) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string changed = line;
      changed.insert(at, 1, static_cast<char>(byte));
      expect_same(changed);
      if (at < line.size()) {
        changed = line;
        changed[at] = static_cast<char>(byte);
        expect_same(changed);
      }
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(readers_.num_read(), 3'000);
}

TEST_F(JsonReadersTest, IsTheDefinitionForRandomLines) {
  std::mt19937 random(20261122);
  const auto any_of = [&](const std::vector<std::string>& all) {
    return all[random() % all.size()];
  };
  const auto string = [&] {
    std::string text = "\"";
    for (size_t i = random() % 6; i > 0; --i)
      text += random() % 24 == 0 ? any_of(kUnits)
                                 : any_of({"a", " ", "\\n", "\\\"", "\u00e9", "https://x.org/"});
    return text + "\"";
  };
  const auto value = [&](const auto& self, int depth) -> std::string {
    switch (random() % (depth > 0 ? 8 : 6)) {
      case 0:
        return any_of({"0", "-0", "1.5", "1E-400", "1e400", "123456789012345678901", "-1", "0.1e+5",
                       "9223372036854775807", "18446744073709551615", "1.", "-", "00", "NaN"});
      case 1:
        return any_of({"true", "false", "null", "tru", "nul", "Infinity"});
      case 6: {
        std::string list = "[";
        for (size_t i = random() % 4; i > 0; --i)
          list += self(self, depth - 1) + (i > 1 ? " ," : "");
        return list + "]";
      }
      case 7: {
        std::string object = "{";
        for (size_t i = random() % 4; i > 0; --i)
          object += any_of({"\"url\"", "\"source\"", "\"\"", string()}) + ": " +
                    self(self, depth - 1) + (i > 1 ? "," : "");
        return object + "}";
      }
      default:
        return string();
    }
  };
  for (int round = 0; round < 40'000; ++round) {
    std::string line = "{";
    for (size_t i = 2 + random() % 6; i > 0; --i) {
      line += any_of({"\"text\"", "\"text\"", "\"other\"", "\"other\"", "\"te\\u0078t\"", "\"url\"",
                      "\"meta\"", "\"metadata\"", string()}) +
              any_of({":", " : "}) + value(value, 3) + (i > 1 ? "," : "}");
    }
    expect_same(line);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(readers_.num_read(), 2'000);
  EXPECT_GT(readers_.num_given_up(), 2'000);
}

TEST_F(JsonReadersTest, IsTheDefinitionForNestedLines) {
  for (size_t depth = 1; depth < 1100; depth += depth < 480 ? 37 : 1) {
    const std::string before(depth, '['), behind(depth, ']');
    expect_same(R"({"text":"a","other":"b","x":)" + before + behind + "}");
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(readers_.num_read(), 10);
}

TEST_F(JsonReadersTest, IsTheDefinitionForLongOrigins) {
  for (const std::string unit :
       {" ", "\\n", "x", "\\u0041", "\u4e2d", "\\u4e2d", "\\ud83d\\ude00"}) {
    for (size_t num_units = 340; num_units < 9'000; num_units += num_units < 380 ? 1 : 411) {
      std::string value = "https://";
      for (size_t i = 0; i < num_units; ++i) value += unit;
      EXPECT_TRUE(reads(R"({"text":"a","other":"b","url":")" + value + ".org/\"}"));
      EXPECT_TRUE(reads(R"({"text":"a","other":"b","source":")" + value.substr(8) + "b\"}"));
    }
  }
}

// Lines as they come: simdjson reads them all but for those that were made to be nasty.
TEST(JsonReadersCorpus, IsTheDefinition) {
  const char* const folder = std::getenv("WEFT_CORPUS_DIR");
  if (folder == nullptr) GTEST_SKIP() << "WEFT_CORPUS_DIR is not set";
  for (const std::string name : {"english", "code", "multilingual", "nasty"}) {
    BothJsonReaders readers({"text"});
    const std::atomic<bool> not_cancelled = false;
    const auto source = open_input(std::string(folder) + "/" + name + ".jsonl.zst", not_cancelled);
    LineChunker chunker(*source, size_t{1} << 20, size_t{256} << 20);
    for (LineChunk chunk; chunker.next(chunk);) {
      LineWalker lines(chunk.text());
      for (std::string_view line; lines.next(line);) {
        if (line.size() > kMaxDomLineBytes) continue;
        ASSERT_EQ(readers.difference(line), "") << name << ": " << line.substr(0, 200);
      }
    }
    EXPECT_GT(readers.num_read(), 100) << name;
    if (name != "nasty") {
      EXPECT_EQ(readers.num_given_up(), 0) << name;
    }
  }
}

}  // namespace
}  // namespace weft
