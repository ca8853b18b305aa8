// Ranks as threads of one process train the model that one rank trains, whatever their number, the
// micro-batch and the way in which gradients and optimizer are shared.
#include <gtest/gtest.h>

#include "tests/trainer/step/parallel_training.h"

namespace weft {
namespace {

Topology dp(int size) { return {.dp_size = size}; }

TEST(DataParallel, TrainsTheModelOfOneRank) {
  const Outcome one = train({.micro_batch_size = 1});
  EXPECT_LT(one.steps.back().loss, one.steps.front().loss);
  EXPECT_GT(one.steps.front().grad_norm, 0.5) << "gradients are clipped";
  for (const auto& [dp_size, micro_batch_size] :
       {std::pair{1, 4}, {2, 1}, {2, 2}, {2, 4}, {4, 1}, {4, 2}, {8, 1}}) {
    SCOPED_TRACE("dp " + std::to_string(dp_size) + " micro-batch " +
                 std::to_string(micro_batch_size));
    expect_near(train({.topology = dp(dp_size), .micro_batch_size = micro_batch_size}), one, 1e-5);
  }
}

TEST(DataParallel, ASecondRunHasTheSameBits) {
  for (const bool shards : {false, true}) {
    const Variant variant{
        .topology = dp(3 + (shards ? 1 : -1)), .shards_optimizer = shards, .bucket_elements = 4096};
    expect_equal(train(variant), train(variant));
  }
}

// Sums are made in the order of ranks, however the arena is cut; only the norm's own sum is cut
// otherwise.
TEST(DataParallel, ShardedOptimizersAndBucketsChangeRoundingOnly) {
  const Variant replicated{.topology = dp(4)};
  const Outcome expected = train(replicated);
  for (const int64_t bucket : {int64_t{1024}, int64_t{5000}, int64_t{40'000'000}}) {
    Variant variant{.topology = dp(4), .bucket_elements = bucket};
    expect_equal(train(variant), expected);
    variant.shards_optimizer = true;
    expect_near(train(variant), expected, 1e-6);
  }
}

TEST(DataParallel, Bf16TrainsTheModelOfOneRank) {
  const Outcome one = train({.micro_batch_size = 2, .dtype = DType::kBFloat16, .masks = false});
  for (const bool shards : {false, true}) {
    expect_near(train({.topology = dp(4),
                       .micro_batch_size = 2,
                       .shards_optimizer = shards,
                       .bucket_elements = 8192,
                       .dtype = DType::kBFloat16,
                       .masks = false}),
                one, 1e-3);
  }
}

// Without clipping nothing depends on how the norm's sum is cut, so random numbers that followed
// the place in a shard would be seen.
TEST(DataParallel, MomentsInBf16AreRoundedAlikeInShards) {
  Variant variant{.topology = dp(4), .dtype = DType::kBFloat16, .clip_grad = 0};
  variant.has_bf16_moments = true;
  const Outcome replicated = train(variant);
  for (const int64_t bucket : {int64_t{4096}, int64_t{40'000'000}}) {
    variant.bucket_elements = bucket;
    variant.shards_optimizer = true;
    EXPECT_EQ(train(variant).weights, replicated.weights) << bucket;
  }
}

// Each rank holds its share of the optimizer's state; together they hold every element once.
TEST(DataParallel, PiecesOfTheShardedStateCoverItOnce) {
  constexpr int kRanks = 4;
  std::mutex mutex;
  std::map<std::string, std::vector<int>> counts;
  run_topology(dp(kRanks), [&](ProcessGroups& groups) {
    TrainerOptions options = small_options();
    options.shape.dtype = DType::kBFloat16;
    options.shards_optimizer = true;
    options.bucket_elements = 8192;
    TrainerOnDevice model(options, create_cpu_backend(1), groups);
    const int64_t elements = model->parameters().arena_elements();
    const int64_t state = model->plan().class_bytes(MemoryClass::kOptimizer);
    EXPECT_LT(state, 12 * elements / kRanks + 12 * kRanks * 8192);
    const std::lock_guard lock(mutex);
    for (const StateTensor& t : model->state_tensors(true)) {
      if (t.name.rfind("optimizer/", 0) != 0) continue;
      int64_t n = 1;
      for (const int64_t size : t.global_shape) n *= size;
      auto& count = counts[t.name];
      count.resize(static_cast<size_t>(n));
      for (int64_t i = 0; i < t.tensor.num_elements(); ++i) {
        ++count[static_cast<size_t>(t.first + i)];
      }
      if (t.name.rfind("optimizer/master/", 0) != 0) continue;
      // The masters are the initial values of their places.
      const Parameter& parameter = model->parameters().find(t.name.substr(17));
      std::vector<float> values(static_cast<size_t>(parameter.num_elements));
      initial_values(parameter, options.shape.seed, values.data());
      const std::vector<float> masters = to_host(*model.backend, t.tensor);
      for (size_t i = 0; i < masters.size(); ++i) {
        ASSERT_EQ(masters[i], values[static_cast<size_t>(t.first) + i]) << t.name;
      }
    }
  });
  EXPECT_FALSE(counts.empty());
  for (const auto& [name, count] : counts) {
    EXPECT_EQ(count, std::vector<int>(count.size(), 1)) << name;
  }
}

}  // namespace
}  // namespace weft
