// The file that keeps the loss of every sample of a run.
#include "indexed_dataset/run_record/sample_losses.h"

#include <gmock/gmock.h>

#include <cmath>

#include "indexed_dataset/base/process/exit_code.h"
#include "tests/temporary_folder.h"

namespace weft {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr size_t kHeaderBytes = 16, kRecordBytes = 12;

class SampleLosses : public testing::Test {
 protected:
  // Losses of `count` samples from `first` on; each is a tenth of the sample's number.
  static std::vector<float> losses(int64_t first, int64_t count) {
    std::vector<float> values;
    for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(first + i) / 10.0F);
    return values;
  }
  // Iterations of 4 samples each, the first of which begins with `consumed`.
  void write(int64_t consumed, int64_t first_iteration, int64_t num_iterations) {
    SampleLossWriter writer(path_, consumed);
    for (int64_t i = 0; i < num_iterations; ++i)
      writer.add(first_iteration + i, consumed + 4 * i, losses(consumed + 4 * i, 4));
  }
  // Returns "iteration:loss" of each sample, or "-".
  std::vector<std::string> read(int64_t first, int64_t last) const {
    std::vector<std::string> texts;
    for (const auto& sample : SampleLossReader(path_).read(first, last)) {
      texts.emplace_back("-");
      if (!sample) continue;
      char text[32];
      std::snprintf(text, sizeof text, "%d:%.1f", static_cast<int>(sample->iteration),
                    static_cast<double>(sample->loss));
      texts.back() = text;
    }
    return texts;
  }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / kSampleLossesName;
};

TEST_F(SampleLosses, TakeTwelveBytesASampleAndAreReadBySampleNumber) {
  write(0, 1, 3);
  EXPECT_EQ(std::filesystem::file_size(path_), kHeaderBytes + 12 * kRecordBytes);
  EXPECT_THAT(read(3, 6), ElementsAre("1:0.3", "2:0.4", "2:0.5"));
  EXPECT_THAT(read(11, 13), ElementsAre("3:1.1", "-"));
}

TEST_F(SampleLosses, ThatAreNotFiniteAreKeptAsTheyAre) {
  SampleLossWriter(path_, 0).add(1, 0, std::vector<float>{NAN, INFINITY});
  const auto samples = SampleLossReader(path_).read(0, 2);
  EXPECT_TRUE(std::isnan(samples[0]->loss));
  EXPECT_EQ(samples[1]->loss, INFINITY);
}

TEST_F(SampleLosses, ARunThatGoesOnLeavesTheFileOfOneThatWasNeverStopped) {
  write(0, 1, 6);
  const std::string undisturbed = read_file(path_);
  write(0, 1, 5);
  write(12, 4, 3);  // the last checkpoint was that of iteration 3
  EXPECT_EQ(read_file(path_), undisturbed);
  std::filesystem::resize_file(path_, kHeaderBytes + 17 * kRecordBytes + 5);  // a torn record
  write(16, 5, 2);
  EXPECT_EQ(read_file(path_), undisturbed);
}

TEST_F(SampleLosses, ThatWereNotKeptAreAGap) {
  write(0, 1, 1);
  write(8, 3, 1);
  EXPECT_THAT(read(2, 10), ElementsAre("1:0.2", "1:0.3", "-", "-", "-", "-", "3:0.8", "3:0.9"));
  EXPECT_THAT(read(11, 14), ElementsAre("3:1.1", "-", "-"));
}

TEST_F(SampleLosses, ARunThatBeginsElsewhereNumbersItsSamplesFromThere) {
  write(1000, 51, 1);
  EXPECT_THAT(read(999, 1002), ElementsAre("-", "51:100.0", "51:100.1"));
  write(400, 21, 1);  // rolled back to before the file begins
  EXPECT_THAT(read(399, 405), ElementsAre("-", "21:40.0", "21:40.1", "21:40.2", "21:40.3", "-"));
  EXPECT_THROW(SampleLossWriter(path_, 404).add(22, 399, losses(399, 4)), std::invalid_argument);
}

TEST_F(SampleLosses, EveryFlippedBitOfARecordIsFound) {
  write(0, 1, 2);
  const std::string sound = read_file(path_);
  for (size_t bit = 0; bit < 8 * kRecordBytes; ++bit) {
    std::string damaged = sound;
    const size_t at = kHeaderBytes + 3 * kRecordBytes + bit / 8;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit % 8));
    write_file_atomically(path_, damaged);
    EXPECT_THAT(read(4, 8), ElementsAre("2:0.4", "2:0.5", "2:0.6", "2:0.7"));
    try {
      read(0, 8);
      ADD_FAILURE() << "bit " << bit;
    } catch (const ChecksumMismatch& error) {
      EXPECT_THAT(error.what(), HasSubstr("the record of sample 3 is damaged"));
    }
  }
}

TEST_F(SampleLosses, OfAnotherBeginAreDamaged) {
  write(0, 1, 2);
  std::string moved = read_file(path_);
  moved[8] = 4;
  write_file_atomically(path_, moved);
  EXPECT_THROW(read(4, 5), ChecksumMismatch);
}

TEST_F(SampleLosses, AFileOfAnotherKindIsRefusedByReadersAndReplacedByRuns) {
  for (const std::string& content : {std::string(), std::string("WEFTLOS"), std::string(40, 'x')}) {
    write_file_atomically(path_, content);
    EXPECT_THROW(SampleLossReader{path_}, std::runtime_error);
    write(8, 3, 1);
    EXPECT_THAT(read(8, 9), ElementsAre("3:0.8"));
  }
  EXPECT_THROW(SampleLossReader{folder_ / "absent"}, std::system_error);
}

}  // namespace
}  // namespace weft
