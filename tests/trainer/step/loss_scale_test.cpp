// The loss's factor of fp16 training, as Megatron-LM moves it, and steps that are skipped on all
// ranks.
#include "trainer/step/loss_scale.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "kernels/forwarding_backend.h"
#include "tests/trainer/step/parallel_training.h"
#include "trainer/config/lr_schedule.h"

namespace weft {
namespace {

constexpr double k2To32 = 4294967296.0;

TEST(LossScale, HalvesWithEachOverflowFromTheSecondOnAsMegatrons) {
  const LossScaleOptions options;
  LossScaleState state = initial_loss_scale(options);
  std::vector<double> scales;
  for (int overflow = 0; overflow < 19; ++overflow) {
    state = loss_scale_after(options, state, true);
    scales.push_back(state.scale);
  }
  EXPECT_EQ(scales[0], k2To32);
  EXPECT_EQ(scales[1], k2To32 / 2);
  EXPECT_EQ(scales[2], k2To32 / 4);
  EXPECT_EQ(scales[18], 16384);
}

// A BigScience GPT-2 log: 200 iterations of 4 samples, of which 19 were skipped.
TEST(LossScale, SkippedStepsKeepTheLearningRateAsMegatrons) {
  LrSchedule lr({.max_lr = 1.5e-4,
                 .min_lr = 1e-5,
                 .warmup_steps = 32,
                 .decay_steps = 3200,
                 .style = LrDecayStyle::kCosine});
  const LossScaleOptions options;
  LossScaleState state = initial_loss_scale(options);
  for (int iteration = 1; iteration <= 200; ++iteration) {
    const bool overflows = iteration <= 19;
    state = loss_scale_after(options, state, overflows);
    if (!overflows) lr.advance(4);
  }
  EXPECT_EQ(fmt::format("{:.1f} {:.3E}", state.scale, lr.current()), "16384.0 1.342E-04");
}

TEST(LossScale, DoublesAfterTheWindowAndForgetsOverflowsOnlyThen) {
  const LossScaleOptions options{.initial = 16, .min = 4, .window = 3, .hysteresis = 2};
  LossScaleState state = initial_loss_scale(options);
  const auto after = [&](const std::string& steps) {
    for (const char step : steps) state = loss_scale_after(options, state, step == 'x');
    return state.scale;
  };
  EXPECT_EQ(after("x.."), 16) << "the first overflow is free, and begins the window anew";
  EXPECT_EQ(after("x"), 8) << "the second is not, although good steps lie between them";
  EXPECT_EQ(after("..x"), 4);
  EXPECT_EQ(after("xx"), 4) << "the minimum";
  EXPECT_EQ(after("..."), 8);
  EXPECT_EQ(after("x"), 8) << "free again";
  EXPECT_EQ(after("..."), 16);
  EXPECT_EQ(after("......"), 64);
}

TEST(LossScale, IsExhaustedWhereItWouldHaveToFallBelowItsMinimum) {
  const LossScaleOptions options{.initial = 2, .min = 2};
  LossScaleState state = initial_loss_scale(options);
  EXPECT_FALSE(is_exhausted(options, state)) << "an overflow is free";
  state = loss_scale_after(options, state, true);
  EXPECT_TRUE(is_exhausted(options, state));
  EXPECT_FALSE(is_exhausted({.initial = 2, .min = 1}, state));
}

// Writes infinity into a gradient of a weight where `poisons` says so.
class PoisonedBackend final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  bool poisons = false;

  using ForwardingBackend::run;
  void run(const LinearBackwardWeight& op) override {
    ForwardingBackend::run(op);
    if (poisons) op.dweight.as<float>()[3] = INFINITY;
  }
};

struct PoisonedTrainer : TrainerOnDevice {
  explicit PoisonedTrainer(const TrainerOptions& options,
                           const ProcessGroups& groups = lone_process_groups())
      : TrainerOnDevice(options, std::make_unique<PoisonedBackend>(create_cpu_backend(1)), groups) {
  }
  void poison(bool poisons) { dynamic_cast<PoisonedBackend&>(*backend).poisons = poisons; }
  std::vector<std::vector<float>> state() {
    std::vector<std::vector<float>> values;
    for (const StateTensor& tensor : trainer->state_tensors(true))
      values.push_back(to_host(*backend, tensor.tensor));
    return values;
  }
};

TrainerOptions options_of(DType dtype) {
  TrainerOptions options = small_options();
  options.shape.dtype = dtype;
  options.optimizer.clip_grad = 0.5F;
  return options;
}

// Powers of two change exponents alone, so the factor leaves no trace in fp32.
TEST(LossScaledSteps, HaveTheBitsOfStepsWithoutAFactor) {
  TrainerOptions scaled = options_of(DType::kFloat32);
  scaled.loss_scale = LossScaleOptions{.constant = 4096};
  TrainerOnDevice a(options_of(DType::kFloat32)), b(scaled);
  for (uint64_t step = 0; step < 4; ++step) {
    const HostBatch batch(a->shape(), 4, step);
    a->step(batch.view(), {.learning_rate = 1e-2});
    EXPECT_TRUE(b->step(batch.view(), {.learning_rate = 1e-2}));
    const StepResult x = a->result(), y = b->result();
    EXPECT_EQ(x.loss, y.loss);
    EXPECT_EQ(x.grad_norm, y.grad_norm);
    EXPECT_EQ(y.outcome.loss_scale, 4096);
  }
  for (const Parameter& p : a->parameters().all())
    EXPECT_EQ(to_host(*a.backend, a->weight(p)), to_host(*b.backend, b->weight(p))) << p.name;
}

// Another stream may be busy with a checkpoint for seconds: a step that is judged waits for its own
// numbers alone.
TEST(LossScaledSteps, WaitForNoOtherStream) {
  class CountsWaitsForDevice final : public ForwardingBackend {
   public:
    using ForwardingBackend::ForwardingBackend;
    using ForwardingBackend::synchronize;
    int num_waits = 0;
    void synchronize() override { ++num_waits; }
  };
  TrainerOptions options = options_of(DType::kFloat32);
  options.loss_scale = LossScaleOptions{.initial = 8};
  TrainerOnDevice t(options, std::make_unique<CountsWaitsForDevice>(create_cpu_backend(1)));
  auto& backend = dynamic_cast<CountsWaitsForDevice&>(*t.backend);
  backend.num_waits = 0;
  const HostBatch batch(t->shape(), 4, 1);
  EXPECT_TRUE(t->step(batch.view(), {.learning_rate = 1e-2}));
  EXPECT_EQ(backend.num_waits, 0);
  EXPECT_GT(t->result().grad_norm, 0);
}

// In every build: the losses of more samples would be written over what lies behind them.
TEST(Steps, WithMoreSamplesThanWerePlannedAreRefused) {
  TrainerOptions options = options_of(DType::kFloat32);
  options.num_sample_losses = options.shape.micro_batch_size;
  TrainerOnDevice t(options);
  EXPECT_THROW(t->step(HostBatch(t->shape(), 4, 1).view(), {}), std::logic_error);
}

// The step is as if it had never been, but for the counters of iterations and samples.
TEST(LossScaledSteps, AnOverflowLeavesWeightsAndOptimizerAsTheyAre) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    TrainerOptions options = options_of(dtype);
    if (dtype == DType::kFloat16) options.loss_scale = LossScaleOptions{.initial = 1024};
    options.skips_bad_steps = dtype == DType::kBFloat16;
    PoisonedTrainer model(options), other(options);
    const auto step = [](PoisonedTrainer& trainer, uint64_t seed, bool poisons) {
      const HostBatch batch(trainer->shape(), 4, seed);
      trainer.poison(poisons);
      const bool updates = trainer->step(batch.view(), {.learning_rate = 1e-2});
      EXPECT_EQ(trainer->result().outcome.skipped, poisons);
      return updates;
    };
    EXPECT_TRUE(step(model, 0, false));
    const auto before = model.state();
    EXPECT_FALSE(step(model, 1, true));
    EXPECT_EQ(model.state(), before);
    EXPECT_TRUE(step(model, 2, false));
    EXPECT_TRUE(step(other, 0, false));
    EXPECT_TRUE(step(other, 2, false));
    EXPECT_EQ(model.state(), other.state());
    const ScalarState& scalars = model->scalar_state();
    EXPECT_EQ(scalars.iteration, 3);
    EXPECT_EQ(scalars.consumed_samples, 12);
    EXPECT_EQ(scalars.adam_step, 2);
    EXPECT_EQ(scalars.skipped_steps, 1);
    EXPECT_EQ(scalars.bad_steps_in_row, 0);
    if (scalars.loss_scale) {
      EXPECT_EQ(scalars.loss_scale->hysteresis_tracker, 1);
    }
  }
}

// A bad step is one that no smaller factor can mend.
TEST(LossScaledSteps, CountAsBadInARowOnceTheFactorCannotFall) {
  TrainerOptions options = options_of(DType::kFloat16);
  options.loss_scale = LossScaleOptions{.initial = 4, .min = 2, .hysteresis = 1};
  PoisonedTrainer model(options);
  const HostBatch batch(model->shape(), 4);
  std::vector<int64_t> in_row;
  for (const bool poisons : {true, true, true, false, true}) {
    model.poison(poisons);
    model->step(batch.view(), {.learning_rate = 1e-2});
    in_row.push_back(model->result().outcome.bad_steps_in_row);
  }
  EXPECT_EQ(in_row, (std::vector<int64_t>{0, 1, 2, 0, 1}));
  // A constant factor cannot fall at all.
  options.loss_scale = LossScaleOptions{.constant = 4};
  PoisonedTrainer constant(options);
  constant.poison(true);
  EXPECT_FALSE(constant->step(batch.view(), {.learning_rate = 1e-2}));
  EXPECT_EQ(constant->result().outcome.bad_steps_in_row, 1);
  EXPECT_EQ(constant->loss_scale(), 4);
}

// An overflow of one rank, whichever it is, keeps all ranks from the update.
TEST(LossScaledSteps, AreSkippedByAllRanksTogether) {
  const int poisoned_ranks[] = {0, 3, 6};
  for (const bool shards : {false, true}) {
    for (const bool is_fp16 : {false, true}) {
      Variant variant{.topology = {.tp_size = 2, .pp_size = 2, .dp_size = 2},
                      .shards_optimizer = shards,
                      .bucket_elements = 8192,
                      .dtype = is_fp16 ? DType::kFloat16 : DType::kBFloat16,
                      .skips_bad_steps = !is_fp16};
      if (is_fp16) variant.loss_scale = LossScaleOptions{.initial = 4096, .hysteresis = 3};
      SCOPED_TRACE(variant.name());
      run_topology(variant.topology, [&](ProcessGroups& groups) {
        const TrainerOptions options = variant.options();
        PoisonedTrainer model(options, groups);
        const auto step = [&](uint64_t seed) {
          const RankBatch batch(options.shape, groups.layout, seed, variant.masks);
          const bool updates = model->step(batch.view(), {.learning_rate = 1e-2});
          EXPECT_EQ(model->result().outcome.skipped, !updates);
          model->finish_gathering();
          return updates;
        };
        EXPECT_TRUE(step(0));
        for (const int rank : poisoned_ranks) {
          const auto before = model.state();
          model.poison(groups.layout.world_rank() == rank);
          EXPECT_FALSE(step(1)) << "rank " << groups.layout.world_rank();
          EXPECT_EQ(model.state(), before);
          model.poison(false);
          EXPECT_TRUE(step(2));
          EXPECT_NE(model.state(), before);
        }
        EXPECT_EQ(model->scalar_state().skipped_steps, 3);
        EXPECT_EQ(model->loss_scale(), is_fp16 ? 2048 : 1);
      });
    }
  }
}

// Topologies skip the same steps: the first ones, until the factor has come down from 2^32.
TEST(LossScaledSteps, OverflowAlikeInAllTopologies) {
  constexpr int64_t kSteps = 22;
  const auto train_in = [&](const Topology& topology, bool shards) {
    return train({.topology = topology,
                  .shards_optimizer = shards,
                  .bucket_elements = 8192,
                  .dtype = DType::kFloat16,
                  .loss_scale = LossScaleOptions{}},
                 kSteps);
  };
  const Outcome one = train_in({}, false);
  int64_t num_skipped = 0;
  for (const StepResult& step : one.steps) num_skipped += step.outcome.skipped ? 1 : 0;
  EXPECT_GT(num_skipped, 3);
  EXPECT_LT(num_skipped, kSteps - 3);
  EXPECT_EQ(one.steps.back().outcome.loss_scale,
            std::ldexp(k2To32, 1 - static_cast<int>(num_skipped)));
  for (const bool shards : {false, true}) {
    const Outcome many = train_in({.tp_size = 2, .pp_size = 2, .dp_size = 2}, shards);
    for (size_t i = 0; i < one.steps.size(); ++i) {
      EXPECT_EQ(many.steps[i].outcome.skipped, one.steps[i].outcome.skipped) << i;
      EXPECT_EQ(many.steps[i].outcome.loss_scale, one.steps[i].outcome.loss_scale) << i;
      EXPECT_NEAR(many.steps[i].loss, one.steps[i].loss, 2e-3 * one.steps[i].loss) << i;
    }
  }
}

// The same data in three types. fp16 has eight times the digits of bf16, and its gradients do not
// vanish.
TEST(LossScaledSteps, TrainAlongTheCurveOfFp32) {
  constexpr int kSteps = 40;
  const auto curve = [&](DType dtype) {
    TrainerOptions options = options_of(dtype);
    if (dtype == DType::kFloat16) options.loss_scale = LossScaleOptions{.initial = 65536};
    TrainerOnDevice model(options, create_cpu_backend(1));
    std::vector<double> losses;
    for (uint64_t step = 0; step < kSteps; ++step) {
      const HostBatch batch(model->shape(), 4, step % 4);
      EXPECT_TRUE(model->step(batch.view(), {.learning_rate = 3e-3}));
      losses.push_back(model->result().loss);
    }
    return losses;
  };
  const std::vector<double> fp32 = curve(DType::kFloat32), fp16 = curve(DType::kFloat16),
                            bf16 = curve(DType::kBFloat16);
  EXPECT_LT(fp32.back(), 0.8 * fp32.front()) << "it learns";
  double worst_fp16 = 0, worst_bf16 = 0;
  for (size_t i = 0; i < fp32.size(); ++i) {
    worst_fp16 = std::max(worst_fp16, std::abs(fp16[i] - fp32[i]) / fp32[i]);
    worst_bf16 = std::max(worst_bf16, std::abs(bf16[i] - fp32[i]) / fp32[i]);
  }
  EXPECT_LT(worst_fp16, 2e-3);
  EXPECT_LT(worst_fp16, worst_bf16);
}

}  // namespace
}  // namespace weft
