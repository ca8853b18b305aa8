// The loader does no work twice and none that a batch does not need: the linker leads its calls of
// what is expensive to functions that count them (--wrap).
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>

#include "indexed_dataset/order/blends/build_datasets.h"
#include "indexed_dataset/order/samples/cyclic_order.h"
#include "tests/indexed_dataset/order_of.h"
#include "tests/trainer/tiny_dataset.h"
#include "trainer/data/data_loader.h"

namespace weft {
namespace {

std::mutex mutex;
std::map<uint64_t, int> shuffles_of_seed;
int64_t num_copied = 0;                     // tokens
std::atomic<int64_t> num_asked_of_disk{0};  // tokens
std::atomic<bool> copies_are_slow = false;

}  // namespace

std::vector<int32_t> counted_randperm(int64_t n,
                                      uint64_t seed) asm("__wrap__ZN4weft14torch_randpermElm");
std::vector<int32_t> real_randperm(int64_t n,
                                   uint64_t seed) asm("__real__ZN4weft14torch_randpermElm");
std::vector<int32_t> counted_randperm(int64_t n, uint64_t seed) {
  {
    const std::lock_guard lock(mutex);
    ++shuffles_of_seed[seed];
  }
  return real_randperm(n, seed);
}

void counted_copy(const DatasetReader* reader, int64_t sequence_idx, int64_t begin, int64_t count,
                  int32_t* tokens) asm("__wrap__ZNK4weft13DatasetReader11copy_tokensElllPi");
void real_copy(const DatasetReader* reader, int64_t sequence_idx, int64_t begin, int64_t count,
               int32_t* tokens) asm("__real__ZNK4weft13DatasetReader11copy_tokensElllPi");
void counted_copy(const DatasetReader* reader, int64_t sequence_idx, int64_t begin, int64_t count,
                  int32_t* tokens) {
  {
    const std::lock_guard lock(mutex);
    num_copied += count;
  }
  if (copies_are_slow) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  real_copy(reader, sequence_idx, begin, count, tokens);
}

void counted_need(const DatasetReader* reader, int64_t sequence_idx, int64_t begin,
                  int64_t count) asm("__wrap__ZNK4weft13DatasetReader9will_needElll");
void real_need(const DatasetReader* reader, int64_t sequence_idx, int64_t begin,
               int64_t count) asm("__real__ZNK4weft13DatasetReader9will_needElll");
void counted_need(const DatasetReader* reader, int64_t sequence_idx, int64_t begin, int64_t count) {
  num_asked_of_disk += count;
  real_need(reader, sequence_idx, begin, count);
}

namespace {

constexpr int64_t kLength = 64;

class LoaderWork : public testing::Test {
 protected:
  void SetUp() override {
    shuffles_of_seed.clear();
    num_copied = 0;
    num_asked_of_disk = 0;
  }
  TrainingDatasets open(std::optional<CyclicOptions> cyclic = {}) {
    SampleOrder order = order_of({.data_path = {prefix_}}, "100,0,0", kLength);
    order.cyclic = cyclic;
    return build_training_datasets(order, {.train_samples = 300});
  }
  TemporaryFolder folder_;
  std::string prefix_ = write_tiny_dataset(folder_ / "tiny");
  std::unique_ptr<Backend> backend_ = create_cpu_backend(1);
};

// A batch takes a third of an epoch, so the thread that reads ahead stands many epochs before the
// others.
TEST_F(LoaderWork, ReadingAheadInASmallCyclicSetShufflesEachEpochOnce) {
  for (const int64_t num_threads : {1, 3}) {
    shuffles_of_seed.clear();
    const TrainingDatasets datasets = open(CyclicOptions{});
    const int64_t batch = datasets.train->num_samples() / 3;
    DataLoader loader(*backend_, *datasets.train,
                      {.vocab_size = kTinyVocabulary, .num_threads = num_threads},
                      {[=](int64_t) { return batch; }, batch});
    for (int step = 0; step < 60; ++step) {
      loader.next();
      loader.release();
    }
    const std::lock_guard lock(mutex);
    EXPECT_GE(shuffles_of_seed.size(), 20U);
    for (const auto& [epoch, count] : shuffles_of_seed) EXPECT_EQ(count, 1) << "epoch " << epoch;
  }
}

TEST_F(LoaderWork, ShortRowsReadNoOtherTokensOfTheirSamples) {
  constexpr int64_t kBatch = 6, kShort = 8, kSteps = 20, kSlots = 3, kReadAhead = 5;
  const TrainingDatasets datasets = open();
  {
    DataLoader loader(*backend_, *datasets.train,
                      {.curriculum = LengthCurriculum({.schedule_type = "fixed_discrete",
                                                       .difficulty = {kShort, kLength},
                                                       .max_step = {1000}},
                                                      kLength),
                       .vocab_size = kTinyVocabulary,
                       .num_slots = kSlots,
                       .read_ahead_batches = kReadAhead},
                      {[](int64_t) { return kBatch; }, kBatch});
    std::vector<int32_t> sample(kLength + 1);
    while (num_asked_of_disk == 0) std::this_thread::yield();
    for (int64_t i = 0; i < kSteps * kBatch; i += kBatch) {
      const GlobalBatch batch = loader.next();
      ASSERT_EQ(batch.seq_length, kShort);
      for (int64_t b = 0; b < kBatch; ++b) {
        std::vector<int32_t> row(batch.tokens + b * kShort, batch.tokens + (b + 1) * kShort);
        row.push_back(batch.targets[(b + 1) * kShort - 1]);
        datasets.train->sample(i + b, sample.data());
        ASSERT_EQ(row, std::vector(sample.begin(), sample.begin() + kShort + 1));
      }
      loader.release();
    }
  }
  // Each token of a row is copied once, and the last label; this test has read whole samples.
  const int64_t copied = num_copied - kSteps * kBatch * (kLength + 1);
  EXPECT_GE(copied, kSteps * kBatch * (kShort + 1));
  EXPECT_LE(copied, (kSteps + kSlots) * kBatch * (kShort + 1));
  EXPECT_LE(num_asked_of_disk, (kSteps + kSlots + kReadAhead + 1) * kBatch * (kShort + 1));
}

// One thread finds that there is no further batch while the other one fills the last one.
TEST_F(LoaderWork, TheLastBatchComesThoughAnotherThreadMeetsTheEndBeforeItIsFull) {
  const TrainingDatasets datasets = open();
  copies_are_slow = true;
  DataLoader loader(*backend_, *datasets.train,
                    {.first_sample = datasets.train->num_samples() - 2,
                     .vocab_size = kTinyVocabulary,
                     .num_threads = 2},
                    {[](int64_t) { return 1; }, 1});
  loader.next();
  EXPECT_NO_THROW(loader.next());
  EXPECT_THROW(loader.next(), std::runtime_error);
  copies_are_slow = false;
}

}  // namespace
}  // namespace weft
