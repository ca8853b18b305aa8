#include "trainer/data/document_bounds.h"

#include <gtest/gtest.h>

#include <random>

#include "indexed_dataset/order/blends/build_datasets.h"
#include "tests/indexed_dataset/order_of.h"
#include "tests/trainer/tiny_dataset.h"
#include "trainer/data/data_loader.h"

namespace weft {
namespace {

constexpr int32_t kEnd = 63;

using Bounds = std::vector<int32_t>;

Bounds bounds_of(const std::vector<int32_t>& inputs) {
  Bounds bounds(2 * inputs.size(), -1);
  find_bounds_by_tokens(inputs.data(), static_cast<int64_t>(inputs.size()), kEnd, bounds.data());
  return bounds;
}

TEST(DocumentBounds, RestartBehindEachEndOfDocument) {
  EXPECT_EQ(bounds_of({7, 8, kEnd, 9, kEnd, 5}), (Bounds{0, 3, 0, 3, 0, 3, 3, 5, 3, 5, 5, 6}));
  EXPECT_EQ(bounds_of({kEnd, kEnd, 4}), (Bounds{0, 1, 1, 2, 2, 3}));
  EXPECT_EQ(bounds_of({4, 5, kEnd}), (Bounds{0, 3, 0, 3, 0, 3}));
  EXPECT_EQ(bounds_of({4, 5}), (Bounds{0, 2, 0, 2}));
}

// Megatron's masks and position ids, written as its algorithm is
// [Megatron-LM megatron/core/datasets/gpt_dataset.py, _get_ltor_masks_and_position_ids].
struct MegatronsMasks {
  std::vector<int64_t> position_ids;
  std::vector<std::vector<bool>> sees;  // by query and key

  explicit MegatronsMasks(const std::vector<int32_t>& data) {
    const size_t T = data.size();
    sees.assign(T, std::vector<bool>(T, false));
    for (size_t i = 0; i < T; ++i) {
      position_ids.push_back(static_cast<int64_t>(i));
      for (size_t j = 0; j <= i; ++j) sees[i][j] = true;
    }
    size_t previous = 0;
    for (size_t i = 0; i < T; ++i) {
      if (data[i] != kEnd) continue;
      for (size_t query = i + 1; query < T; ++query) {
        for (size_t key = 0; key < i + 1; ++key) sees[query][key] = false;
        position_ids[query] -= static_cast<int64_t>(i + 1 - previous);
      }
      previous = i + 1;
    }
  }
};

TEST(DocumentBounds, AreMegatronsMasksAndPositions) {
  const unsigned seed = 20261123;
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 200; ++round) {
    std::vector<int32_t> inputs(1 + random() % 60);
    const unsigned one_of = 1 + static_cast<unsigned>(random()) % 12;
    for (int32_t& id : inputs)
      id = random() % one_of == 0 ? kEnd : static_cast<int32_t>(random() % 60);
    const MegatronsMasks wanted(inputs);
    const Bounds bounds = bounds_of(inputs);
    for (size_t t = 0; t < inputs.size(); ++t) {
      const auto begin = static_cast<size_t>(bounds[2 * t]),
                 end = static_cast<size_t>(bounds[2 * t + 1]);
      ASSERT_EQ(static_cast<int64_t>(t - begin), wanted.position_ids[t]);
      for (size_t key = 0; key < inputs.size(); ++key) {
        ASSERT_EQ(wanted.sees[t][key], key >= begin && key <= t);
        // A key is seen by the queries of its document, from itself on.
        ASSERT_EQ(wanted.sees[key][t], key >= t && key < end);
      }
    }
  }
}

TEST(DocumentBounds, OfADatasetsDocumentsFollowTheirParts) {
  const std::vector<SamplePart> parts = {{.num_tokens = 3}, {.num_tokens = 1}, {.num_tokens = 5}};
  Bounds bounds(16, -1);
  find_bounds_by_parts(parts, {.length = 8}, bounds.data());
  EXPECT_EQ(bounds, (Bounds{0, 3, 0, 3, 0, 3, 3, 4, 4, 8, 4, 8, 4, 8, 4, 8}));
  // A last part of one token is the last label, which is no input.
  bounds.assign(16, -1);
  find_bounds_by_parts({{.num_tokens = 8}, {.num_tokens = 1}}, {.length = 8}, bounds.data());
  EXPECT_EQ(bounds, (Bounds{0, 8, 0, 8, 0, 8, 0, 8, 0, 8, 0, 8, 0, 8, 0, 8}));
  // The row of a curriculum: tokens 2 to 4 of the sample.
  bounds.assign(6, -1);
  find_bounds_by_parts(parts, {.begin = 2, .length = 3}, bounds.data());
  EXPECT_EQ(bounds, (Bounds{0, 1, 1, 2, 2, 3}));
}

constexpr int64_t kBoundsLength = 64, kBatch = 6;

// The dataset's documents end with the token, so both ways tell the same, in each mode of the
// curriculum.
TEST(DocumentBounds, OfBatchesAreThoseOfTheirInputs) {
  const TemporaryFolder folder;
  const TrainingDatasets datasets = build_training_datasets(
      order_of({.data_path = {write_tiny_dataset(folder / "tiny")}}, "100,0,0", kBoundsLength),
      {.train_samples = 300});
  const std::unique_ptr<Backend> backend = create_cpu_backend(1);
  for (const std::string mode : {"", "truncate", "reshape"}) {
    for (const DocumentEnds ends : {DocumentEnds::kEndOfDocumentTokens, DocumentEnds::kDataset}) {
      for (const bool masks : {false, true}) {
        SCOPED_TRACE(mode);
        // A loader that looks at the documents of the dataset needs no token.
        const int32_t end = ends == DocumentEnds::kDataset ? -1 : kEnd;
        DataLoaderOptions options{.micro_batch_size = 2,
                                  .vocab_size = kTinyVocabulary,
                                  .end_of_document_id = end,
                                  .eod_mask_loss = masks,
                                  .document_ends = ends};
        if (!mode.empty()) {
          options.curriculum = LengthCurriculum({.schedule_type = "fixed_discrete",
                                                 .mode = mode,
                                                 .difficulty = {24, 40, 64},
                                                 .max_step = {4, 9}},
                                                kBoundsLength);
        }
        DataLoader loader(*backend, *datasets.train, options,
                          {[](int64_t) { return kBatch; }, kBatch});
        int64_t num_documents = 0;
        for (int step = 0; step < 20; ++step) {
          const GlobalBatch batch = loader.next();
          const int64_t T = batch.seq_length;
          ASSERT_EQ(batch.loss_mask != nullptr, masks || mode == "reshape");
          for (int64_t row = 0; row < kBatch; ++row) {
            const std::vector<int32_t> inputs(batch.tokens + row * T, batch.tokens + (row + 1) * T);
            const int32_t* bounds = batch.document_bounds + 2 * row * T;
            ASSERT_EQ(Bounds(bounds, bounds + 2 * T), bounds_of(inputs));
            num_documents += std::ranges::count(inputs, kEnd);
          }
          loader.release();
        }
        EXPECT_GT(num_documents, 20);
      }
    }
  }
}

}  // namespace
}  // namespace weft
