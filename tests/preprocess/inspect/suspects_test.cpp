// The streaming search for suspicious documents against the simple one, which keeps every piece of
// a range.
#include "preprocess/inspect/anomaly/suspects.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/indexed_dataset/test_files.h"

namespace weft {
namespace {

float median_of(std::vector<float> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

// Finds the medians of all values by sorting them.
struct ExactScale {
  explicit ExactScale(const std::vector<MeasuredPiece>& pieces) {
    constexpr Measures kLeast = {0.01F, 0.01F, 0.02F, 0.25F};
    for (size_t m = 0; m < kNumMeasures; ++m) {
      std::vector<float> values;
      for (const MeasuredPiece& piece : pieces) values.push_back(piece.measures[m]);
      medians[m] = median_of(values);
      for (float& value : values) value = std::abs(value - medians[m]);
      deviations[m] = std::max(1.4826F * median_of(values), kLeast[m]);
    }
  }
  Measures medians{}, deviations{};
};

class SuspectsTest : public testing::Test {
 protected:
  SuspectsTest() {
    for (const char* name : {"a", "b"}) {
      write_dataset<uint16_t>(files_ / name, TokenType::kUInt16, {{1, 2}});
      readers_.push_back(std::make_unique<DatasetReader>(files_ / name));
    }
  }

  float value(int64_t measure) {
    // Some values are frequent, most are not, a few are extreme on either side.
    const double share = std::uniform_real_distribution<double>()(random_);
    const auto kind = random_() % 40;
    double at = 0.4 + 0.1 * share;
    if (kind < 4) at = 0.45;
    if (kind == 4) at = share;
    if (kind == 5 && measure == kCompressedSize) at = 1 + 3 * share;  // beyond the histogram
    return static_cast<float>(measure == kRarity ? 20 * at : at);
  }

  std::vector<MeasuredPiece> random_pieces(int64_t count, int64_t num_documents) {
    std::vector<MeasuredPiece> pieces;
    for (int64_t i = 0; i < count; ++i) {
      MeasuredPiece& piece = pieces.emplace_back();
      piece.dataset_idx = static_cast<int64_t>(random_() % 2);
      piece.reader = readers_[static_cast<size_t>(piece.dataset_idx)].get();
      piece.sample_idx = i / 2;
      piece.part = {.sequence_idx = 0,
                    .document_idx = static_cast<int64_t>(random_()) % num_documents,
                    .begin_token = 100 * (count - i),
                    .num_tokens = 50};
      for (size_t m = 0; m < kNumMeasures; ++m) piece.measures[m] = value(static_cast<int64_t>(m));
    }
    return pieces;
  }

  // Returns the documents with the largest scores on this scale, each with its worst piece.
  static std::vector<Suspect> simple_ranking(const std::vector<MeasuredPiece>& pieces,
                                             const AnomalyScale& scale, int64_t num_kept) {
    std::map<std::pair<const DatasetReader*, int64_t>, Suspect> by_document;
    for (const MeasuredPiece& piece : pieces) {
      const Suspect suspect{.worst = piece, .score = scale.score(piece.measures)};
      const auto [known, is_new] =
          by_document.try_emplace({piece.reader, piece.part.document_idx}, suspect);
      if (!is_new && suspect.score.value > known->second.score.value) known->second = suspect;
    }
    std::vector<Suspect> suspects;
    for (const auto& [document, suspect] : by_document) suspects.push_back(suspect);
    std::sort(suspects.begin(), suspects.end(), [](const Suspect& a, const Suspect& b) {
      return std::pair(-a.score.value, -a.worst.part.begin_token) <
             std::pair(-b.score.value, -b.worst.part.begin_token);
    });
    suspects.resize(std::min(suspects.size(), static_cast<size_t>(num_kept)));
    return suspects;
  }

  void check(int64_t count, int64_t num_documents, int64_t num_kept) {
    const std::vector<MeasuredPiece> pieces = random_pieces(count, num_documents);
    MeasureHistograms histograms;
    SuspectSearch search(num_kept);
    for (const MeasuredPiece& piece : pieces) {
      histograms.add(piece.measures);
      search.add(piece);
    }
    const AnomalyScale scale(histograms);
    const ExactScale exact(pieces);
    for (size_t m = 0; m < kNumMeasures; ++m) {
      // Two bins lie between both at most, as the median and the distance round once each.
      const float bin = (m == kRarity ? 64.0F : m == kCompressedSize ? 2.0F : 1.0F) / (1 << 18);
      const auto measure = static_cast<Measure>(m);
      EXPECT_NEAR(scale.median(measure), exact.medians[m], 1.1F * bin) << kMeasureNames[m];
      EXPECT_NEAR(scale.deviation(measure), exact.deviations[m], 3.5F * bin) << kMeasureNames[m];
    }
    const std::vector<Suspect> found = search.ranked(scale),
                               expected = simple_ranking(pieces, scale, num_kept);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].score.value, expected[i].score.value) << "place " << i;
      EXPECT_EQ(found[i].worst.reader, expected[i].worst.reader) << "place " << i;
      EXPECT_EQ(found[i].worst.part.begin_token, expected[i].worst.part.begin_token)
          << "place " << i;
    }
  }

  TemporaryFolder files_;
  std::vector<std::unique_ptr<DatasetReader>> readers_;
  std::mt19937 random_;
};

TEST_F(SuspectsTest, StreamingFindsTheDocumentsAndScoresOfKeepingEveryPiece) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    random_.seed(seed);
    const auto count = static_cast<int64_t>(random_() % 3000) + (seed < 3 ? 0 : 1);
    check(count, static_cast<int64_t>(random_() % 400) + 1,
          static_cast<int64_t>(random_() % 30) + 1);
  }
}

TEST_F(SuspectsTest, ManyPiecesShareBins) {
  random_.seed(7);
  check(300'000, 5000, 20);
}

}  // namespace
}  // namespace weft
