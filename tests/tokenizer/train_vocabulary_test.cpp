#include "tokenizer/train_vocabulary.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>
#include <stdexcept>

#include "tests/tokenizer/golden.h"
#include "tokenizer/formats/load_gpt2.h"

namespace weft {
namespace {

std::string read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::string> training_texts() {
  std::ifstream file(test::golden_folder() / "texts.jsonl");
  std::vector<std::string> texts;
  for (std::string line; std::getline(file, line);) {
    texts.push_back(nlohmann::json::parse(line)["text"]);
  }
  return texts;
}

LearnedVocabulary learn(const std::vector<std::string>& texts, int64_t vocab_size,
                        int64_t min_frequency) {
  VocabularyTrainer trainer;
  for (const std::string& text : texts) trainer.add_text(text);
  return trainer.train(vocab_size, min_frequency);
}

TEST(VocabularyTrainer, LearnsTheVocabularyOfHuggingFacesTrainer) {
  const LearnedVocabulary learned = learn(training_texts(), 1500, 2);
  EXPECT_EQ(learned.num_entries, 1500);
  EXPECT_EQ(learned.vocab_json, read(test::golden_folder() / "small_vocab.json"));
  EXPECT_EQ(learned.merges_txt, read(test::golden_folder() / "small_merges.txt"));
}

TEST(VocabularyTrainer, DoesNotDependOnTheOrderOfTexts) {
  std::vector<std::string> texts = training_texts();
  const LearnedVocabulary before = learn(texts, 900, 2);
  std::shuffle(texts.begin(), texts.end(), std::mt19937(1));
  const LearnedVocabulary after = learn(texts, 900, 2);
  EXPECT_EQ(before.vocab_json, after.vocab_json);
  EXPECT_EQ(before.merges_txt, after.merges_txt);
}

TEST(VocabularyTrainer, TakesTheCommonestPairAndOfEqualOnesTheSmallestIds) {
  // "bc" occurs three times; then "ad" and "xbc" twice each, where "ad" has the smaller ids.
  const LearnedVocabulary learned = learn({"xbc", " ", "xbc", "!bc", "ad", "ad"}, 260, 2);
  EXPECT_EQ(learned.merges_txt, "#version: 0.2\nb c\na d\nx bc\n");
}

TEST(VocabularyTrainer, StopsWherePairsGetTooRare) {
  const LearnedVocabulary learned = learn({"abab abab", "ab"}, 1000, 3);
  EXPECT_EQ(learned.merges_txt, "#version: 0.2\na b\n");
  EXPECT_EQ(learned.num_entries, 258);
}

TEST(VocabularyTrainer, LearnsNothingFromNothing) {
  const LearnedVocabulary learned = learn({}, 300, 1);
  EXPECT_EQ(learned.num_entries, 257);
  EXPECT_EQ(learned.merges_txt, "#version: 0.2\n");
}

TEST(VocabularyTrainer, WritesWhatTheLoaderReads) {
  const LearnedVocabulary learned = learn(training_texts(), 3000, 1);
  const auto vocabulary =
      load_gpt2({"vocab.json", learned.vocab_json}, {"merges.txt", learned.merges_txt});
  EXPECT_EQ(vocabulary->size(), 3000);
  EXPECT_EQ(vocabulary->end_of_document(), 2999);
  EXPECT_EQ(vocabulary->num_unreachable(), 0);
}

TEST(VocabularyTrainer, RejectsImpossibleSettings) {
  VocabularyTrainer trainer;
  EXPECT_THROW(trainer.train(256, 1), std::invalid_argument);
  EXPECT_THROW(trainer.train((1 << 24) + 1, 1), std::invalid_argument);
  EXPECT_THROW(trainer.train(300, 0), std::invalid_argument);
  EXPECT_EQ(trainer.train(257, 1).num_entries, 257);
}

}  // namespace
}  // namespace weft
