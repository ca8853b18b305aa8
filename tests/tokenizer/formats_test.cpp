// Loaders of tokenizer.json, rank files and tekken.json, on files that a test can damage. Real
// files are compared in golden_families_test.cpp.
#include <gmock/gmock.h>

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/tokenizer/golden.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/formats/load_tokenizer.h"
#include "tokenizer/tokenizer.h"

namespace weft {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::string printable(int byte) { return to_printable(std::string(1, static_cast<char>(byte))); }

std::vector<int32_t> encode(const std::shared_ptr<const Vocabulary>& vocabulary,
                            std::string_view text) {
  Tokenizer tokenizer(vocabulary);
  return test::encode(tokenizer, text);
}

// 256 bytes, "ab", "abc", and the special token <end>, with GPT-2's pattern.
class TokenizerJsonTest : public testing::Test {
 protected:
  TokenizerJsonTest() {
    for (int byte = 0; byte < 256; ++byte) vocab()[printable(byte)] = byte;
    vocab()["ab"] = 256;
    vocab()["abc"] = 257;
    file_["model"]["type"] = "BPE";
    file_["model"]["merges"] = {"a b", "ab c"};
    file_["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
    file_["added_tokens"] = {{{"id", 258}, {"content", "<|endoftext|>"}, {"special", true}}};
  }
  json& vocab() { return file_["model"]["vocab"]; }

  std::shared_ptr<const Vocabulary> load() const { return load_text(file_.dump()); }
  static std::shared_ptr<const Vocabulary> load_text(const std::string& text) {
    return load_tokenizer({"tokenizer.json", text});
  }
  void expect_error(const std::string& why) const {
    EXPECT_THAT([this] { load(); }, ThrowsMessage<std::runtime_error>(
                                        AllOf(HasSubstr("tokenizer.json"), HasSubstr(why))));
  }
  static void expect_error_of(const std::string& text, const std::string& why) {
    EXPECT_THAT([&] { load_text(text); }, ThrowsMessage<std::runtime_error>(
                                              AllOf(HasSubstr("tokenizer.json"), HasSubstr(why))));
  }

  json file_;
};

TEST_F(TokenizerJsonTest, ReadsMergesAsTextAndAsPairs) {
  EXPECT_THAT(encode(load(), "abc ab"), ElementsAre(257, ' ', 256));
  file_["model"]["merges"] = json::parse(R"([["a", "b"], ["ab", "c"]])");
  EXPECT_THAT(encode(load(), "abc ab"), ElementsAre(257, ' ', 256));
  file_["model"].erase("type");  // RoBERTa's has none
  EXPECT_THAT(encode(load(), "abc"), ElementsAre(257));
}

TEST_F(TokenizerJsonTest, ReadsAddedTokensWithTheirFlags) {
  file_["added_tokens"].push_back(
      {{"id", 259}, {"content", "  "}, {"special", false}, {"normalized", true}, {"lstrip", true}});
  const auto vocabulary = load();
  EXPECT_EQ(vocabulary->size(), 260);
  ASSERT_EQ(vocabulary->added_tokens().size(), 2u);
  EXPECT_TRUE(vocabulary->added_tokens()[0].special);
  const AddedToken& spaces = vocabulary->added_tokens()[1];
  EXPECT_EQ(spaces.content, "  ");
  EXPECT_EQ(spaces.id, 259);
  EXPECT_FALSE(spaces.special);
  EXPECT_TRUE(spaces.normalized);
  EXPECT_TRUE(spaces.lstrip);
  EXPECT_FALSE(spaces.rstrip);
  EXPECT_EQ(vocabulary->end_of_document(), 258);
  EXPECT_EQ(vocabulary->num_unreachable(), 0);
}

TEST_F(TokenizerJsonTest, RefusesAddedTokensThatWouldHaveOtherIdsElsewhere) {
  file_["added_tokens"][0]["id"] = 300;
  expect_error("has id 300, but must have 258");
  file_["added_tokens"][0] = {{"id", 258}, {"content", "abc"}};
  expect_error("has id 258, but must have 257, which model.vocab says");
  file_["added_tokens"][0] = {{"id", 258}, {"content", ""}};
  expect_error("no content or no id");
}

TEST_F(TokenizerJsonTest, ReadsTheTemplatesOfAllPostProcessors) {
  const json begin = {{"SpecialToken", {{"id", "B"}}}}, text = {{"Sequence", {{"id", "A"}}}};
  const json special_tokens = {{"B", {{"ids", {258}}}}};
  file_["post_processor"] = {
      {"type", "Sequence"},
      {"processors",
       {{{"type", "ByteLevel"}},
        {{"type", "TemplateProcessing"},
         {"single", {begin, text}},
         {"special_tokens", special_tokens}},
        {{"type", "RobertaProcessing"}, {"cls", {"a", 97}}, {"sep", {"b", 98}}}}}};
  const auto vocabulary = load();
  EXPECT_THAT(vocabulary->prefix_ids(), ElementsAre(97, 258));
  EXPECT_THAT(vocabulary->suffix_ids(), ElementsAre(98));
  file_["post_processor"] = {
      {"type", "RobertaProcessing"}, {"cls", {"a", 9700}}, {"sep", {"b", 98}}};
  expect_error("'cls' is not a token and its id");
}

TEST_F(TokenizerJsonTest, ReadsNormalizers) {
  EXPECT_EQ(load()->normalizer(), Normalizer::kNone);
  file_["normalizer"] = {{"type", "Sequence"}, {"normalizers", json::array()}};
  EXPECT_EQ(load()->normalizer(), Normalizer::kNone);
  file_["normalizer"] = {{"type", "Sequence"}, {"normalizers", {{{"type", "NFC"}}}}};
  EXPECT_EQ(load()->normalizer(), Normalizer::kNfc);
  file_["normalizer"] = {{"type", "NFKC"}};
  expect_error("normalizer NFKC is not supported");
}

// A whole piece that is an entry is that entry, although its merges end with others.
TEST_F(TokenizerJsonTest, IgnoresMergesForWholePieces) {
  vocab()["bcd"] = 258;
  vocab()["abcdandsoonlongerthanakey"] = 259;
  file_["added_tokens"] = json::array();
  EXPECT_EQ(load()->num_unreachable(), 2);
  EXPECT_THAT(encode(load(), "bcd"), ElementsAre('b', 'c', 'd'));
  file_["model"]["ignore_merges"] = true;
  const auto vocabulary = load();
  EXPECT_EQ(vocabulary->num_unreachable(), 0);
  EXPECT_THAT(encode(vocabulary, "bcd"), ElementsAre(258));
  EXPECT_THAT(encode(vocabulary, "bcde"), ElementsAre('b', 'c', 'd', 'e'));
}

// As Hugging Face's tokenizers do.
TEST_F(TokenizerJsonTest, DropsBytesWithoutAnEntryAndMergesTheirNeighbours) {
  vocab().erase(printable(0x03));
  vocab()["cd"] = 3;
  file_["model"]["merges"].push_back("c d");
  const auto vocabulary = load();
  EXPECT_TRUE(vocabulary->missing_bytes()[3]);
  EXPECT_EQ(vocabulary->missing_bytes().count(), 1u);
  Tokenizer tokenizer(vocabulary);
  const std::string part =
      "a\x03"
      "bc";
  EXPECT_THAT(test::encode(tokenizer, "\x03"), ElementsAre());
  // The pattern cuts there, so only within a piece bytes become neighbours.
  EXPECT_THAT(test::encode(tokenizer, "!\x03!\x03"), ElementsAre('!', '!'));
  EXPECT_THAT(test::encode(tokenizer, part), ElementsAre('a', 'b', 'c'));
  EXPECT_THAT(test::encode(tokenizer, std::string(100, '\x03') + "!"), ElementsAre('!'));
  file_["model"]["unk_token"] = "<unk>";
  expect_error("unk_token '<unk>' for byte 3");
}

TEST_F(TokenizerJsonTest, RefusesWhatIsNoByteLevelBpeByName) {
  for (const auto& [type, hint] :
       std::vector<std::pair<std::string, std::string>>{{"WordPiece", "type WordPiece"},
                                                        {"Unigram", "type Unigram"},
                                                        {"WordLevel", "WordLevel"}}) {
    file_["model"]["type"] = type;
    expect_error(hint);
  }
  file_["model"]["type"] = "BPE";
  file_["model"]["byte_fallback"] = true;
  expect_error("byte_fallback");
  file_["model"]["byte_fallback"] = false;
  file_["model"]["end_of_word_suffix"] = "</w>";
  expect_error("end_of_word_suffix '</w>'");
  file_["model"].erase("end_of_word_suffix");
  file_["model"]["dropout"] = 0.1;
  expect_error("dropout");
}

TEST_F(TokenizerJsonTest, PrintsAPatternThatIsNotKnown) {
  file_["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Split"}, {"pattern", {{"Regex", "\\w+"}}}, {"behavior", "Isolated"}},
        {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
  expect_error("Split(\\w+) > ByteLevel");
  file_["pre_tokenizer"] = {{"type", "Metaspace"}};
  expect_error("Metaspace, without ByteLevel");
  file_["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", true}};
  expect_error("add_prefix_space");
  file_["pre_tokenizer"] = nullptr;
  expect_error("its pre_tokenizer is missing");
}

TEST_F(TokenizerJsonTest, RefusesDamagedVocabularies) {
  vocab()["abc"] = 256;
  expect_error("its id 256 is used twice");
  vocab()["abc"] = 400;
  expect_error("has id 400, but the ids of 258 entries must be 0 to 257");
  vocab()["abc"] = -1;
  expect_error("its id is -1");
  vocab()["abc"] = uint64_t{1} << 63;
  expect_error("ids are 0 to 2^24 - 1");
  vocab()["abc"] = "257";
  expect_error("not an integer");
  expect_error_of(R"({"model": {"vocab": {"a": 0, "a": 1}, "merges": []}, "pre_tokenizer": )"
                  R"({"type": "ByteLevel", "add_prefix_space": false}})",
                  "entry 'a' stands in model.vocab twice");
}

TEST_F(TokenizerJsonTest, RefusesDamagedMerges) {
  file_["model"]["merges"] = {"a b", "ab c", "a b"};
  expect_error("merge number 2 of model.merges ('a' 'b'): it stands there twice");
  file_["model"]["merges"] = {"a b", "ab d"};
  expect_error("abd is no entry");
  for (const char* merge :
       {R"("ab")", R"("a b c")", "7", "null", "{}", R"(["a"])", R"(["a", "b", "c"])", R"(["a", 1])",
        R"([["a", "b"]])", R"(["a", "b", "ab", "c"])"}) {
    file_["model"]["merges"] = json::array({json::parse(merge)});
    expect_error("merge number 0");
  }
}

// A cycle: each of two entries is made of the other and a byte.
TEST_F(TokenizerJsonTest, TakesMergesInAnyOrder) {
  file_["model"]["merges"] = {"ab c", "a b"};  // the half is made after the whole
  EXPECT_THAT(encode(load(), "abc ab abcab"), ElementsAre(257, ' ', 256, ' ', 257, 256));
  vocab()["bc"] = 258;
  vocab()["bcab"] = 259;
  file_["added_tokens"] = json::array();
  file_["model"]["merges"] = {"bc ab", "ab c", "b c", "a b"};
  // By hand: "b c" first, then "a b", which brings "bc ab" at once.
  EXPECT_THAT(encode(load(), "bcab"), ElementsAre(259));
  EXPECT_THAT(encode(load(), "abcab"), ElementsAre('a', 259));
}

TEST_F(TokenizerJsonTest, RefusesHostileFilesSoon) {
  const auto begin = std::chrono::steady_clock::now();
  expect_error_of(std::string(1 << 20, '['), "not a tokenizer");
  const std::string prefix = R"({"version": "1.0", "x": )";
  expect_error_of(prefix + std::string(1 << 20, '['), "nested more than 64 deep");
  std::string many = prefix + "[0";
  for (int i = 0; i < 1 << 21; ++i) many += ",0";
  expect_error_of(many + "]}", "a million values");
  std::string merges = R"({"model": {"merges": ["a b")";
  for (int i = 0; i < 5'000'000; ++i) merges += R"(,"a b")";
  expect_error_of(merges + "]}}", "merges; no tokenizer has so many");
  expect_error_of(prefix + std::string("\"a\0b\"}", 7), "not JSON");
  expect_error_of(prefix + "1, \"x\": 2}", "the key 'x' stands in it twice");
  expect_error_of(R"({"version": "1.0", "model": {"vocab": {"a": )", "not JSON");
  EXPECT_THAT(
      [] {
        load_tokenizer({"big", {nullptr, kMaxTokenizerBytes + 1}});
      },
      ThrowsMessage<std::runtime_error>(HasSubstr("no tokenizer has more than 256 MiB")));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
}

TEST(Formats, AreToldByContent) {
  const auto expect = [](const std::string& bytes, const std::string& why) {
    EXPECT_THAT(
        [&] {
          load_tokenizer({"f", bytes});
        },
        ThrowsMessage<std::runtime_error>(HasSubstr(why)));
  };
  expect("", "not a tokenizer");
  expect(R"({"!": 0, "a": 1})", "GPT-2's vocab.json needs its merges.txt");
  expect("\n\x0e\n\x05<unk>\x15", "SentencePiece");
  expect("IQ== 0\n", "none of the published ones");
}

// Lines of a rank file: all bytes, and entries behind them.
std::string rank_lines(const std::vector<std::pair<std::string, int>>& entries) {
  std::string lines;
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const auto add = [&](const std::string& bytes, int rank) {
    uint32_t bits = 0;
    for (size_t i = 0; i < 3; ++i)
      bits = bits << 8 | (i < bytes.size() ? static_cast<uint8_t>(bytes[i]) : 0);
    for (size_t i = 0; i < 4; ++i)
      lines += i <= bytes.size() ? digits[bits >> (18 - 6 * i) & 63] : '=';
    lines.append(" ").append(std::to_string(rank)).append("\n");
  };
  for (int byte = 0; byte < 256; ++byte) add(std::string(1, static_cast<char>(byte)), byte);
  for (const auto& [bytes, rank] : entries) add(bytes, rank);
  return lines;
}

std::shared_ptr<const Vocabulary> load_ranks(const std::string& lines,
                                             const std::string& pattern = "r50k") {
  return load_tokenizer({"x.tiktoken", lines}, {.tiktoken_pattern = pattern});
}

TEST(RankFile, MergesByTheRankOfWhatIsJoined) {
  // A hole at 257, and an entry that only a whole piece gives, as no merge makes "bc" first.
  const auto vocabulary =
      load_ranks(rank_lines({{"ab", 256}, {"cd", 258}, {"bcd", 259}, {"zyx", 260}}));
  EXPECT_EQ(vocabulary->size(), 261);
  EXPECT_EQ(vocabulary->bytes(257), "");
  EXPECT_THAT(encode(vocabulary, "abcd"), ElementsAre(256, 258));
  EXPECT_THAT(encode(vocabulary, "xbcd"), ElementsAre('x', 259));
  EXPECT_THAT(encode(vocabulary, "zyx"), ElementsAre(260));
  EXPECT_THAT(encode(vocabulary, "zyxz"), ElementsAre('z', 'y', 'x', 'z'));
  EXPECT_EQ(vocabulary->num_unreachable(), 0);
}

TEST(RankFile, IsRefusedWithTheLine) {
  const auto expect = [](const std::string& lines, const std::string& why) {
    EXPECT_THAT([&] { load_ranks(lines); },
                ThrowsMessage<std::runtime_error>(AllOf(HasSubstr("x.tiktoken"), HasSubstr(why))));
  };
  const std::string lines = rank_lines({{"ab", 256}});
  expect(lines + "YWI= 256\n", ":258: rank 256 stands there twice");
  expect(lines + "YWI= 257\n", "has another id, too");
  expect(lines + "YWI 258\n", ":258: not a line of a rank file");
  expect(lines + "YWI= x\n", ":258: not a line of a rank file");
  expect(lines + "YWJj 99999999\n", ":258: rank 99999999 is above 2^24");
  EXPECT_THAT([&] { load_ranks(lines, "v7"); },
              ThrowsMessage<std::runtime_error>(
                  AllOf(HasSubstr("no pattern 'v7'"), HasSubstr("r50k, p50k"))));
  EXPECT_THAT([&] { load_ranks(lines, "v2"); },
              ThrowsMessage<std::runtime_error>(
                  AllOf(HasSubstr("no pattern 'v2'"),
                        HasSubstr("Megatron-LM's v1 and v2 are for its lists in JSON"))));
}

// Megatron-LM's list of ranks: all bytes, "ab" and "'s".
std::string megatron_list() {
  json list = json::array();
  std::string lines = rank_lines({{"ab", 256}, {"'s", 257}});
  for (size_t begin = 0; begin < lines.size(); begin = lines.find('\n', begin) + 1) {
    const std::string token = lines.substr(begin, lines.find(' ', begin) - begin);
    list.push_back({{"rank", list.size()}, {"token_bytes", token}, {"token_str", ""}});
  }
  return list.dump();
}

TEST(MegatronRanks, StandBehindTheSpecialTokens) {
  const std::string list = megatron_list();
  EXPECT_EQ(tokenizer_format_of(list.substr(0, 100)), TokenizerFormat::kTiktoken);
  const auto load = [&](const std::string& pattern) {
    return load_tokenizer({"x.json", list}, {.tiktoken_pattern = pattern});
  };
  const auto v1 = load("v1,10,268"), v2 = load("v2,10,267");
  EXPECT_EQ(v1->size(), 268);
  EXPECT_EQ(v1->pattern_name(), "megatron-v1");
  EXPECT_EQ(v2->pattern_name(), "tekken");
  EXPECT_EQ(v1->bytes(v1->end_of_document()), "</s>");
  EXPECT_EQ(v1->bytes(9), "<SPECIAL_9>");
  // There is room for "ab" only in the second.
  EXPECT_THAT(encode(v1, "a's ab"), ElementsAre(10 + 'a', 267, 10 + ' ', 266));
  EXPECT_THAT(encode(v2, "a's"), ElementsAre(10 + 'a', 10 + '\'', 10 + 's'));
  const auto expect = [&](const std::string& pattern, const std::string& why) {
    EXPECT_THAT([&] { load(pattern); },
                ThrowsMessage<std::runtime_error>(AllOf(HasSubstr("x.json"), HasSubstr(why))));
  };
  expect("", "name its pattern by --tiktoken-pattern v1 or v2");
  expect("v3", "'v3' is no pattern of it");
  expect("cl100k", "'cl100k' is no pattern of it");
  expect("v2",
         "it has 258 entries, which with 1000 special tokens do not make a vocabulary of 131072");
}

}  // namespace
}  // namespace weft
