// These tests plant texts that must stand out in a range of others.
#include "preprocess/inspect/anomaly/text_anomaly.h"

#include <gtest/gtest.h>

#include <random>

#include "preprocess/inspect/anomaly/anomaly_scale.h"
#include "tests/tokenizer/load_files.h"

namespace weft {
namespace {

AnomalyScale scale_of(const std::vector<Measures>& pieces) {
  MeasureHistograms histograms;
  for (const Measures& piece : pieces) histograms.add(piece);
  return AnomalyScale(histograms);
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
  TextMeter meter(*vocabulary, bits);
  std::vector<Measures> measures;
  for (const auto& ids : pieces) measures.push_back(meter.measure(ids));
  EXPECT_GT(measures[200][kRepeatedCharacters], 0.99F);
  EXPECT_GT(measures[200][kRepeatedTokens], 0.99F);
  EXPECT_LT(measures[200][kCompressedSize], 0.05F);
  EXPECT_GT(measures[201][kRarity], measures[0][kRarity] + 1);
  const AnomalyScale scale = scale_of(measures);
  float most_of_words = 0;
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
  TextMeter meter(*vocabulary, bits);
  const Measures measures = meter.measure(odd);
  EXPECT_EQ(measures, meter.measure(odd));
  const AnomalyScale scale = scale_of(std::vector<Measures>(5, measures));
  EXPECT_EQ(scale.score(measures).value, 0);
  EXPECT_EQ(meter.measure({})[kRarity], 0);
  EXPECT_EQ(scale_of({}).score(Measures{}).value, 0);
}

}  // namespace
}  // namespace weft
