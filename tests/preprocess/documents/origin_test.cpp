// Where a document says that it is from: the string in its line, and what is made of it.
#include "preprocess/documents/origin.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "preprocess/documents/json_line.h"

namespace weft {
namespace {

std::string origin(std::string_view value) {
  const Origin found = origin_of(value);
  EXPECT_TRUE(is_valid(found)) << value;
  return std::string(found.view());
}

TEST(Origin, OfAnAddressIsItsHost) {
  EXPECT_EQ(origin("https://example.org/a/b?c=d#e"), "example.org");
  EXPECT_EQ(origin("http://example.org"), "example.org");
  EXPECT_EQ(origin("HTTPS://WWW.Example.ORG/A"), "example.org");
  EXPECT_EQ(origin("ftp://ftp.example.org:21/x"), "ftp.example.org");
  EXPECT_EQ(origin("https://example.org:8443"), "example.org");
  EXPECT_EQ(origin("https://example.org?q=https://other.org"), "example.org");
  EXPECT_EQ(origin("https://example.org#https://other.org"), "example.org");
  EXPECT_EQ(origin("https://example.org\\@other.org/"), "example.org");
  EXPECT_EQ(origin("git+ssh://example.org/x"), "example.org");
  EXPECT_EQ(origin("s3://bucket/key"), "bucket");
}

TEST(Origin, KnowsNoUserAndNoPort) {
  EXPECT_EQ(origin("https://user:secret@example.org/"), "example.org");
  EXPECT_EQ(origin("https://a@b@example.org:1/"), "example.org");
  EXPECT_EQ(origin("https://example.org/@user"), "example.org");
  EXPECT_EQ(origin("https://user@[2001:DB8::1]:8080/x"), "[2001:db8::1]");
  EXPECT_EQ(origin("https://[::1"), "[");  // no address: what stands before the colon
  EXPECT_EQ(origin("https://127.0.0.1:80/"), "127.0.0.1");
}

TEST(Origin, LeavesOutWwwAndDotsAtTheEnd) {
  EXPECT_EQ(origin("https://www.example.org./"), "example.org");
  EXPECT_EQ(origin("https://example.org.../"), "example.org");
  EXPECT_EQ(origin("https://www.www.example.org"), "www.example.org");
  EXPECT_EQ(origin("https://www.com/"), "www.com");
  EXPECT_EQ(origin("https://www./"), "www");
  EXPECT_EQ(origin("https://wwwx.example.org"), "wwwx.example.org");
}

TEST(Origin, LeavesNamesInOtherScriptsAsTheyAre) {
  EXPECT_EQ(origin("https://xn--mnchen-3ya.de/"), "xn--mnchen-3ya.de");
  EXPECT_EQ(origin("https://m\u00fcnchen.DE/"), "m\u00fcnchen.de");
  EXPECT_EQ(origin("https://M\u00dcNCHEN.de/"), "m\u00dcnchen.de");  // ASCII only
}

TEST(Origin, OfAnAddressWithoutHostIsItsScheme) {
  EXPECT_EQ(origin("file:///home/user/a.txt"), "file://");
  EXPECT_EQ(origin("https://"), "https://");
  EXPECT_EQ(origin("https://:80/"), "https://");
  EXPECT_EQ(origin("https://user@/x"), "https://");
  EXPECT_EQ(origin("https://.../x"), "https://");
}

TEST(Origin, OfOtherTextsIsTheText) {
  EXPECT_EQ(origin("Pile-CC"), "Pile-CC");
  EXPECT_EQ(origin(" \t\nPile-CC \x01"), "Pile-CC");
  EXPECT_EQ(origin("/home/user/a.txt"), "/home/user/a.txt");
  EXPECT_EQ(origin("data:text/html,x"), "data:text/html,x");
  EXPECT_EQ(origin("example.org/page"), "example.org/page");
  EXPECT_EQ(origin("//example.org/page"), "//example.org/page");
  EXPECT_EQ(origin("see https://example.org"), "see https://example.org");
  EXPECT_EQ(origin("1http://example.org"), "1http://example.org");
  EXPECT_EQ(origin("://"), "://");
  EXPECT_EQ(origin(""), "");
  EXPECT_EQ(origin(" \n "), "");
}

TEST(Origin, EndsAtAZeroByte) {
  EXPECT_EQ(origin(std::string_view("ab\0cd", 5)), "ab");
  EXPECT_EQ(origin(std::string_view("\0\0ab\0cd", 7)), "ab");
  EXPECT_EQ(origin(std::string_view("https://a.org\0.b.org/", 21)), "a.org");
  EXPECT_EQ(origin(std::string_view("https://a.org \0.b.org/", 22)), "a.org");
}

TEST(Origin, KeepsTheEndOfALongHostAndTheBeginningOfOtherTexts) {
  const std::string exact(32, 'x'), over(33, 'x');
  EXPECT_EQ(origin(exact), exact);
  EXPECT_EQ(origin(over), std::string(29, 'x') + "\u2026");
  EXPECT_EQ(origin("https://" + exact), exact);
  EXPECT_EQ(origin("https://" + std::string(50, 'x') + ".example.co.uk/"),
            "\u2026" + std::string(29 - 14, 'x') + ".example.co.uk");
  EXPECT_EQ(origin("https://www." + std::string(28, 'x') + ".org"), std::string(28, 'x') + ".org");
}

TEST(Origin, IsCutBetweenCharacters) {
  for (size_t before = 0; before < 40; ++before) {
    for (const char* character : {"\u00e9", "\u20ac", "\U0001F600"}) {
      std::string text(before, 'x');
      for (int i = 0; i < 20; ++i) text += character;
      EXPECT_LE(origin(text).size(), kOriginBytes);
      EXPECT_TRUE(origin(text).ends_with("\u2026"));
      EXPECT_TRUE(origin("a://" + text + text.substr(0, before)).starts_with("\u2026"));
    }
  }
}

TEST(Origin, InAFileMayBeDamaged) {
  Origin damaged = origin_of("ab");
  damaged.bytes[1] = '\xE9';
  EXPECT_FALSE(is_valid(damaged));
  damaged = origin_of("ab");
  damaged.bytes[31] = 'x';
  EXPECT_FALSE(is_valid(damaged));
  EXPECT_TRUE(is_valid(Origin{}));
}

// The origin of a line whose text, if it has a good one, is "t".
std::string origin_in(const std::string& line, std::string_view key = "auto") {
  JsonLineParser parser({"text"}, key);
  // The values of an earlier line must not stay.
  EXPECT_EQ(parser.parse(R"({"text":"t","url":"https://before","a":{"b":"before"}})").problem,
            LineProblem::kNone);
  const LineOutcome outcome = parser.parse(line);
  EXPECT_EQ(outcome.problem, LineProblem::kNone) << line << ": " << outcome.detail;
  const Origin found = parser.origin();
  return std::string(found.view());
}

TEST(OriginKey, IsAPathThroughObjects) {
  EXPECT_EQ(origin_in(R"({"text":"t","a":"x"})", "a"), "x");
  EXPECT_EQ(origin_in(R"({"text":"t","a":{"b":"x"}})", "a.b"), "x");
  EXPECT_EQ(
      origin_in(R"({"a" : { "z":{"b":"no"}, "b" : { "c":[{"c":1}], "d" : "x" } },"text":"t"})",
                "a.b.d"),
      "x");
  EXPECT_EQ(origin_in(R"({"text":"t","\u0061":{"\u0062":"x\u0079"}})", "a.b"), "xy");
  EXPECT_EQ(origin_in(R"({"text":"t","b":"no","a":{"c":"no"}})", "a.b"), "");
  EXPECT_EQ(origin_in(R"({"text":"t","a.b":"no"})", "a.b"), "");
  EXPECT_EQ(origin_in(R"({"text":"t"})", "text"), "t");
  EXPECT_EQ(origin_in(R"({"text":["t","u"]})", "text"), "");
}

TEST(OriginKey, WhatIsNoStringIsNoOriginAndNoBadLine) {
  for (const char* value :
       {"3", "null", "true", "NaN", "[\"x\"]", "{}", "{\"c\":\"x\"}", "\"\"", "\" \""})
    EXPECT_EQ(origin_in(R"({"text":"t","a":{"b":)" + std::string(value) + "}}", "a.b"), "")
        << value;
  for (const char* value : {"3", "null", "\"x\"", "[{\"b\":\"x\"}]"})
    EXPECT_EQ(origin_in(R"({"text":"t","a":)" + std::string(value) + "}", "a.b"), "") << value;
}

TEST(OriginKey, LastOfEqualKeysCountsAtEveryLevel) {
  EXPECT_EQ(origin_in(R"({"text":"t","a":{"b":"x","b":"y"}})", "a.b"), "y");
  EXPECT_EQ(origin_in(R"({"text":"t","a":{"b":"x","b":3}})", "a.b"), "");
  EXPECT_EQ(origin_in(R"({"text":"t","a":{"b":3,"b":"y"}})", "a.b"), "y");
  EXPECT_EQ(origin_in(R"({"text":"t","a":{"b":"x"},"a":{"b":"y"}})", "a.b"), "y");
  EXPECT_EQ(origin_in(R"({"text":"t","a":{"b":"x"},"a":{"c":"y"}})", "a.b"), "");
  EXPECT_EQ(origin_in(R"({"text":"t","a":{"b":"x"},"a":[]})", "a.b"), "");
  EXPECT_EQ(origin_in(R"({"text":"t","a":{"b":"x"},"a":"y"})", "a.b"), "");
  EXPECT_EQ(origin_in(R"({"text":"t","a":{"b":{"c":"x"}},"a":{"b":{}}})", "a.b.c"), "");
  EXPECT_EQ(origin_in(R"({"text":"t","meta":{"url":"https://x"},"meta":{},"source":"y"})"), "y");
  EXPECT_EQ(origin_in(R"({"text":"t","text":"u","text":["v"]})", "text"), "");
}

TEST(OriginKey, AutoTakesTheFirstOfItsList) {
  EXPECT_EQ(origin_in(R"({"text":"t","timestamp":"1","url":"https://c4.org/x"})"), "c4.org");
  EXPECT_EQ(origin_in(R"({"text":"t","meta":{"pile_set_name":"Pile-CC"}})"), "Pile-CC");
  EXPECT_EQ(origin_in(R"({"text":"t","meta":{"redpajama_set_name":"RedPajamaC4"}})"),
            "RedPajamaC4");
  EXPECT_EQ(origin_in(R"({"meta":{"source":"arxiv","url":"https://arxiv.org/abs/1"},"text":"t"})"),
            "arxiv.org");
  EXPECT_EQ(origin_in(R"({"source":"common-crawl","metadata":{"url":"http://d.org"},"text":"t"})"),
            "d.org");
  EXPECT_EQ(origin_in(R"({"source":"wiki","metadata":{"length":3},"text":"t"})"), "wiki");
  EXPECT_EQ(origin_in(R"({"text":"t","warc_headers":{"warc-target-uri":"http://o.org/"}})"),
            "o.org");
  EXPECT_EQ(
      origin_in(
          R"({"text":"t","metadata":{"warc_headers":{"warc-date":"1","warc-target-uri":"http://o.org/"}}})"),
      "o.org");
  EXPECT_EQ(origin_in(R"({"text":"t","url":"","meta":{"url":null},"source":"s"})"), "s");
  EXPECT_EQ(origin_in(R"({"text":"t","id":"7"})"), "");
  EXPECT_EQ(origin_in(R"({"text":"t","url":"https://x.org"})", "none"), "");
}

TEST(OriginKey, LooksAtTheBeginningOfLongStringsOnly) {
  std::string path;
  for (int i = 0; i < 100'000; ++i) path += "\\n\\u00e9\\ud83d\\ude00\u00e9";
  EXPECT_EQ(origin_in(R"({"text":"t","url":"https://x.org/)" + path + "\"}"), "x.org");
  EXPECT_EQ(origin_in(R"({"text":"t","url":"a)" + path + "\"}").substr(0, 4), "a\n\u00e9");
}

// A line is as good with origins as without, in whatever object it is bad.
TEST(OriginKey, DoesNotChangeWhatIsABadLine) {
  const std::string deep = std::string(988, '[') + std::string(988, ']');
  const std::string too_deep = std::string(989, '[') + std::string(989, ']');
  for (const std::string& line :
       {std::string(R"({"text":"t","a":{"b":)") + deep + "}}",
        std::string(R"({"text":"t","a":{"b":)") + too_deep + "}}",
        std::string(R"({"text":"t","a":{"b":"x",}})"), std::string(R"({"text":"t","a":{"b":"x"})"),
        std::string(R"({"text":"t","a":{"b" "x"}})"), std::string(R"({"text":"t","a":{b:"x"}})"),
        std::string(R"({"text":"t","a":{"b":"x)"), std::string(R"({"text":"t","a":{"b":"\x"}})"),
        std::string(R"({"text":"t","a":{"b":"x" "c":1}})"), std::string(R"({"text":"t","a":{)"),
        std::string(R"({"text":3,"a":{"b":"x"}})"), std::string(R"({"a":{"b":"x","text":"t"}})")}) {
    const LineOutcome with = JsonLineParser({"text"}, "a.b").parse(line);
    const LineOutcome without = JsonLineParser({"text"}).parse(line);
    EXPECT_EQ(with.problem, without.problem) << line;
    EXPECT_EQ(with.detail, without.detail) << line;
    EXPECT_EQ(with.position, without.position) << line;
  }
}

TEST(OriginKey, MayHaveDotsAndBackslashesInItsNames) {
  const std::string line =
      R"({"text":"t","meta":{"url":"nested","a.b":{"c":"deep"}},"meta.url":"flat","x\\y":"slash","..":"dots"})";
  EXPECT_EQ(origin_in(line, "meta.url"), "nested");
  EXPECT_EQ(origin_in(line, R"(meta\.url)"), "flat");
  EXPECT_EQ(origin_in(line, R"(meta.a\.b.c)"), "deep");
  EXPECT_EQ(origin_in(line, R"(x\\y)"), "slash");
  EXPECT_EQ(origin_in(line, R"(\.\.)"), "dots");
  EXPECT_EQ(origin_in(line, R"(meta\.a)"), "");
  for (const char* key : {R"(\)", R"(a\)", R"(a\b)", R"(a.\n)"}) {
    try {
      (void)origin_paths(key);
      FAIL() << key;
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find("before neither a dot"), std::string::npos) << key;
    }
  }
}

TEST(OriginKey, HasNoEmptyPart) {
  for (const char* key : {"", ".", "a.", ".a", "a..b", R"(a\..)"}) {
    EXPECT_THROW((void)origin_paths(key), std::invalid_argument) << key;
  }
  for (const char* key : {"auto", "none", "a", "a.b.c", "warc-target-uri"})
    EXPECT_NO_THROW((void)origin_paths(key)) << key;
}

}  // namespace
}  // namespace weft
