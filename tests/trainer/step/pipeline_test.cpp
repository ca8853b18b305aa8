// Ranks that hold a stage of the layers each train the model that one rank trains, alone and times
// tensor and data parallelism.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainer/step/parallel_training.h"

namespace weft {
namespace {

Topology pp(int pp_size, int tp_size = 1, int dp_size = 1, bool sequence_parallel = false) {
  return {.tp_size = tp_size,
          .pp_size = pp_size,
          .dp_size = dp_size,
          .sequence_parallel = sequence_parallel};
}

Topology stages(std::vector<int64_t> layers, int tp_size = 1, int dp_size = 1) {
  Topology topology = pp(static_cast<int>(layers.size()), tp_size, dp_size);
  topology.stage_layers = std::move(layers);
  return topology;
}

TEST(Pipeline, LossGradientsAndStepsAreThoseOfOneRank) {
  const Outcome one = train({.num_layers = 4});
  EXPECT_GT(one.steps.front().grad_norm, 0.5) << "gradients are clipped";
  Topology neighbours = pp(2, 2, 2);
  neighbours.order = RankOrder::kTpPpDp;
  for (const Topology& topology : {pp(2), pp(4), pp(2, 2), pp(2, 2, 1, true), pp(2, 1, 2),
                                   pp(2, 2, 2, true), neighbours, pp(4, 1, 2)}) {
    expect_same_model({.topology = topology, .num_layers = 4}, one);
  }
}

// Eight stages have fewer micro-batches than there are stages after the first.
TEST(Pipeline, MayBeLongerThanABatch) {
  const Outcome one = train({.micro_batch_size = 2, .num_layers = 8});
  expect_same_model({.topology = pp(8), .micro_batch_size = 2, .num_layers = 8}, one);
}

TEST(Pipeline, StagesMayHaveAnyNumberOfLayersTheFirstAndTheLastEvenNone) {
  const Outcome one = train({.num_layers = 3});
  for (const Topology& topology : {stages({1, 2}), stages({0, 3}), stages({3, 0}),
                                   stages({0, 1, 2, 0}, 2), stages({0, 3, 0}, 1, 2)}) {
    expect_same_model({.topology = topology, .num_layers = 3}, one);
  }
}

TEST(Pipeline, StagesThatAreNotTheModelsLayersAreRefused) {
  const ModelShape shape = Variant{.num_layers = 3}.options().shape;
  for (const Topology& topology :
       {stages({1, 1}), stages({3}), stages({1, 0, 2}), stages({4, -1}), pp(2)}) {
    const auto all_chunks = [&] {
      for (int rank = 0; rank < topology.world_size(); ++rank)
        chunks_of(shape, layout_of(topology, rank));
    };
    if (topology.stage_layers.size() == 1) {
      EXPECT_NO_THROW(all_chunks());
    } else {
      EXPECT_THROW(all_chunks(), std::invalid_argument);
    }
  }
}

// The embedding's buckets are its own; what surrounds it differs between the stages that share it.
TEST(Pipeline, ShardedOptimizersAndBucketsChangeRoundingOnly) {
  for (const int64_t vocab_size : {50, 37}) {
    const Outcome one = train({.vocab_size = vocab_size});
    for (const int64_t bucket : {int64_t{1024}, int64_t{4096}, int64_t{40'000'000}}) {
      for (const bool shards : {false, true}) {
        expect_same_model({.topology = pp(2, 1, 2),
                           .shards_optimizer = shards,
                           .bucket_elements = bucket,
                           .vocab_size = vocab_size},
                          one);
      }
    }
    expect_same_model(
        {.topology = pp(2, 2, 2, true), .shards_optimizer = true, .vocab_size = vocab_size}, one);
  }
}

// With 37 words in 64 rows the last of four tensor-parallel ranks has padding only, on both stages.
TEST(Pipeline, AnOddVocabularyMayLeaveARankWithoutWords) {
  for (const bool padded : {false, true}) {
    const Outcome one = train({.vocab_size = 37, .train_padded_vocabulary = padded});
    expect_same_model(
        {.topology = pp(2, 4, 1, true), .vocab_size = 37, .train_padded_vocabulary = padded}, one);
  }
}

TEST(Pipeline, WithoutDropoutAndMaskToo) {
  const Outcome one = train({.micro_batch_size = 2, .masks = false, .dropout = 0});
  for (const Topology& topology : {pp(2, 2, 1, true), stages({0, 2, 0})}) {
    expect_same_model({.topology = topology, .micro_batch_size = 2, .masks = false, .dropout = 0},
                      one);
  }
}

// The bounds of documents lie on every stage, in the slot of their micro-batch.
TEST(Pipeline, EveryStageKnowsTheDocumentsOfItsMicroBatches) {
  const Outcome one = train({.num_layers = 3, .documents = true});
  for (const Topology& topology : {pp(3), pp(3, 2, 1, true), stages({0, 2, 1, 0})})
    expect_same_model({.topology = topology, .num_layers = 3, .documents = true}, one);
}

TEST(Pipeline, Bf16TrainsTheModelOfOneRank) {
  const Outcome one = train({.micro_batch_size = 2, .dtype = DType::kBFloat16});
  for (const bool shards : {false, true}) {
    expect_near(train({.topology = pp(2, 2, 2, shards),
                       .micro_batch_size = 2,
                       .shards_optimizer = shards,
                       .dtype = DType::kBFloat16}),
                one, 3e-3);
  }
}

TEST(Pipeline, ShortSequencesInLongBuffersHaveTheSameBits) {
  Variant variant{.topology = pp(2, 2, 1, true), .micro_batch_size = 2, .seq_length = 6};
  const Outcome fitting = train(variant);
  variant.planned_length = 16;
  expect_equal(train(variant), fitting);
}

TEST(Pipeline, PartsThatStagesGatherAreTheWholeToTheBit) {
  Topology chunks = pp(2, 2, 2);
  chunks.num_chunks = 2;
  for (const Topology& topology : {pp(2, 2), pp(3, 4), chunks}) {
    for (const auto& [dtype, has_fp32_residual] :
         {std::pair{DType::kFloat32, false}, {DType::kBFloat16, false}, {DType::kBFloat16, true}}) {
      Variant variant{.topology = topology,
                      .dtype = dtype,
                      .has_fp32_residual = has_fp32_residual,
                      .num_layers = topology.num_stages(),
                      .has_embedding_norm = true};
      const Outcome parts = train(variant);
      variant.scatters_between_stages = false;
      const Outcome whole = train(variant);
      expect_equal(parts, whole);
      EXPECT_EQ(parts.first_loss, whole.first_loss);
      EXPECT_EQ(parts.gradients, whole.gradients);
      EXPECT_EQ(parts.evaluation, whole.evaluation);
    }
  }
}

TEST(Pipeline, ASecondRunHasTheSameBits) {
  const Variant variant{.topology = pp(2, 1, 3 + 1),
                        .shards_optimizer = true,
                        .bucket_elements = 4096,
                        .dtype = DType::kBFloat16};
  expect_equal(train(variant), train(variant));
}

// A stage keeps the activations of as many micro-batches as there are stages from it on, and no
// more than a batch has; tokens lie on the first, targets and logits on the last.
TEST(Pipeline, StagesPlanTheMemoryOfWhatIsInFlight) {
  const auto backend = create_cpu_backend(1);
  const auto plan_of = [&](int stage, int64_t most_micro_batches, MemoryClass memory_class) {
    ProcessGroups groups = create_lone_process_groups();
    groups.layout = layout_of(pp(4), stage);
    TrainerOptions options = Variant{.num_layers = 4}.options();
    options.most_micro_batches = most_micro_batches;
    const Trainer trainer(*backend, options, groups);
    return trainer.plan().class_bytes(memory_class);
  };
  const auto activations = [&](int stage, int64_t most) {
    return plan_of(stage, most, MemoryClass::kActivations);
  };
  const int64_t of_a_micro_batch = activations(0, 2) - activations(0, 1);
  EXPECT_EQ(activations(0, 100) - activations(0, 1), 3 * of_a_micro_batch);
  EXPECT_EQ(activations(1, 100), activations(0, 3));
  EXPECT_EQ(activations(2, 100), activations(0, 2));
  EXPECT_EQ(activations(2, 2), activations(0, 2));
  for (const int stage : {0, 1, 2}) EXPECT_EQ(plan_of(stage, 8, MemoryClass::kLogits), 0);
  EXPECT_GT(plan_of(3, 8, MemoryClass::kLogits), 0);
  EXPECT_LT(plan_of(1, 8, MemoryClass::kBatch), plan_of(0, 8, MemoryClass::kBatch));
}

}  // namespace
}  // namespace weft
