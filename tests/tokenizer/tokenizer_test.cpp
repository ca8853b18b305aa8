#include "tokenizer/tokenizer.h"

#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <stdexcept>

#include "tests/tokenizer/golden.h"

namespace weft {
namespace {

using Ids = std::vector<int32_t>;
using testing::HasSubstr;
using testing::ThrowsMessage;

struct GoldenText {
  std::string text;
  Ids gpt2, small;
};

std::vector<GoldenText> golden_texts() {
  std::ifstream file(test::golden_folder() / "ids.jsonl");
  std::vector<GoldenText> texts;
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line);
    texts.push_back({json["text"], json["gpt2"], json["small"]});
  }
  return texts;
}

// A tokenizer for each vocabulary that the machine has.
std::vector<Tokenizer> tokenizers() {
  std::vector<Tokenizer> result;
  result.emplace_back(test::small_vocabulary());
  if (const auto gpt2 = test::gpt2_vocabulary()) result.emplace_back(gpt2);
  return result;
}

void expect_round_trip(Tokenizer& tokenizer, const std::string& text) {
  const Ids ids = test::encode(tokenizer, text);
  ASSERT_TRUE(tokenizer.decode(ids.data(), ids.size()) == text) << text.substr(0, 100);
}

TEST(Tokenizer, GivesTheIdsOfTiktokenAndHuggingFaceWithASmallVocabulary) {
  Tokenizer tokenizer(test::small_vocabulary());
  const std::vector<GoldenText> texts = golden_texts();
  ASSERT_GT(texts.size(), 300u);
  for (int round = 0; round < 2; ++round) {  // the second time out of the word cache
    for (const GoldenText& golden : texts) {
      ASSERT_EQ(test::encode(tokenizer, golden.text), golden.small) << golden.text;
    }
  }
}

TEST(Tokenizer, GivesTheIdsOfTiktokenAndHuggingFaceWithGpt2sVocabulary) {
  const auto vocabulary = test::gpt2_vocabulary();
  if (!vocabulary) GTEST_SKIP() << "WEFT_GPT2_DIR is not set";
  Tokenizer tokenizer(vocabulary);
  for (int round = 0; round < 2; ++round) {
    for (const GoldenText& golden : golden_texts()) {
      ASSERT_EQ(test::encode(tokenizer, golden.text), golden.gpt2) << golden.text;
    }
  }
}

TEST(Tokenizer, GivesTheKnownIdsOfGpt2) {
  const auto vocabulary = test::gpt2_vocabulary();
  if (!vocabulary) GTEST_SKIP() << "WEFT_GPT2_DIR is not set";
  Tokenizer tokenizer(vocabulary);
  EXPECT_EQ(test::encode(tokenizer, "Hello world"), (Ids{15496, 995}));
  EXPECT_EQ(test::encode(tokenizer, "hello world"), (Ids{31373, 995}));
  EXPECT_EQ(test::encode(tokenizer, " hello"), (Ids{23748}));
  EXPECT_EQ(test::encode(tokenizer, "\n\n"), (Ids{628}));
  EXPECT_EQ(test::encode(tokenizer, "00000000000000000"), (Ids{8269, 10535, 830}));
  EXPECT_EQ(test::encode(tokenizer, "indivisible"), (Ids{521, 452, 12843}));
  EXPECT_EQ(test::encode(tokenizer, "hello \U0001F44B world \U0001F30D"),
            (Ids{31373, 50169, 233, 995, 12520, 234, 235}));
  EXPECT_EQ(test::encode(tokenizer, "\uFFFD"), (Ids{4210}));
  EXPECT_EQ(test::encode(tokenizer, ""), Ids{});
  EXPECT_EQ(test::encode(tokenizer, "<|endoftext|>"), (Ids{27, 91, 437, 1659, 5239, 91, 29}));
}

TEST(Tokenizer, TreatsEndOfTextAsTold) {
  const auto vocabulary = test::small_vocabulary();
  const int32_t end = vocabulary->end_of_document();
  Tokenizer literal(vocabulary), token(vocabulary, SpecialTokens::kToken),
      error(vocabulary, SpecialTokens::kError);

  EXPECT_THAT(test::encode(literal, "a<|endoftext|>b"), testing::Not(testing::Contains(end)));
  expect_round_trip(literal, "a<|endoftext|>b");
  // Each side is split on its own: the space before the token belongs to no word.
  const int32_t space = vocabulary->merge_table().byte_id(' '),
                a = vocabulary->merge_table().byte_id('a'),
                b = vocabulary->merge_table().byte_id('b');
  EXPECT_EQ(test::encode(token, "a <|endoftext|>b"), (Ids{a, space, end, b}));
  EXPECT_EQ(test::encode(token, "<|endoftext|><|endoftext|>"), (Ids{end, end}));
  EXPECT_EQ(test::encode(token, "<|endoftext|"), test::encode(literal, "<|endoftext|"));
  EXPECT_THAT([&] { test::encode(error, "a<|endoftext|>"); },
              ThrowsMessage<std::runtime_error>(HasSubstr("<|endoftext|>")));
  EXPECT_EQ(test::encode(error, "a <| b"), test::encode(literal, "a <| b"));
}

TEST(Tokenizer, AppendsToTheIdsThatAreThere) {
  Tokenizer tokenizer(test::small_vocabulary());
  Ids ids = {5};
  tokenizer.encode("!", ids);
  EXPECT_EQ(ids, (Ids{5, 0}));
}

TEST(Tokenizer, DecodesEveryIdAndRejectsOthers) {
  const auto vocabulary = test::small_vocabulary();
  Tokenizer tokenizer(vocabulary);
  const Ids ids = {vocabulary->end_of_document(), vocabulary->merge_table().byte_id('a')};
  EXPECT_EQ(tokenizer.decode(ids.data(), ids.size()), "<|endoftext|>a");
  for (int32_t id : {-1, vocabulary->size()})
    EXPECT_THROW(tokenizer.decode(&id, 1), std::out_of_range);
}

TEST(Tokenizer, DecodeInvertsEncodeForAnyBytes) {
  std::mt19937 random(11);
  for (Tokenizer& tokenizer : tokenizers()) {
    for (int round = 0; round < 3000; ++round) {
      std::string bytes(random() % 80, '\0');
      for (char& c : bytes) c = static_cast<char>(random());
      expect_round_trip(tokenizer, bytes);
    }
  }
}

// The cache must be forgotten and refilled many times over without a trace in the ids.
TEST(Tokenizer, IdsDoNotDependOnWhatWasEncodedBefore) {
  Tokenizer worn(test::small_vocabulary());
  std::mt19937 random(5);
  Ids ids;
  for (int i = 0; i < 700'000; ++i) {
    // 525,000 short words and 175,000 long ones: more than either cache keeps.
    std::string word(i % 4 == 0 ? 20 : 8, ' ');
    for (char& c : word) c = static_cast<char>('a' + random() % 26);
    ids.clear();
    worn.encode(word, ids);
  }
  for (const GoldenText& golden : golden_texts()) {
    ASSERT_EQ(test::encode(worn, golden.text), golden.small) << golden.text;
  }
}

// Were any step quadratic in the length of a word, one of these would take hours, not a second.
TEST(Tokenizer, EncodesAMegabyteWithoutABreak) {
  constexpr size_t kNumBytes = 1 << 20;
  std::mt19937 random(13);
  std::vector<std::string> texts = {std::string(kNumBytes, 'a'), std::string(kNumBytes, ' '),
                                    std::string(kNumBytes, '-'), std::string(kNumBytes, '\xFF'),
                                    std::string(kNumBytes, '\0')};
  for (const std::string unit :
       {"ab", "e\u0301", "\u0301", "\u4E2D\u6587", "'", " \t", "\u00A0", "<|endoftext|>"}) {
    std::string text;
    while (text.size() < kNumBytes) text += unit;
    texts.push_back(text);
  }
  std::string letters, han;
  while (letters.size() < kNumBytes) letters += "etaoinshr"[random() % 9];
  while (han.size() < kNumBytes) {
    const uint32_t c = 0x4E00 + random() % 0x5000;
    han += {static_cast<char>(0xE0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 63)),
            static_cast<char>(0x80 | (c & 63))};
  }
  texts.push_back(letters);
  texts.push_back(han);
  for (Tokenizer& tokenizer : tokenizers()) {
    for (const std::string& text : texts) expect_round_trip(tokenizer, text);
  }
}

TEST(Tokenizer, GivesTheSameIdsIn16Bits) {
  for (Tokenizer& tokenizer : tokenizers()) {
    for (const GoldenText& golden : golden_texts()) {
      std::vector<uint16_t> ids = {7};  // appended to
      tokenizer.encode(golden.text, ids);
      const Ids expected = test::encode(tokenizer, golden.text);
      ASSERT_EQ(Ids(ids.begin() + 1, ids.end()), expected) << golden.text;
    }
  }
}

TEST(Tokenizer, NeedsAVocabulary) { EXPECT_THROW(Tokenizer(nullptr), std::invalid_argument); }

// More ids than are decoded in one round, long entries among them.
TEST(Tokenizer, DecodesAnyNumberOfIdsOfBothTypes) {
  const auto vocabulary = test::small_vocabulary();
  const Tokenizer tokenizer(vocabulary);
  std::mt19937 random(51);
  for (const size_t num_ids : {0, 1, 1023, 1024, 1025, 5000}) {
    std::vector<int32_t> ids(num_ids);
    std::string expected = "before ", text = expected, text_of_16_bits = expected;
    for (int32_t& id : ids) {
      id = static_cast<int32_t>(random() % static_cast<uint32_t>(vocabulary->size()));
      expected += vocabulary->bytes(id);
    }
    tokenizer.decode(ids.data(), ids.size(), text);
    EXPECT_EQ(text, expected);
    const std::vector<uint16_t> ids_of_16_bits(ids.begin(), ids.end());
    tokenizer.decode(ids_of_16_bits.data(), ids_of_16_bits.size(), text_of_16_bits);
    EXPECT_EQ(text_of_16_bits, expected);
  }
  const uint16_t absent = 60000;
  std::string text;
  EXPECT_THROW(tokenizer.decode(&absent, 1, text), std::out_of_range);
}

}  // namespace
}  // namespace weft
