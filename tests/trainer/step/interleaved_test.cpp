// Ranks that hold several chunks of the layers each train the model of ranks that hold one, to the
// bit.
#include <gtest/gtest.h>

#include <numeric>

#include "tests/trainer/step/parallel_training.h"

namespace weft {
namespace {

Topology interleaved(int pp_size, int64_t num_chunks, int tp_size = 1, int dp_size = 1,
                     bool sequence_parallel = false) {
  return {.tp_size = tp_size,
          .pp_size = pp_size,
          .dp_size = dp_size,
          .sequence_parallel = sequence_parallel,
          .num_chunks = num_chunks};
}

Topology chunks(std::vector<int64_t> layers, int pp_size, int tp_size = 1, int dp_size = 1) {
  const auto num_stages = static_cast<int64_t>(layers.size());
  Topology topology = interleaved(pp_size, num_stages / pp_size, tp_size, dp_size);
  topology.stage_layers = std::move(layers);
  return topology;
}

// Norms are sums over what a rank holds, so their last bits may differ. Without clipping nothing
// else depends on them.
void expect_bits_of(const Topology& other, Variant variant) {
  SCOPED_TRACE(variant.name());
  variant.clip_grad = 0;
  Variant plain = variant;
  plain.topology = other;
  plain.recompute = {};
  const Outcome many = train(variant), one = train(plain);
  EXPECT_EQ(many.first_loss, one.first_loss);
  EXPECT_EQ(many.gradients, one.gradients);
  EXPECT_EQ(many.weights, one.weights);
  EXPECT_EQ(many.evaluation, one.evaluation);
  ASSERT_EQ(many.steps.size(), one.steps.size());
  for (size_t i = 0; i < many.steps.size(); ++i) {
    EXPECT_EQ(many.steps[i].loss, one.steps[i].loss) << "step " << i;
    EXPECT_EQ(many.steps[i].sample_losses, one.steps[i].sample_losses) << "step " << i;
    EXPECT_NEAR(many.steps[i].grad_norm, one.steps[i].grad_norm, 1e-6 * one.steps[i].grad_norm);
  }
}

// The reference has as many ranks, with a stage each.
void expect_bits_of_one_chunk(const Variant& variant) {
  Topology plain = variant.topology;
  plain.num_chunks = 1;
  expect_bits_of(plain, variant);
}

// The reference has a rank for each stage. In bf16 a gradient is rounded where it leaves a stage,
// so those must be equal.
void expect_bits_of_a_rank_for_each_stage(const Variant& variant) {
  Topology plain = variant.topology;
  plain.pp_size = static_cast<int>(plain.num_stages());
  plain.num_chunks = 1;
  expect_bits_of(plain, variant);
}

TEST(Interleaved, HasTheBitsOfOneChunkForEachRank) {
  for (const Topology& topology : {interleaved(2, 2), interleaved(4, 2), interleaved(2, 4),
                                   interleaved(2, 2, 2, 2, true), interleaved(2, 2, 2)}) {
    expect_bits_of_one_chunk({.topology = topology, .num_layers = 8});
  }
}

TEST(Interleaved, HasTheBitsOfARankForEachStage) {
  for (const Topology& topology :
       {chunks({0, 1, 2, 0}, 2), chunks({2, 1, 1, 3}, 2), chunks({1, 1, 1, 1, 1, 0}, 3)}) {
    expect_bits_of_a_rank_for_each_stage(
        {.topology = topology,
         .num_layers = std::accumulate(topology.stage_layers.begin(), topology.stage_layers.end(),
                                       int64_t{0})});
  }
  expect_bits_of_a_rank_for_each_stage({.topology = interleaved(2, 2, 1, 2),
                                        .shards_optimizer = true,
                                        .bucket_elements = 4096,
                                        .dtype = DType::kBFloat16,
                                        .num_layers = 4});
}

// A tied embedding is a sum of two stages' gradients, which rounds otherwise than one rank's.
TEST(Interleaved, HasTheBitsOfOneRank) {
  expect_bits_of({}, {.topology = interleaved(3, 2), .num_layers = 6, .unties_head = true});
}

// Eight micro-batches: groups of 3, 3 and 2; of 5 and 3; and of 3, 3 and 2 for three stages, where
// the last group makes stages wait.
TEST(Interleaved, GroupsOfMicroBatchesMayBeOfAnySize) {
  for (const int64_t group : {3, 5, 8}) {
    expect_bits_of_one_chunk(
        {.topology = interleaved(2, 2), .num_layers = 4, .micro_batch_group_size = group});
  }
  expect_bits_of_one_chunk(
      {.topology = interleaved(3, 2), .num_layers = 6, .micro_batch_group_size = 3});
}

TEST(Interleaved, RecomputesTheLayersOfEachChunk) {
  using Method = RecomputeOptions::Method;
  for (const RecomputeOptions& recompute :
       {RecomputeOptions{.method = Method::kUniform, .num_layers = 2},
        RecomputeOptions{.method = Method::kBlock, .num_layers = 1},
        RecomputeOptions{.norms = true, .activation = true},
        RecomputeOptions{.norms = true, .mlp = true}}) {
    expect_bits_of_one_chunk(
        {.topology = interleaved(2, 2), .num_layers = 8, .recompute = recompute});
  }
}

TEST(Interleaved, KnowsTheDocumentsOfItsMicroBatches) {
  expect_bits_of_one_chunk({.topology = interleaved(2, 2), .num_layers = 4, .documents = true});
}

// The embedding's activations and tokens have slots of their own, fewer than those of chunks.
TEST(Interleaved, KeepsTheNormalisedEmbeddingsOfItsMicroBatches) {
  for (const Topology& topology : {interleaved(2, 2), interleaved(2, 4), interleaved(3, 3)}) {
    for (const int64_t group : {0, 5}) {
      expect_bits_of_one_chunk(
          {.topology = topology,
           .num_layers = static_cast<int64_t>(topology.pp_size) * topology.num_chunks,
           .has_embedding_norm = true,
           .micro_batch_group_size = group});
    }
  }
}

TEST(Interleaved, ClipsAsOneRank) {
  const Outcome one = train({.num_layers = 4});
  EXPECT_GT(one.steps.front().grad_norm, 0.5) << "gradients are clipped";
  for (const bool shards : {false, true}) {
    expect_same_model(
        {.topology = interleaved(2, 2, 2, 2, true), .shards_optimizer = shards, .num_layers = 4},
        one);
  }
}

TEST(Interleaved, ShortSequencesInLongBuffersHaveTheSameBits) {
  Variant variant{.topology = interleaved(2, 2, 2, 1, true),
                  .micro_batch_size = 2,
                  .num_layers = 4,
                  .seq_length = 6};
  const Outcome fitting = train(variant);
  variant.planned_length = 16;
  expect_equal(train(variant), fitting);
}

TEST(Interleaved, StagesThatCannotBeAreRefused) {
  const ModelShape shape = Variant{.num_layers = 4}.options().shape;
  const auto all_chunks = [&](const Topology& topology) {
    for (int rank = 0; rank < topology.world_size(); ++rank)
      chunks_of(shape, layout_of(topology, rank));
  };
  EXPECT_NO_THROW(all_chunks(interleaved(2, 2)));
  for (const Topology& topology : {interleaved(1, 2), interleaved(2, 3), interleaved(2, 0),
                                   chunks({1, 0, 2, 1}, 2), chunks({1, 1, 1, 2}, 2)}) {
    EXPECT_THROW(all_chunks(topology), std::invalid_argument);
  }
}

// A slot holds a chunk's layers. The first of p stages keeps p v + p - 1 of them, the last (v - 1)
// p + 1.
TEST(Interleaved, StagesPlanTheMemoryOfWhatIsInFlight) {
  const auto backend = create_cpu_backend(1);
  const auto activations = [&](int stage, int64_t num_chunks, int64_t most_micro_batches) {
    ProcessGroups groups = create_lone_process_groups();
    groups.layout = layout_of(interleaved(4, num_chunks), stage);
    TrainerOptions options = Variant{.num_layers = 16}.options();
    options.most_micro_batches = most_micro_batches;
    const Trainer trainer(*backend, options, groups);
    return trainer.plan().class_bytes(MemoryClass::kActivations);
  };
  const int64_t of_a_stage = activations(0, 1, 2) - activations(0, 1, 1);  // 4 layers
  for (const int64_t v : {2, 4}) {
    const int64_t of_a_chunk = of_a_stage / v;
    const int64_t rest = activations(0, v, 1) - v * of_a_chunk;
    EXPECT_EQ(activations(0, v, 100), rest + (4 * v + 3) * of_a_chunk);
    EXPECT_EQ(activations(1, v, 100), rest + (4 * v + 1) * of_a_chunk);
    EXPECT_EQ(activations(0, v, 4), rest + 4 * v * of_a_chunk);
  }
}

// At 12 ranks with 6 virtual stages each, 83 chunks are in flight on the first rank, and 24 of them
// are first ones.
TEST(Interleaved, EmbeddingsTakeTheMemoryOfTwoGroups) {
  const auto backend = create_cpu_backend(1);
  const auto bytes_of = [&](int64_t num_chunks, int stage, const std::string& buffer) {
    ProcessGroups groups = create_lone_process_groups();
    groups.layout = layout_of(interleaved(12, num_chunks), stage);
    const Variant variant{.num_layers = 72, .has_embedding_norm = true};
    const Trainer trainer(*backend, variant.options(), groups);
    int64_t num_bytes = 0;
    for (const MemoryPlan::Buffer& planned : trainer.plan().buffers()) {
      if (planned.name.ends_with(buffer)) num_bytes += planned.num_bytes;
    }
    return num_bytes;
  };
  const ModelShape shape = Variant{}.options().shape;
  const int64_t tokens = int64_t{4} * shape.micro_batch_size * shape.seq_length;
  const int64_t words = tokens * shape.hidden_size;
  EXPECT_EQ(bytes_of(1, 0, "embedding"), 12 * words);
  EXPECT_EQ(bytes_of(6, 0, "embedding"), 24 * words);
  EXPECT_EQ(bytes_of(6, 0, "tokens"), 24 * tokens);
  EXPECT_EQ(bytes_of(6, 0, "residual_mid"), 83 * words) << "a layer for each chunk in flight";
  EXPECT_EQ(bytes_of(6, 1, "embedding") + bytes_of(6, 1, "tokens"), 0);
}

}  // namespace
}  // namespace weft
