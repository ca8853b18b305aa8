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
#include "tests/tokenizer/split_kinds.h"
#include "tokenizer/formats/known_patterns.h"
#include "tokenizer/formats/learned_files.h"
#include "tokenizer/formats/load_gpt2.h"
#include "tokenizer/formats/load_tokenizer.h"

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
  EXPECT_EQ(learned.size(), 1500u);
  EXPECT_EQ(vocab_json_of(learned), read(test::golden_folder() / "small_vocab.json"));
  EXPECT_EQ(merges_txt_of(learned), read(test::golden_folder() / "small_merges.txt"));
}

TEST(VocabularyTrainer, DoesNotDependOnTheOrderOfTexts) {
  std::vector<std::string> texts = training_texts();
  const LearnedVocabulary before = learn(texts, 900, 2);
  std::shuffle(texts.begin(), texts.end(), std::mt19937(1));
  const LearnedVocabulary after = learn(texts, 900, 2);
  EXPECT_EQ(before.entries, after.entries);
  EXPECT_EQ(before.merges, after.merges);
}

TEST(VocabularyTrainer, TakesTheCommonestPairAndOfEqualOnesTheSmallestIds) {
  // "bc" occurs three times; then "ad" and "xbc" twice each, where "ad" has the smaller ids.
  const LearnedVocabulary learned = learn({"xbc", " ", "xbc", "!bc", "ad", "ad"}, 260, 2);
  EXPECT_EQ(merges_txt_of(learned), "#version: 0.2\nb c\na d\nx bc\n");
}

TEST(VocabularyTrainer, StopsWherePairsGetTooRare) {
  const LearnedVocabulary learned = learn({"abab abab", "ab"}, 1000, 3);
  EXPECT_EQ(merges_txt_of(learned), "#version: 0.2\na b\n");
  EXPECT_EQ(learned.size(), 258u);
}

TEST(VocabularyTrainer, LearnsNothingFromNothing) {
  const LearnedVocabulary learned = learn({}, 300, 1);
  EXPECT_EQ(learned.size(), 257u);
  EXPECT_EQ(merges_txt_of(learned), "#version: 0.2\n");
}

TEST(VocabularyTrainer, WritesWhatTheLoaderReads) {
  const LearnedVocabulary learned = learn(training_texts(), 3000, 1);
  const auto vocabulary =
      load_gpt2({"vocab.json", vocab_json_of(learned)}, {"merges.txt", merges_txt_of(learned)});
  EXPECT_EQ(vocabulary->size(), 3000);
  EXPECT_EQ(vocabulary->end_of_document(), 2999);
  EXPECT_EQ(vocabulary->num_unreachable(), 0);
}

// The loader recognizes the pattern by what the writer made of it.
TEST(VocabularyTrainer, WritesATokenizerJsonForEveryPatternThatCanBeInOne) {
  for (const SplitKind kind : test::kSplitKinds) {
    SCOPED_TRACE(std::string(name_of(kind)));
    VocabularyTrainer trainer(kind);
    for (const std::string& text : training_texts()) trainer.add_text(text);
    const LearnedVocabulary learned = trainer.train(400, 1, {"<pad>", "<|endoftext|>"});
    if (kind == SplitKind::kCl100k || kind == SplitKind::kMegatronV1) {
      EXPECT_THROW(tokenizer_json_of(learned, kind), std::invalid_argument);
      continue;
    }
    const std::string json = tokenizer_json_of(learned, kind);
    const auto vocabulary = load_tokenizer({"tokenizer.json", json});
    EXPECT_EQ(vocabulary->pattern_name(), name_of(kind));
    EXPECT_EQ(pattern_named(name_of(kind)), kind);
    EXPECT_EQ(vocabulary->size(), 400);
    EXPECT_EQ(vocabulary->end_of_document(), 399);
    EXPECT_EQ(vocabulary->bytes(398), "<pad>");
    EXPECT_EQ(vocabulary->num_unreachable(), 0);
    for (int32_t id = 0; id < 398; ++id)
      ASSERT_EQ(vocabulary->bytes(id), learned.entries[static_cast<size_t>(id)]);
  }
}

TEST(VocabularyTrainer, MergesNothingIntoASpecialToken) {
  VocabularyTrainer trainer(SplitKind::kBloom);
  for (int i = 0; i < 9; ++i) trainer.add_text("</s> </s>");
  const LearnedVocabulary learned = trainer.train(300, 1, {"</s>"});
  EXPECT_EQ(std::count(learned.entries.begin(), learned.entries.end(), "</s>"), 0);
  EXPECT_GT(learned.merges.size(), 2u);
}

TEST(VocabularyTrainer, RejectsSpecialTokensThatCannotBe) {
  VocabularyTrainer trainer;
  EXPECT_THROW(trainer.train(300, 1, {""}), std::invalid_argument);
  EXPECT_THROW(trainer.train(300, 1, {"a"}), std::invalid_argument);
  EXPECT_THROW(trainer.train(300, 1, {"<pad>", "<pad>"}), std::invalid_argument);
  EXPECT_THROW(trainer.train(257, 1, {"<pad>", "</s>"}), std::invalid_argument);
  EXPECT_EQ(trainer.train(256, 1, {}).size(), 256u);
}

TEST(VocabularyTrainer, RejectsImpossibleSettings) {
  VocabularyTrainer trainer;
  EXPECT_THROW(trainer.train(256, 1), std::invalid_argument);
  EXPECT_THROW(trainer.train((1 << 24) + 1, 1), std::invalid_argument);
  EXPECT_THROW(trainer.train(300, 0), std::invalid_argument);
  EXPECT_EQ(trainer.train(257, 1).size(), 257u);
}

}  // namespace
}  // namespace weft
