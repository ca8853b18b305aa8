#include "tokenizer/part_encoder.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/tokenizer/golden.h"
#include "tests/tokenizer/load_files.h"
#include "tokenizer/text_encoder.h"
#include "tokenizer/train_vocabulary.h"

namespace weft {
namespace {

std::shared_ptr<const Vocabulary> load(const std::string& vocab_json,
                                       const std::string& merges_txt) {
  return load_gpt2({"vocab.json", vocab_json}, {"merges.txt", merges_txt});
}

// Rules of runs and of what can follow each other in many ways; few bytes stay unsettled.
std::shared_ptr<const Vocabulary> tiny_vocabulary() {
  VocabularyTrainer trainer;
  trainer.add_text(
      "aaaaaaaa abababab aab abb bbbbb 1111 1212 .... ..--.. '''' \n\n\n\n      \t\t\t "
      "\u4e2d\u6587\u4e2d\u4e2d don't we'll they're");
  const LearnedVocabulary learned = trainer.train(300, 1);
  return load(learned.vocab_json, learned.merges_txt);
}

// The parts end where `next_bytes` says, or up to three bytes before, between two characters.
template <typename NextBytes>
std::vector<int32_t> encode_in_parts(Tokenizer& tokenizer, const std::string& text,
                                     const NextBytes& next_bytes, size_t max_rest = SIZE_MAX) {
  std::vector<int32_t> ids;
  std::string waiting;
  BegunText begun;
  for (size_t position = 0; position < text.size();) {
    size_t end = std::min(text.size(), position + next_bytes());
    while (end < text.size() && (text[end] & 0xC0) == 0x80) --end;
    waiting.append(text, position, end - position);
    position = std::max(position, end);
    const bool is_last = position == text.size();
    waiting.erase(0, tokenizer.encode_part(waiting, is_last, begun, ids));
    EXPECT_LE(waiting.size(), is_last ? 0 : max_rest);
  }
  return ids;
}

std::string random_text(std::mt19937& random, const std::vector<std::string>& words,
                        size_t num_bytes) {
  std::string text;
  while (text.size() < num_bytes) {
    const std::string& word = words[random() % words.size()];
    const size_t count = random() % 8 == 0 ? random() % 300 : random() % 4;
    for (size_t i = 0; i < count; ++i) text += word;
  }
  return text;
}

const std::vector<std::string> kWords = {
    "a",      "b",      "ab",     "1",      " ",  "\n",     "\t",
    ".",      "'",      "'s",     "'re",    "'l", "\u00e9", "-",
    "\u4e2d", "\u6587", "\u3000", "\u00a0", "<",  "<|en",   "<|endoftext|>"};

TEST(PartEncoder, PartsGiveTheIdsOfTheWhole) {
  std::mt19937 random(17);
  for (const auto& vocabulary : {tiny_vocabulary(), test::small_vocabulary()}) {
    for (const SpecialTokens special : {SpecialTokens::kLiteral, SpecialTokens::kToken}) {
      Tokenizer tokenizer(vocabulary, special);
      for (int i = 0; i < 400; ++i) {
        const std::string text = random_text(random, kWords, random() % 3000);
        const size_t max_bytes = size_t{4} << random() % 10;
        const auto next_bytes = [&] { return random() % max_bytes + 4; };
        ASSERT_EQ(encode_in_parts(tokenizer, text, next_bytes), test::encode(tokenizer, text))
            << "text " << i << ", parts of up to " << max_bytes << " bytes";
      }
    }
  }
}

// In a text that is one word, or nearly, only the unsettled bytes wait for those that follow.
TEST(PartEncoder, WordsWithoutEndDoNotWait) {
  const auto vocabulary = tiny_vocabulary();
  const auto encoder = make_text_encoder(*vocabulary);
  const size_t num_unsettled = PartEncoder(*vocabulary, *encoder).num_unsettled_bytes();
  EXPECT_GT(num_unsettled, 40U);
  EXPECT_LT(num_unsettled, 400U);
  std::mt19937 random(18);
  Tokenizer tokenizer(vocabulary);
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"a"},
                                             {"a", "b"},
                                             {"1", "2"},
                                             {".", "-", "'"},
                                             {" "},
                                             {" ", "\n", "\t", "\u3000"},
                                             {"\u4e2d", "\u6587"},
                                             {"\u00e9", "a"}}) {
    for (const char* last : {"", "a", " a", ".", "'s", " ", "\n", "\u4e2d", "1"}) {
      for (const size_t part_bytes : {size_t{7}, num_unsettled, 3 * num_unsettled}) {
        const std::string text = random_text(random, words, 20 * num_unsettled) + last;
        ASSERT_EQ(encode_in_parts(
                      tokenizer, text, [&] { return part_bytes; }, 2 * num_unsettled + 66),
                  test::encode(tokenizer, text))
            << words[0] << "..." << last;
      }
    }
  }
}

TEST(PartEncoder, PartsGiveTheIdsOfTheWholeWithGpt2) {
  const auto vocabulary = test::gpt2_vocabulary();
  if (vocabulary == nullptr) GTEST_SKIP() << "WEFT_GPT2_DIR is not set";
  std::mt19937 random(19);
  Tokenizer tokenizer(vocabulary);
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"a"},
                                             {"a", "the", "ing", "er", "st"},
                                             {"-"},
                                             {"-", "=", ".", "*"},
                                             {" "},
                                             {" ", "\n"},
                                             {"0", "1", "23"},
                                             {"\u4e2d", "\u6587", "\u7684"}}) {
    const std::string text = random_text(random, words, 1 << 20) + " end";
    ASSERT_EQ(encode_in_parts(
                  tokenizer, text, [] { return size_t{100000}; }, 2 * 167515 + 66),
              test::encode(tokenizer, text))
        << words[0];
  }
}

// "ab" has rank 1, "ab c" rank 0: a rule before that which makes its parts. No limit is known.
TEST(PartEncoder, AVocabularyWithoutOrderWaitsForTheEnd) {
  const auto small = load(
      [] {
        VocabularyTrainer trainer;
        trainer.add_text("x");
        std::string json = trainer.train(257, 1).vocab_json;
        json.replace(json.rfind('}'), 1, ", \"ab\": 257, \"abc\": 258}");
        return json;
      }(),
      "ab c\na b\n");
  Tokenizer tokenizer(small);
  const auto encoder = make_text_encoder(*small);
  EXPECT_GT(PartEncoder(*small, *encoder).num_unsettled_bytes(), size_t{1} << 60);
  std::string text;
  for (int i = 0; i < 1000; ++i) text += i % 3 == 0 ? "ab" : "abc";
  text += " abc";
  EXPECT_EQ(encode_in_parts(tokenizer, text, [] { return size_t{100}; }),
            test::encode(tokenizer, text));
}

TEST(PartEncoder, ASpecialTokenInTheMiddleOfPartsIsAnError) {
  Tokenizer tokenizer(test::small_vocabulary(), SpecialTokens::kError);
  for (size_t part_bytes = 1; part_bytes < 30; ++part_bytes) {
    EXPECT_THROW(
        encode_in_parts(tokenizer, "some text <|endoftext|> and more", [&] { return part_bytes; }),
        std::runtime_error);
    EXPECT_NO_THROW(encode_in_parts(tokenizer, "some text <|endoftext| > and more <|end",
                                    [&] { return part_bytes; }));
  }
}

}  // namespace
}  // namespace weft
