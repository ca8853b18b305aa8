// Ranks as threads of one process train the model that one rank trains, whatever their number, the
// micro-batch and the way in which gradients and optimizer are shared.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/trainer/model_fixture.h"
#include "tests/trainer/parallel/thread_ranks.h"

namespace weft {
namespace {

constexpr int64_t kGlobalBatch = 8, kNumSteps = 6;

struct Variant {
  int dp_size = 1;
  int64_t micro_batch_size = 1;
  bool shards_optimizer = false;
  int64_t bucket_elements = 40'000'000;
  DType dtype = DType::kFloat32;
  bool masks = true;
};

struct Outcome {
  std::vector<StepResult> steps;
  double evaluation = 0;
  std::map<std::string, std::vector<float>> weights;
};

// This rank's share of a global batch, in Megatron's order. Tokens 7 have no loss, so that
// micro-batches differ in the number of tokens that count.
class RankBatch {
 public:
  RankBatch(const ModelShape& shape, const ParallelLayout& layout, uint64_t seed, bool masks) {
    ModelShape one = shape;
    one.micro_batch_size = 1;
    HostBatch whole(one, kGlobalBatch, seed);
    const int64_t B = shape.micro_batch_size, T = shape.seq_length, dp = layout.dp_size;
    batch_.num_micro_batches = kGlobalBatch / (B * dp);
    for (int64_t k = 0; k < batch_.num_micro_batches; ++k) {
      double sum = 0;
      for (int64_t s = 0; s < B; ++s) {
        const int64_t sample = (k * dp + layout.dp_rank) * B + s;
        for (int64_t t = 0; t < T; ++t) {
          const auto at = static_cast<size_t>(sample * T + t);
          tokens_.push_back(whole.tokens()[at]);
          targets_.push_back(whole.targets()[at]);
          // The same number of tokens counts in every sample: Megatron's mean over micro-batches
          // depends on their size otherwise.
          mask_.push_back((t + sample) % 4 == 0 ? 0.0F : 1.0F);
          sum += static_cast<double>(mask_.back());
        }
      }
      sums_.push_back(sum);
    }
    batch_.tokens = tokens_.data();
    batch_.targets = targets_.data();
    if (!masks) return;
    batch_.loss_mask = mask_.data();
    batch_.mask_sums = sums_.data();
  }
  const GlobalBatch& view() const { return batch_; }

 private:
  GlobalBatch batch_;
  std::vector<int32_t> tokens_, targets_;
  std::vector<float> mask_;
  std::vector<double> sums_;
};

Outcome train(const Variant& variant) {
  std::vector<Outcome> outcomes(static_cast<size_t>(variant.dp_size));
  run_topology({1, 1, variant.dp_size}, [&](ProcessGroups& groups) {
    TrainerOptions options = small_options();
    options.shape.micro_batch_size = variant.micro_batch_size;
    options.shape.dtype = variant.dtype;
    options.shape.hidden_dropout = options.shape.attention_dropout = 0.1F;
    options.optimizer.clip_grad = 0.5F;  // below the norm of these gradients
    options.has_loss_mask = variant.masks;
    options.shards_optimizer = variant.shards_optimizer;
    options.bucket_elements = variant.bucket_elements;
    TrainerOnDevice model(options, create_cpu_backend(1), groups);
    Outcome& outcome = outcomes[static_cast<size_t>(groups.layout.dp_rank)];
    for (int64_t step = 0; step < kNumSteps; ++step) {
      const RankBatch batch(options.shape, groups.layout, static_cast<uint64_t>(step),
                            variant.masks);
      model->step(batch.view(), {.learning_rate = 1e-2, .params_norm = true});
      outcome.steps.push_back(model->result());
    }
    EXPECT_EQ(model->scalar_state().consumed_samples, kNumSteps * kGlobalBatch);
    const RankBatch batch(options.shape, groups.layout, 99, variant.masks);
    model->evaluate(batch.view());
    outcome.evaluation = model->result().loss;
    for (const Parameter& p : model->parameters().all()) {
      outcome.weights[p.name] = to_host(*model.backend, model->weight(p));
    }
  });
  // Every rank has the same results and the same weights, to the bit.
  for (const Outcome& other : outcomes) {
    for (size_t i = 0; i < other.steps.size(); ++i) {
      EXPECT_EQ(other.steps[i].loss, outcomes[0].steps[i].loss);
      EXPECT_EQ(other.steps[i].grad_norm, outcomes[0].steps[i].grad_norm);
      EXPECT_EQ(other.steps[i].params_norm, outcomes[0].steps[i].params_norm);
    }
    EXPECT_EQ(other.evaluation, outcomes[0].evaluation);
    EXPECT_EQ(other.weights, outcomes[0].weights);
  }
  return outcomes[0];
}

void expect_near(const Outcome& a, const Outcome& b, double tolerance) {
  for (size_t i = 0; i < a.steps.size(); ++i) {
    const StepResult &x = a.steps[i], &y = b.steps[i];
    EXPECT_NEAR(x.loss, y.loss, tolerance * y.loss) << "step " << i;
    EXPECT_NEAR(x.grad_norm, y.grad_norm, 10 * tolerance * y.grad_norm) << "step " << i;
    EXPECT_NEAR(x.params_norm, y.params_norm, tolerance * y.params_norm) << "step " << i;
  }
  EXPECT_NEAR(a.evaluation, b.evaluation, tolerance * b.evaluation);
}

void expect_equal(const Outcome& a, const Outcome& b) {
  ASSERT_EQ(a.steps.size(), b.steps.size());
  for (size_t i = 0; i < a.steps.size(); ++i) {
    EXPECT_EQ(a.steps[i].loss, b.steps[i].loss) << "step " << i;
    EXPECT_EQ(a.steps[i].grad_norm, b.steps[i].grad_norm) << "step " << i;
  }
  EXPECT_EQ(a.weights, b.weights);
}

TEST(DataParallel, TrainsTheModelOfOneRank) {
  const Outcome one = train({.dp_size = 1, .micro_batch_size = 1});
  EXPECT_LT(one.steps.back().loss, one.steps.front().loss);
  EXPECT_GT(one.steps.front().grad_norm, 0.5) << "gradients are clipped";
  for (const auto& [dp_size, micro_batch_size] :
       {std::pair{1, 4}, {2, 1}, {2, 2}, {2, 4}, {4, 1}, {4, 2}, {8, 1}}) {
    SCOPED_TRACE("dp " + std::to_string(dp_size) + " micro-batch " +
                 std::to_string(micro_batch_size));
    expect_near(train({.dp_size = dp_size, .micro_batch_size = micro_batch_size}), one, 1e-5);
  }
}

TEST(DataParallel, ASecondRunHasTheSameBits) {
  for (const bool shards : {false, true}) {
    const Variant variant{
        .dp_size = 3 + (shards ? 1 : -1), .shards_optimizer = shards, .bucket_elements = 4096};
    expect_equal(train(variant), train(variant));
  }
}

// Sums are made in the order of ranks, however the arena is cut; only the norm's own sum is cut
// otherwise.
TEST(DataParallel, ShardedOptimizersAndBucketsChangeRoundingOnly) {
  const Variant replicated{.dp_size = 4};
  const Outcome expected = train(replicated);
  for (const int64_t bucket : {int64_t{1024}, int64_t{5000}, int64_t{40'000'000}}) {
    Variant variant{.dp_size = 4, .bucket_elements = bucket};
    expect_equal(train(variant), expected);
    variant.shards_optimizer = true;
    expect_near(train(variant), expected, 1e-6);
  }
}

TEST(DataParallel, Bf16TrainsTheModelOfOneRank) {
  const Outcome one =
      train({.dp_size = 1, .micro_batch_size = 2, .dtype = DType::kBFloat16, .masks = false});
  for (const bool shards : {false, true}) {
    expect_near(train({.dp_size = 4,
                       .micro_batch_size = 2,
                       .shards_optimizer = shards,
                       .bucket_elements = 8192,
                       .dtype = DType::kBFloat16,
                       .masks = false}),
                one, 1e-3);
  }
}

// Each rank holds its share of the optimizer's state; together they hold every element once.
TEST(DataParallel, PiecesOfTheShardedStateCoverItOnce) {
  constexpr int kRanks = 4;
  std::mutex mutex;
  std::map<std::string, std::vector<int>> counts;
  run_topology({1, 1, kRanks}, [&](ProcessGroups& groups) {
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
