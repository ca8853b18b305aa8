// Training whose layers have fp8 products: it stays near bf16, repeats its bits, goes on from a
// state to the bit and is cut among ranks.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "kernels/forwarding_backend.h"
#include "tests/trainer/step/saved_training.h"

namespace weft {
namespace {

constexpr uint64_t kFp8Steps = 12;

// Fp8 products need multiples of 16 in all directions.
TrainerOptions bf16_options() {
  TrainerOptions options = small_options();
  options.shape.dtype = DType::kBFloat16;
  options.shape.num_heads = 4;
  options.shape.head_size = 8;
  options.shape.hidden_dropout = options.shape.attention_dropout = 0.1F;
  return options;
}

struct Recipe {
  const char* name;
  Fp8Options options;
};
void PrintTo(const Recipe& recipe, std::ostream* out) {  // NOLINT(readability-identifier-naming)
  *out << recipe.name;
}

TrainerOptions fp8_options(const Fp8Options& fp8) {
  TrainerOptions options = bf16_options();
  options.shape.fp8 = fp8;
  return options;
}

class Fp8Recipes : public testing::TestWithParam<Recipe> {};

TEST_P(Fp8Recipes, TrainNearBf16) {
  TrainerOnDevice fp8(fp8_options(GetParam().options)), bf16(bf16_options());
  const std::vector<StepResult> got = run_steps(fp8, 0, kFp8Steps),
                                wanted = run_steps(bf16, 0, kFp8Steps);
  bool differs = false;
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i].loss, wanted[i].loss, 2e-2 * wanted[i].loss) << "step " << i;
    EXPECT_NEAR(got[i].grad_norm, wanted[i].grad_norm, 0.15 * wanted[i].grad_norm) << "step " << i;
    differs = differs || got[i].loss != wanted[i].loss;
  }
  EXPECT_TRUE(differs) << "the products are not those of bf16";
  EXPECT_LT(got.back().loss, 0.98 * got.front().loss) << "it learns";
}

TEST_P(Fp8Recipes, RepeatTheirBitsAlsoFromAStateInTheMiddle) {
  const TrainerOptions options = fp8_options(GetParam().options);
  TrainerOnDevice whole(options);
  const std::vector<StepResult> expected = run_steps(whole, 0, kFp8Steps);
  for (const uint64_t stop : {uint64_t{0}, uint64_t{1}, uint64_t{7}}) {
    TrainerOnDevice first(options), second(options);
    run_steps(first, 0, stop);
    second->set_scalar_state(first->scalar_state());
    const std::vector<StateTensor> from = first->tensors_to_load(true);
    const std::vector<StateTensor> to = second->tensors_to_load(true);
    ASSERT_EQ(from.size(), to.size());
    for (size_t i = 0; i < from.size(); ++i)
      to_device(*second.backend, to[i].tensor, to_host(*first.backend, from[i].tensor));
    second->parameters_loaded();
    const std::vector<StepResult> got = run_steps(second, stop, kFp8Steps);
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_EQ(got[i].loss, expected[stop + i].loss) << stop << " + " << i;
    EXPECT_TRUE(state_of(second) == state_of(whole)) << stop;
  }
}

// An evaluation between steps counts nothing.
TEST_P(Fp8Recipes, EvaluationsChangeNothing) {
  const TrainerOptions options = fp8_options(GetParam().options);
  TrainerOnDevice plain(options), evaluated(options);
  for (uint64_t step = 0; step < 3; ++step) {
    const HostBatch other(options.shape, 4, 77 + step);
    evaluated->evaluate(other.view());
    evaluated->result();
    EXPECT_EQ(run_steps(evaluated, step, step + 1).front().loss,
              run_steps(plain, step, step + 1).front().loss);
  }
  EXPECT_TRUE(state_of(evaluated) == state_of(plain));
}

TEST_P(Fp8Recipes, RecomputationKeepsTheBits) {
  TrainerOptions options = fp8_options(GetParam().options);
  TrainerOnDevice kept(options);
  run_steps(kept, 0, 3);
  for (const RecomputeOptions& recompute :
       {RecomputeOptions{.method = RecomputeOptions::Method::kUniform},
        RecomputeOptions{.norms = true, .mlp = true}}) {
    options.recompute = recompute;
    TrainerOnDevice again(options);
    run_steps(again, 0, 3);
    EXPECT_TRUE(state_of(again) == state_of(kept));
  }
}

// Counts how norms write their outputs.
class NormsBackend final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  std::vector<int> counts = {0, 0, 0};  // norms in fp8 alone, norms in both, transposed copies

  using ForwardingBackend::run;
  void run(const ResidualNormForward& op) override {
    if (op.normed_fp8.rows) ++counts[op.normed ? 1 : 0];
    ForwardingBackend::run(op);
  }
  void run(const TransposeFp8& op) override {
    ++counts[2];
    ForwardingBackend::run(op);
  }
};

// Two layers with two micro-batches have eight norms before products. The first step has no scales
// yet, and the third one may compare with bf16.
TEST(Fp8Norms, AreWrittenInFp8WhereTheirScaleIsKnown) {
  struct Way {
    Fp8Options fp8;
    RecomputeOptions recompute;
    std::vector<int> counts;  // in a step
  };
  const std::vector<int> none = {0, 0, 0};
  for (const Way& way : {Way{Fp8Options{.measures_errors = true}, {}, {8, 0, 8}},
                         Way{Fp8Options{.has_weight_gradients = false}, {}, {0, 8, 0}},
                         Way{Fp8Options{}, {.norms = true}, {0, 8, 0}},
                         Way{Fp8Options{.is_delayed = false}, {}, none}}) {
    TrainerOptions options = fp8_options(way.fp8);
    options.recompute = way.recompute;
    auto counting = std::make_unique<NormsBackend>(create_test_backend());
    NormsBackend& norms = *counting;
    TrainerOnDevice model(options, std::move(counting));
    const HostBatch batch(model->shape(), 4, 0);
    for (int step = 0; step < 4; ++step) {
      const bool measures = way.fp8.measures_errors && step == 2;
      norms.counts = none;
      model->step(batch.view(), {.learning_rate = 3e-3, .fp8_errors = measures});
      model->result();
      EXPECT_EQ(norms.counts, step == 0 || measures ? none : way.counts) << "step " << step;
    }
  }
}

// Steps whose forward products are made in bf16, too, in turn with others.
std::vector<StepResult> run_measured_steps(TrainerOnDevice& model, uint64_t end) {
  std::vector<StepResult> results;
  for (uint64_t step = 0; step < end; ++step) {
    const HostBatch batch(model->shape(), 4, step % 4);
    model->step(batch.view(), {.learning_rate = 3e-3, .fp8_errors = step % 2 == 1});
    results.push_back(model->result());
  }
  return results;
}

// A number of e4m3 is off by 2.5 % on average where its error is uniform between two neighbours, so
// a sum of products of two of them by about 3.7 %.
TEST_P(Fp8Recipes, ErrorsAreMeasuredAndTheBitsStay) {
  TrainerOptions options = fp8_options(GetParam().options);
  TrainerOnDevice plain(options);
  const std::vector<StepResult> expected = run_steps(plain, 0, 4);
  options.shape.fp8->measures_errors = true;
  for (const bool recomputes : {false, true}) {
    options.recompute.mlp = recomputes;
    TrainerOnDevice measured(options);
    const std::vector<StepResult> got = run_measured_steps(measured, 4);
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].loss, expected[i].loss) << i;
      ASSERT_EQ(got[i].fp8_errors.size(), i % 2 == 1 ? 4 * options.shape.num_layers : 0U);
      for (const float error : got[i].fp8_errors) {
        EXPECT_GT(error, 5e-3);
        EXPECT_LT(error, 8e-2);
      }
    }
    EXPECT_TRUE(state_of(measured) == state_of(plain));
  }
}

// Replaces an element of a bias of the first layer, and returns what was there.
float replace_bias(TrainerOnDevice& model, float value) {
  float before = 0;
  for (const StateTensor& t : model->state_tensors(true)) {
    if (t.name != "optimizer/master/decoder.layers.0.mlp.linear_fc1.bias") continue;
    std::vector<float> values = to_host(*model.backend, t.tensor);
    before = std::exchange(values[3], value);
    to_device(*model.backend, t.tensor, values);
  }
  model->parameters_loaded();
  return before;
}

TEST_P(Fp8Recipes, AGradientThatIsNotFiniteIsFound) {
  TrainerOptions options = fp8_options(GetParam().options);
  options.skips_bad_steps = true;
  TrainerOnDevice model(options);
  run_steps(model, 0, 2);
  replace_bias(model, INFINITY);
  EXPECT_TRUE(run_steps(model, 2, 3).front().outcome.skipped);
}

// No scale is known after a first step without a finite number: the next steps must not multiply by
// 0.
TEST_P(Fp8Recipes, AFirstStepThatIsBadDoesNotStopTheNextOnes) {
  TrainerOptions options = fp8_options(GetParam().options), plain = bf16_options();
  options.skips_bad_steps = plain.skips_bad_steps = true;
  TrainerOnDevice fp8(options), bf16(plain);
  for (TrainerOnDevice* model : {&fp8, &bf16}) {
    const float bias = replace_bias(*model, INFINITY);
    EXPECT_TRUE(run_steps(*model, 0, 1).front().outcome.skipped);
    replace_bias(*model, bias);
  }
  const std::vector<StepResult> got = run_steps(fp8, 1, 4), wanted = run_steps(bf16, 1, 4);
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i].grad_norm, wanted[i].grad_norm, 0.2 * wanted[i].grad_norm) << "step " << i;
}

// The scales of gradients were made for e5m2, which reaches 128 times as far.
TEST(Fp8Format, AnotherOneBeginsTheHistoriesAnew) {
  TrainerOnDevice hybrid(fp8_options({})), e4m3(fp8_options({.gradients = DType::kFloat8E4M3}));
  run_steps(hybrid, 0, 2);
  ASSERT_EQ(hybrid->scalar_state().fp8_scaling->steps, 2);
  e4m3->set_scalar_state(hybrid->scalar_state());
  EXPECT_EQ(e4m3->scalar_state().fp8_scaling->steps, 0);
  for (const StateTensor& t : e4m3->tensors_to_load(true)) EXPECT_FALSE(t.name.starts_with("fp8/"));
}

INSTANTIATE_TEST_SUITE_P(
    All, Fp8Recipes,
    testing::Values(
        Recipe{"delayed", {}}, Recipe{"tensorwise", {.is_delayed = false}},
        Recipe{"e4m3", {.gradients = DType::kFloat8E4M3, .is_delayed = false}},
        Recipe{"delayed_max", {.margin = 1, .amax_history_len = 3, .uses_maximum = true}},
        Recipe{"bf16_weight_gradients", {.is_delayed = false, .has_weight_gradients = false}}),
    [](const testing::TestParamInfo<Recipe>& test) { return std::string(test.param.name); });

#ifndef WEFT_TEST_CUDA
// Ranks that share a layer take the scales of all of it, so what they have together is what one
// has.
TEST(Fp8OverRanks, TensorParallelRanksShareTheHistories) {
  for (const bool shares_rows : {false, true}) {
    std::mutex mutex;
    std::vector<std::vector<float>> histories;
    std::vector<StepResult> steps;
    const Topology topology{.tp_size = 2, .sequence_parallel = shares_rows};
    run_topology(topology, [&](ProcessGroups& groups) {
      TrainerOnDevice model(fp8_options({}), create_cpu_backend(1), groups);
      const std::vector<StepResult> own = run_steps(model, 0, 4);
      const std::lock_guard lock(mutex);
      for (const StateTensor& t : model->state_tensors(true)) {
        if (t.name.starts_with("fp8/")) histories.push_back(to_host(*model.backend, t.tensor));
      }
      steps = own;
    });
    ASSERT_EQ(histories.size(), 8U);
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(histories[i], histories[i + 4]);
    TrainerOnDevice alone(fp8_options({}), create_cpu_backend(1));
    const std::vector<StepResult> wanted = run_steps(alone, 0, 4);
    for (size_t i = 0; i < 4; ++i)
      EXPECT_NEAR(steps[i].loss, wanted[i].loss, 5e-3 * wanted[i].loss);
  }
}

// Each rank tells of all layers, also of those of other stages.
TEST(Fp8OverRanks, ErrorsAreThoseOfTheWholeModel) {
  TrainerOptions options = fp8_options({});
  options.shape.fp8->measures_errors = true;
  TrainerOnDevice alone(options, create_cpu_backend(1));
  const std::vector<float> wanted = run_measured_steps(alone, 2).back().fp8_errors;
  for (const Topology& topology : {Topology{.tp_size = 2, .sequence_parallel = true},
                                   Topology{.pp_size = 2}, Topology{.dp_size = 2}}) {
    std::mutex mutex;
    std::vector<std::vector<float>> errors;
    run_topology(topology, [&](ProcessGroups& groups) {
      TrainerOnDevice model(options, create_cpu_backend(1), groups);
      const std::vector<float> own = run_measured_steps(model, 2).back().fp8_errors;
      const std::lock_guard lock(mutex);
      errors.push_back(own);
    });
    ASSERT_EQ(errors.size(), 2U);
    EXPECT_EQ(errors[0], errors[1]);
    ASSERT_EQ(errors[0].size(), wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i)
      EXPECT_NEAR(errors[0][i], wanted[i], 0.3 * wanted[i]) << i;
  }
}
#endif

}  // namespace
}  // namespace weft
