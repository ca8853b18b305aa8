// These tests plant texts that must stand out in a range of others.
#include <gtest/gtest.h>

#include <random>

#include "preprocess/inspect/anomaly/suspects.h"
#include "tests/tokenizer/load_files.h"

namespace weft {
namespace {

AnomalyScale scale_of(const std::vector<Measures>& measures) {
  std::vector<MeasuredPiece> pieces;
  for (const Measures& one : measures) pieces.push_back({.part = {}, .measures = one});
  return AnomalyScale(pieces);
}

std::shared_ptr<const Vocabulary> small_vocabulary() {
  const std::filesystem::path folder =
      std::filesystem::path(std::getenv("WEFT_SOURCE_DIR")) / "tests/golden/tokenizer";
  return test::load_gpt2_files(folder / "small_vocab.json", folder / "small_merges.txt");
}

class TextAnomaly : public testing::Test {
 protected:
  // Words of letters, with spaces: the ids of single bytes are the same in every GPT-2 vocabulary
  // of bytes, in the order of its alphabet.
  std::vector<int32_t> words(int64_t count) {
    std::vector<int32_t> ids;
    while (std::ssize(ids) < count)
      ids.push_back(random_() % 6 == 0 ? 220 : 64 + static_cast<int32_t>(random_() % 12));
    return ids;
  }
  std::vector<int32_t> noise(int64_t count) {
    std::vector<int32_t> ids(static_cast<size_t>(count));
    for (int32_t& id : ids) id = static_cast<int32_t>(random_() % 256);
    return ids;
  }

  std::mt19937 random_{3};
};

TEST_F(TextAnomaly, RunsOfOneCharacterAndNoiseStandOutAmongWords) {
  const auto vocabulary = small_vocabulary();
  std::vector<std::vector<int32_t>> pieces;
  for (int i = 0; i < 200; ++i) pieces.push_back(words(64 + i));
  pieces.push_back(std::vector<int32_t>(2000, 59));  // backslashes
  pieces.push_back(noise(500));
  TokenCounts counts, others;
  for (size_t i = 0; i < pieces.size(); ++i) (i % 2 == 0 ? counts : others).add(pieces[i]);
  counts.merge(others);
  const std::vector<float> bits = counts.bits();
  const TokenTexts texts(*vocabulary);
  TextMeter meter(*vocabulary, texts, bits);
  std::vector<Measures> measures;
  for (const auto& ids : pieces) measures.push_back(meter.measure(ids));
  EXPECT_GT(measures[200][kRepeatedCharacters], 0.99F);
  EXPECT_GT(measures[200][kRepeatedTokens], 0.99F);
  EXPECT_LT(measures[200][kCompressedSize], 0.05F);
  EXPECT_GT(measures[201][kRarity], measures[0][kRarity] + 1);
  const AnomalyScale scale = scale_of(measures);
  double most_of_words = 0;
  for (size_t i = 0; i < 200; ++i)
    most_of_words = std::max(most_of_words, scale.score(measures[i]).value);
  EXPECT_GT(scale.score(measures[200]).value, 2 * most_of_words);
  EXPECT_GT(scale.score(measures[201]).value, most_of_words);
  EXPECT_GT(scale.score(measures[200]).value, scale.score(measures[201]).value);
}

TEST_F(TextAnomaly, EqualTextsHaveNoneAndIdsOutsideOfTheVocabularyAreNoTrouble) {
  const auto vocabulary = small_vocabulary();
  TokenCounts counts;
  const std::vector<int32_t> odd = {-1, 0, 1'000'000, 5};
  counts.add(odd);
  const std::vector<float> bits = counts.bits();
  const TokenTexts texts(*vocabulary);
  TextMeter meter(*vocabulary, texts, bits);
  const Measures measures = meter.measure(odd);
  EXPECT_EQ(measures, meter.measure(odd));
  const AnomalyScale scale = scale_of(std::vector<Measures>(5, measures));
  EXPECT_EQ(scale.score(measures).value, 0);
  EXPECT_EQ(meter.measure({})[kRarity], 0);
  EXPECT_EQ(scale_of({}).score(Measures{}).value, 0);
}

// A document is known by its dataset and number, counts with its worst piece, and of equal scores
// the first one stands first.
TEST(RankDocuments, NamesEachOnceByItsWorstPiece) {
  std::vector<MeasuredPiece> pieces;
  const auto add = [&](int32_t dataset_idx, int64_t document_idx, float repeated) {
    const SamplePart part{.document_idx = document_idx, .num_tokens = 40};
    pieces.push_back({.dataset_idx = dataset_idx,
                      .sample_idx = std::ssize(pieces),
                      .part = part,
                      .measures = {repeated, 0.5F, 0.5F, 9}});
  };
  for (int64_t i = 0; i < 50; ++i) add(0, 100 + i, 0.1F);
  add(1, 7, 0.3F);
  add(0, 7, 0.6F);
  add(1, 7, 0.8F);
  add(1, 8, 0.3F);
  add(0, 8, 0.3F);
  const std::vector<Suspect> suspects = rank_documents(pieces, 3);
  ASSERT_EQ(suspects.size(), 3U);
  const auto expect = [&](size_t at, int32_t dataset_idx, int64_t document_idx, int64_t sample_idx,
                          int64_t num_pieces) {
    const Suspect& suspect = suspects[at];
    EXPECT_EQ(suspect.worst.dataset_idx, dataset_idx) << at;
    EXPECT_EQ(suspect.worst.part.document_idx, document_idx) << at;
    EXPECT_EQ(suspect.worst.sample_idx, sample_idx) << at;
    EXPECT_EQ(suspect.num_pieces, num_pieces) << at;
    EXPECT_EQ(suspect.num_tokens, 40 * num_pieces) << at;
    EXPECT_EQ(suspect.score.measure, kRepeatedCharacters) << at;
  };
  expect(0, 1, 7, 52, 2);
  expect(1, 0, 7, 51, 1);
  expect(2, 1, 8, 53, 1);
  EXPECT_EQ(rank_documents(pieces, 1000).size(), 54U);
  EXPECT_TRUE(rank_documents({}, 3).empty());
}

}  // namespace
}  // namespace weft
