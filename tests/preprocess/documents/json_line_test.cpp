#include "preprocess/documents/json_line.h"

#include <gtest/gtest.h>

#include <string>

#include "preprocess/documents/json_scanner.h"

namespace weft {
namespace {

LineOutcome parse(const std::string& line) { return JsonLineParser({"text"}).parse(line); }

LineProblem problem_of(const std::string& line) { return parse(line).problem; }

std::vector<std::string> texts_of(JsonLineParser& parser) {
  std::vector<std::string> texts;
  parser.each_text(0, [&](std::string_view text) {
    texts.emplace_back(text);
    return true;
  });
  return texts;
}

std::vector<std::string> texts_of(const std::string& line) {
  JsonLineParser parser({"text"});
  const LineOutcome outcome = parser.parse(line);
  EXPECT_EQ(outcome.problem, LineProblem::kNone) << line << ": " << outcome.detail;
  return texts_of(parser);
}

std::string text_of(const std::string& line) {
  const std::vector<std::string> texts = texts_of(line);
  EXPECT_EQ(texts.size(), 1U) << line;
  return texts.empty() ? "" : texts[0];
}

TEST(JsonLine, FindsTheTextAmongOtherValues) {
  EXPECT_EQ(text_of(R"({"a": [1, {"text": "inner"}], "text": "outer", "b": null})"), "outer");
  EXPECT_EQ(text_of(" \t{ \"text\" :\r\"x\" } \n"), "x");
  EXPECT_EQ(text_of(R"({"text":""})"), "");
}

TEST(JsonLine, UnescapesEveryEscape) {
  EXPECT_EQ(text_of(R"({"text":"\"\\\/\b\f\n\r\t"})"), "\"\\/\b\f\n\r\t");
  EXPECT_EQ(text_of(R"({"text":"\u0041\u00e9\u20AC\u0000!"})"), std::string("A\u00e9\u20ac\0!", 8));
  EXPECT_EQ(text_of(R"({"text":"\ud83d\ude00"})"), "\U0001F600");
}

TEST(JsonLine, LastOfEqualKeysCounts) {
  EXPECT_EQ(text_of(R"({"text":"first","text":"last"})"), "last");
  EXPECT_EQ(problem_of(R"({"text":"first","text":3})"), LineProblem::kNotAString);
  EXPECT_EQ(text_of(R"({"text":3,"text":"last"})"), "last");
}

TEST(JsonLine, ComparesKeysAfterUnescaping) {
  EXPECT_EQ(text_of(R"({"\u0074ext":"x"})"), "x");
  EXPECT_EQ(problem_of(R"({"\\text":"x"})"), LineProblem::kMissingKey);
}

TEST(JsonLine, LoneSurrogatesBecomeReplacementCharactersAndAreCounted) {
  JsonLineParser parser({"text"});
  // Two highs and a low: the first is lone, the others pair (as in Python's json).
  ASSERT_EQ(parser.parse(R"({"text":"\ud83d\ud83d\ude00 \udc00\ud800"})").problem,
            LineProblem::kNone);
  EXPECT_EQ(texts_of(parser), (std::vector<std::string>{"\uFFFD\U0001F600 \uFFFD\uFFFD"}));
  EXPECT_EQ(parser.num_replaced_surrogates(), 3);
  ASSERT_EQ(parser.parse(R"({"text":"\ud800\u0041","other":"\ud800"})").problem,
            LineProblem::kNone);
  EXPECT_EQ(texts_of(parser), (std::vector<std::string>{"\uFFFD"
                                                        "A"}));
  EXPECT_EQ(parser.num_replaced_surrogates(), 1) << "only the texts that are used count";
}

TEST(JsonLine, AcceptsWhatPythonAcceptsBeyondTheStandard) {
  for (const char* value :
       {"NaN", "Infinity", "-Infinity", "1e999", "-0", "0.5E-3", "true", "false", "null",
        "123456789012345678901234567890", "[]", "{}", "[[],{}]"}) {
    EXPECT_EQ(text_of(std::string(R"({"x":)") + value + R"(,"text":"y"})"), "y") << value;
  }
}

TEST(JsonLine, RefusesWhatPythonRefuses) {
  for (const char* value : {"nan",     "+1",          "01",         "1.",     ".5",    "1e",
                            "-",       "--1",         "-NaN",       "0x10",   "tru",   "'a'",
                            "\"a",     "[1,]",        "{\"a\":1,}", "{a:1}",  "[1 2]", "{\"a\" 1}",
                            "\"\\x\"", "\"\\u12g4\"", "\"\\u12\"",  "\"\t\"", ""}) {
    const LineOutcome outcome = parse(std::string(R"({"text":"y","x":)") + value + "}");
    EXPECT_EQ(outcome.problem, LineProblem::kNotJson) << value;
    EXPECT_NE(outcome.detail, "") << value;
  }
  EXPECT_EQ(problem_of(R"({"text":"a"} x)"), LineProblem::kNotJson);
  EXPECT_EQ(problem_of(R"({"text":"a"}})"), LineProblem::kNotJson);
  EXPECT_EQ(problem_of(R"({"text":"a")"), LineProblem::kNotJson);
  EXPECT_EQ(problem_of("\uFEFF{\"text\":\"a\"}"), LineProblem::kNotJson);
  EXPECT_EQ(problem_of(std::string("{\"text\":\"a\0b\"}", 14)), LineProblem::kNotJson);
}

TEST(JsonLine, TellsTheReasonsApart) {
  EXPECT_EQ(problem_of(""), LineProblem::kBlank);
  EXPECT_EQ(problem_of(" \t "), LineProblem::kBlank);
  EXPECT_EQ(problem_of("[]"), LineProblem::kNotAnObject);
  EXPECT_EQ(problem_of("\"text\""), LineProblem::kNotAnObject);
  EXPECT_EQ(problem_of("{}"), LineProblem::kMissingKey);
  EXPECT_EQ(problem_of(R"({"Text":"a"})"), LineProblem::kMissingKey);
  EXPECT_EQ(problem_of(R"({"text":{"a":"b"}})"), LineProblem::kNotAString);
  EXPECT_EQ(problem_of(R"({"text":["a",1]})"), LineProblem::kNotAString);
  EXPECT_EQ(problem_of(R"({"text":[["a"]]})"), LineProblem::kNotAString);
}

TEST(JsonLine, ListsOfStringsHaveSeveralTexts) {
  using Texts = std::vector<std::string>;
  EXPECT_EQ(texts_of(R"({"text":["a","b\n","","\u00e9"]})"), (Texts{"a", "b\n", "", "\u00e9"}));
  EXPECT_EQ(texts_of(" {\"text\" : [ \"a\"\t,\r\"]\" , \"b,\\\"\" ] } "),
            (Texts{"a", "]", "b,\""}));
  EXPECT_EQ(texts_of(R"({"text":[]})"), Texts{});
  EXPECT_EQ(texts_of(R"({"text":[ ]})"), Texts{});
  EXPECT_EQ(texts_of(R"({"text":["a"],"text":"last"})"), Texts{"last"});
  EXPECT_EQ(texts_of(R"({"text":1,"text":["last"]})"), Texts{"last"});
  EXPECT_EQ(problem_of(R"({"text":["a",]})"), LineProblem::kNotJson);
  const LineOutcome outcome = parse(R"({"text":["a", null]})");
  EXPECT_EQ(outcome.detail, "an element of the list \"text\"");
  EXPECT_EQ(outcome.position, 14U);
}

TEST(JsonLine, SaysWhere) {
  const LineOutcome outcome = parse(R"({"text": "a" "b": 1})");
  EXPECT_EQ(outcome.detail, "expected ',' or '}'");
  EXPECT_EQ(outcome.position, 13U);
}

TEST(JsonLine, LimitsDepthWithoutRunningOutOfStack) {
  const auto line = [](const std::string& key, int depth) {
    return R"({"text":"a",")" + key + "\":" + std::string(static_cast<size_t>(depth), '[') +
           std::string(static_cast<size_t>(depth), ']') + "}";
  };
  EXPECT_EQ(problem_of(line("x", kMaxJsonDepth)), LineProblem::kNone);
  EXPECT_EQ(problem_of(line("text", kMaxJsonDepth)), LineProblem::kNotAString);
  for (const char* key : {"x", "text"})
    EXPECT_EQ(problem_of(line(key, kMaxJsonDepth + 1)), LineProblem::kNotJson) << key;
  EXPECT_EQ(problem_of(std::string(1000000, '[')), LineProblem::kNotJson);
}

}  // namespace
}  // namespace weft
