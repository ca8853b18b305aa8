#include "trainer/data/data_loader.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <set>
#include <span>
#include <thread>

#include "indexed_dataset/order/blends/build_datasets.h"
#include "tests/indexed_dataset/dataset_writer.h"
#include "tests/indexed_dataset/order_of.h"
#include "tests/trainer/counting_backend.h"
#include "tests/trainer/tiny_dataset.h"

namespace weft {
namespace {

constexpr int64_t kLength = 16;

class Loader : public testing::Test {
 protected:
  TrainingDatasets open(int64_t num_samples) {
    return build_training_datasets(order_of({.data_path = {prefix_}}, "100,0,0", kLength),
                                   {.train_samples = num_samples});
  }
  static DataLoader::BatchSizes constant(int64_t size) {
    return {[size](int64_t) { return size; }, size};
  }
  // Returns all input and target tokens of the next batch.
  static std::vector<int32_t> take(DataLoader& loader, int64_t micro_batch_size) {
    const GlobalBatch batch = loader.next();
    const int64_t n = batch.num_micro_batches * micro_batch_size * kLength;
    std::vector<int32_t> all(batch.tokens, batch.tokens + n);
    all.insert(all.end(), batch.targets, batch.targets + n);
    loader.release();
    return all;
  }
  // Returns the same from the dataset, sample by sample.
  static std::vector<int32_t> expected(const BlendedDataset& dataset,
                                       const std::vector<int64_t>& samples) {
    std::vector<int32_t> tokens, targets, sample(kLength + 1);
    for (const int64_t i : samples) {
      dataset.sample(i, sample.data());
      tokens.insert(tokens.end(), sample.begin(), sample.end() - 1);
      targets.insert(targets.end(), sample.begin() + 1, sample.end());
    }
    tokens.insert(tokens.end(), targets.begin(), targets.end());
    return tokens;
  }

  TemporaryFolder folder_;
  std::string prefix_ = write_tiny_dataset(folder_ / "tiny");
  std::unique_ptr<Backend> backend_ = create_cpu_backend(1);
};

TEST_F(Loader, GivesSamplesInOrderWhateverTheThreads) {
  const TrainingDatasets datasets = open(400);
  for (const int64_t num_threads : {1, 2, 5}) {
    DataLoader loader(
        *backend_, *datasets.train,
        {.micro_batch_size = 2, .vocab_size = kTinyVocabulary, .num_threads = num_threads},
        constant(6));
    for (int64_t step = 0; step < 50; ++step) {
      const int64_t first = 6 * step;
      ASSERT_EQ(take(loader, 2), expected(*datasets.train, {first, first + 1, first + 2, first + 3,
                                                            first + 4, first + 5}));
      ASSERT_EQ(loader.consumed_samples(), first + 6);
    }
  }
}

TEST_F(Loader, TakesThePlannedMemoryForItsSlots) {
  const TrainingDatasets datasets = open(100);
  auto counting = std::make_unique<CountingBackend>(create_cpu_backend(1));
  DataLoaderOptions options{.micro_batch_size = 2, .dp_size = 2, .vocab_size = kTinyVocabulary};
  const auto taken = [&] {
    counting->pinned_bytes = 0;
    const DataLoader loader(*counting, *datasets.train, options, constant(12));
    EXPECT_EQ(loader.slot_bytes(), counting->pinned_bytes);
    return counting->pinned_bytes;
  };
  EXPECT_EQ(taken(), 4 * 2 * 6 * kLength * 4);
  options.eod_mask_loss = true;
  EXPECT_EQ(taken(), 4 * 3 * 6 * kLength * 4);
  options.document_ends = DocumentEnds::kDataset;
  EXPECT_EQ(taken(), 4 * 5 * 6 * kLength * 4);
  options.has_samples = false;
  EXPECT_EQ(taken(), 0);
}

TEST_F(Loader, ResumesAtTheConsumedSamples) {
  const TrainingDatasets datasets = open(400);
  DataLoader loader(*backend_, *datasets.train,
                    {.micro_batch_size = 3, .first_sample = 35, .vocab_size = kTinyVocabulary},
                    constant(3));
  EXPECT_EQ(take(loader, 3), expected(*datasets.train, {35, 36, 37}));
  EXPECT_EQ(take(loader, 3), expected(*datasets.train, {38, 39, 40}));
}

TEST_F(Loader, RanksTakeTheirBlockOfEachMicroBatch) {
  const TrainingDatasets datasets = open(400);
  DataLoader loader(*backend_, *datasets.train,
                    {.micro_batch_size = 2,
                     .dp_rank = 1,
                     .dp_size = 3,
                     .first_sample = 12,
                     .vocab_size = kTinyVocabulary},
                    constant(12));
  // Micro-batch k covers 6 samples from 12 + 6k on; rank 1 takes the second pair.
  EXPECT_EQ(take(loader, 2), expected(*datasets.train, {14, 15, 20, 21}));
  EXPECT_EQ(take(loader, 2), expected(*datasets.train, {26, 27, 32, 33}));
}

TEST_F(Loader, FollowsTheBatchSizeRampUp) {
  const TrainingDatasets datasets = open(400);
  DataLoader loader(*backend_, *datasets.train,
                    {.micro_batch_size = 1, .vocab_size = kTinyVocabulary},
                    {[](int64_t consumed) { return consumed < 4 ? 2 : 3; }, 3});
  EXPECT_EQ(take(loader, 1), expected(*datasets.train, {0, 1}));
  EXPECT_EQ(take(loader, 1), expected(*datasets.train, {2, 3}));
  EXPECT_EQ(take(loader, 1), expected(*datasets.train, {4, 5, 6}));
}

// A pipeline stage between the first and the last needs the sizes of batches alone.
TEST_F(Loader, WithoutSamplesGivesTheSizesOfTheSameBatches) {
  const TrainingDatasets datasets = open(40);
  const DataLoader::BatchSizes sizes{[](int64_t consumed) { return consumed < 4 ? 2 : 3; }, 3};
  DataLoaderOptions options{.micro_batch_size = 1, .vocab_size = kTinyVocabulary};
  DataLoader loader(*backend_, *datasets.train, options, sizes);
  options.has_samples = false;
  DataLoader without(*backend_, *datasets.train, options, sizes);
  while (loader.consumed_samples() + sizes.at(loader.consumed_samples()) <= datasets.train->end()) {
    const GlobalBatch batch = loader.next(), found = without.next();
    EXPECT_EQ(found.num_micro_batches, batch.num_micro_batches);
    EXPECT_EQ(found.seq_length, batch.seq_length);
    EXPECT_EQ(found.num_new_tokens, batch.num_new_tokens);
    EXPECT_EQ(found.tokens, nullptr);
    EXPECT_EQ(without.consumed_samples(), loader.consumed_samples());
    loader.release();
    without.release();
  }
  EXPECT_THROW(loader.next(), std::runtime_error);
  EXPECT_THROW(without.next(), std::runtime_error) << "the samples are used up";
}

TEST_F(Loader, MasksTheLossWhereTheInputEndsADocument) {
  const TrainingDatasets datasets = open(200);
  DataLoader loader(*backend_, *datasets.train,
                    {.micro_batch_size = 4,
                     .vocab_size = kTinyVocabulary,
                     .end_of_document_id = 63,
                     .eod_mask_loss = true},
                    constant(8));
  int64_t num_masked = 0;
  for (int step = 0; step < 20; ++step) {
    const GlobalBatch batch = loader.next();
    for (int64_t k = 0; k < batch.num_micro_batches; ++k) {
      double sum = 0;
      for (int64_t i = k * 4 * kLength; i < (k + 1) * 4 * kLength; ++i) {
        ASSERT_EQ(batch.loss_mask[i], batch.tokens[i] == 63 ? 0.0F : 1.0F);
        sum += static_cast<double>(batch.loss_mask[i]);
        num_masked += batch.tokens[i] == 63;
      }
      ASSERT_EQ(batch.mask_sums[k], sum);
    }
    loader.release();
  }
  EXPECT_GT(num_masked, 0);
}

// Tells how many pages of a file are in the page cache.
class CachedPages {
 public:
  explicit CachedPages(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY)) {
    struct stat status {};
    EXPECT_EQ(::fstat(fd_, &status), 0);
    size_ = static_cast<size_t>(status.st_size);
    map_ = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd_, 0);
  }
  ~CachedPages() {
    ::munmap(map_, size_);
    ::close(fd_);
  }
  void forget() const {
    ::fdatasync(fd_);
    ::posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED);
  }
  int64_t total() const { return static_cast<int64_t>(pages().size()); }
  int64_t count() const { return std::ranges::count(pages(), 1); }
  bool has(int64_t byte) const {
    return pages()[static_cast<size_t>(byte / ::sysconf(_SC_PAGESIZE))] == 1;
  }

 private:
  std::vector<unsigned char> pages() const {
    const auto page_bytes = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    std::vector<unsigned char> pages((size_ + page_bytes - 1) / page_bytes);
    EXPECT_EQ(::mincore(map_, size_, pages.data()), 0);
    for (unsigned char& page : pages) page &= 1;
    return pages;
  }

  int fd_;
  size_t size_ = 0;
  void* map_ = nullptr;
};

TEST_F(Loader, AsksTheDiskForTheSamplesOfTheNextBatchesAndForLittleElse) {
  constexpr int64_t kDocuments = 20000, kTokens = 1000;
  const std::string prefix = folder_ / "large";
  {
    DatasetWriter writer(prefix, TokenType::kUInt16);
    const std::vector<uint16_t> tokens(kTokens, 7);
    const auto length = static_cast<int32_t>(kTokens);
    for (int64_t d = 0; d < kDocuments; ++d)
      writer.append_documents(std::as_bytes(std::span(tokens)), std::span(&length, 1));
    writer.finish();
  }
  prefix_ = prefix;
  const TrainingDatasets datasets = open(400);
  const CachedPages pages(prefix + ".bin");
  pages.forget();
  if (pages.count() > 0) GTEST_SKIP() << "this file system keeps its pages in memory";
  constexpr int64_t kReadAhead = 8;
  DataLoader loader(*backend_, *datasets.train,
                    {.micro_batch_size = 3,
                     .vocab_size = kTinyVocabulary,
                     .num_threads = 1,
                     .num_slots = 2,
                     .read_ahead_batches = kReadAhead},
                    constant(3));
  // Without a call of next(), two batches are prepared, and eight more are asked for.
  const GptDataset& dataset = datasets.train->dataset(0);
  const auto has_arrived = [&](int64_t i) {
    return std::ranges::all_of(dataset.sample_parts(i), [&](const SamplePart& part) {
      return pages.has(dataset.reader().offset_bytes(part.sequence_idx) + 2 * part.begin_token);
    });
  };
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  for (int64_t i = 0; i < 3 * (2 + kReadAhead); ++i) {
    while (!has_arrived(i)) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline)
          << "sample " << i << " of the next batches was not read from the disk";
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  EXPECT_LT(pages.count(), pages.total() / 10);
}

TEST_F(Loader, WithoutMaskThereAreNoMaskSums) {
  const TrainingDatasets datasets = open(100);
  DataLoader loader(*backend_, *datasets.train,
                    {.micro_batch_size = 4, .vocab_size = kTinyVocabulary}, constant(4));
  const GlobalBatch batch = loader.next();
  EXPECT_EQ(batch.loss_mask, nullptr);
  EXPECT_EQ(batch.mask_sums, nullptr);
}

TEST_F(Loader, ATokenOutsideTheVocabularyNamesSampleAndDocument) {
  const TrainingDatasets datasets = open(100);
  DataLoader loader(*backend_, *datasets.train,
                    {.micro_batch_size = 1, .vocab_size = 63, .num_threads = 1}, constant(1));
  try {
    for (int i = 0; i < 100; ++i) {
      loader.next();
      loader.release();
    }
    FAIL() << "no exception";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(),
                testing::AllOf(testing::HasSubstr("sample "), testing::HasSubstr("(document "),
                               testing::HasSubstr("token id 63, outside the vocabulary of 63")));
  }
}

TEST_F(Loader, AUsedUpDatasetSaysSoOnlyWhenAsked) {
  const TrainingDatasets datasets = open(10);
  const int64_t num_samples = datasets.train->num_samples();
  DataLoader loader(
      *backend_, *datasets.train,
      {.micro_batch_size = 1, .first_sample = num_samples - 3, .vocab_size = kTinyVocabulary},
      constant(2));
  EXPECT_EQ(take(loader, 1), expected(*datasets.train, {num_samples - 3, num_samples - 2}));
  EXPECT_THROW(loader.next(), std::runtime_error);
}

TEST_F(Loader, BatchesStayValidUntilTheirRelease) {
  const TrainingDatasets datasets = open(400);
  DataLoader loader(*backend_, *datasets.train,
                    {.micro_batch_size = 1, .vocab_size = kTinyVocabulary, .num_slots = 3},
                    constant(1));
  std::vector<GlobalBatch> batches;
  for (int i = 0; i < 3; ++i) batches.push_back(loader.next());
  EXPECT_THROW(loader.next(), std::logic_error);
  const std::vector<int32_t> first = expected(*datasets.train, {0});
  EXPECT_TRUE(std::equal(first.begin(), first.begin() + kLength, batches[0].tokens));
  loader.release();
  const std::vector<int32_t> fourth = expected(*datasets.train, {3});
  EXPECT_TRUE(std::equal(fourth.begin(), fourth.begin() + kLength, loader.next().tokens));
}

TEST_F(Loader, EndsWhileBatchesAreBeingMade) {
  const TrainingDatasets datasets = open(400);
  for (int i = 0; i < 20; ++i) {
    const DataLoader loader(
        *backend_, *datasets.train,
        {.micro_batch_size = 4, .vocab_size = kTinyVocabulary, .num_threads = 3}, constant(32));
  }
}

// However a batch is cut into ranks and micro-batches, and wherever the loader begins, each row has
// the tokens that the curriculum says.
TEST_F(Loader, FollowsTheCurriculum) {
  const TrainingDatasets datasets = open(400);
  for (const std::string mode : {"truncate", "reshape"}) {
    const LengthCurriculum curriculum({.schedule_type = "fixed_discrete",
                                       .mode = mode,
                                       .difficulty = {3, 10, 16},
                                       .max_step = {3, 7}},
                                      kLength);
    const auto batch_size = [](int64_t consumed) { return consumed < 24 ? 6 : 12; };
    for (const auto& [micro_batch_size, dp_size, first_iteration] :
         {std::tuple{1, 1, 0}, {2, 3, 0}, {3, 2, 4}, {2, 1, 8}}) {
      SCOPED_TRACE(testing::Message() << mode << micro_batch_size << dp_size << first_iteration);
      LengthCurriculum::Consumed start;
      for (int64_t i = 1; i <= first_iteration; ++i)
        start = curriculum.after(start, i, batch_size(start.rows));
      for (int64_t rank = 0; rank < dp_size; ++rank) {
        DataLoader loader(*backend_, *datasets.train,
                          {.micro_batch_size = micro_batch_size,
                           .dp_rank = rank,
                           .dp_size = dp_size,
                           .first_sample = start.rows,
                           .curriculum = curriculum,
                           .finished_iterations = first_iteration,
                           .consumed_tokens = start.tokens,
                           .vocab_size = kTinyVocabulary},
                          {batch_size, 12});
        LengthCurriculum::Consumed consumed = start;
        for (int64_t iteration = first_iteration + 1; iteration <= 12; ++iteration) {
          const GlobalBatch batch = loader.next();
          const int64_t T = curriculum.length(iteration), B = micro_batch_size;
          const int64_t rows = batch_size(consumed.rows);
          ASSERT_EQ(batch.seq_length, T);
          ASSERT_EQ(batch.num_micro_batches, rows / (B * dp_size));
          ASSERT_EQ(batch.loss_mask != nullptr, mode == "reshape");
          for (int64_t k = 0; k < batch.num_micro_batches; ++k) {
            double mask_sum = 0;
            for (int64_t s = 0; s < B; ++s) {
              const LengthCurriculum::Row row =
                  curriculum.row(consumed, iteration, (k * dp_size + rank) * B + s);
              std::vector<int32_t> sample(kLength + 1);
              datasets.train->sample(row.sample, sample.data());
              for (int64_t t = 0; t < T; ++t) {
                const int64_t at = (k * B + s) * T + t;
                ASSERT_EQ(batch.tokens[at], sample[static_cast<size_t>(row.begin + t)]);
                ASSERT_EQ(batch.targets[at], sample[static_cast<size_t>(row.begin + t + 1)]);
                if (batch.loss_mask == nullptr) continue;
                ASSERT_EQ(batch.loss_mask[at], t < row.num_repeated ? 0.0F : 1.0F);
                mask_sum += static_cast<double>(batch.loss_mask[at]);
              }
            }
            if (batch.loss_mask != nullptr) {
              ASSERT_EQ(batch.mask_sums[k], mask_sum);
            }
          }
          const LengthCurriculum::Consumed next = curriculum.after(consumed, iteration, rows);
          ASSERT_EQ(batch.num_new_tokens, next.tokens - consumed.tokens);
          consumed = next;
          ASSERT_EQ(loader.consumed_samples(), consumed.rows);
          loader.release();
        }
      }
    }
  }
}

// Seven samples, of which batches take four, shared by ranks in micro-batches of two or three.
TEST_F(Loader, PassesTakeEverySampleOnceAndFillUpTheirLastBatch) {
  const TrainingDatasets datasets = open(400);
  constexpr int64_t kSamples = 7;
  for (const auto& [micro_batch_size, dp_size, batch] :
       {std::array<int64_t, 3>{1, 1, 4}, {2, 2, 4}, {3, 2, 6}, {1, 4, 4}, {2, 1, 8}}) {
    std::vector<std::multiset<std::vector<int32_t>>> passes(3);
    double num_loss_tokens = 0;
    for (int64_t rank = 0; rank < dp_size; ++rank) {
      DataLoader loader(*backend_, *datasets.train,
                        {.micro_batch_size = micro_batch_size,
                         .dp_rank = rank,
                         .dp_size = dp_size,
                         .vocab_size = kTinyVocabulary,
                         .samples_per_pass = kSamples},
                        constant(batch));
      for (auto& pass : passes) {
        for (int64_t i = 0; i < loader.batches_per_pass(); ++i) {
          const GlobalBatch got = loader.next();
          const int64_t num_rows = got.num_micro_batches * micro_batch_size;
          for (int64_t k = 0; k < got.num_micro_batches; ++k)
            EXPECT_EQ(got.mask_sums[k], micro_batch_size * kLength);
          for (int64_t row = 0; row < num_rows; ++row) {
            const float* mask = got.loss_mask + row * kLength;
            const int32_t* tokens = got.tokens + row * kLength;
            if (mask[0] == 1) pass.emplace(tokens, tokens + kLength);
            EXPECT_EQ(std::count(mask, mask + kLength, mask[0]), kLength);
          }
          num_loss_tokens += got.num_loss_tokens;
          loader.release();
        }
      }
    }
    EXPECT_EQ(num_loss_tokens, 3 * kSamples * kLength);
    std::multiset<std::vector<int32_t>> samples;
    for (int64_t i = 0; i < kSamples; ++i) {
      const std::vector<int32_t> both = expected(*datasets.train, {i});
      samples.emplace(both.begin(), both.begin() + kLength);
    }
    for (const auto& pass : passes) EXPECT_EQ(pass, samples);
  }
}

}  // namespace
}  // namespace weft
