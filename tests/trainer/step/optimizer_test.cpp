// Steps of the whole trainer change what they should, repeat, and go on from saved state.
#include "trainer/step/optimizer.h"

#include <gtest/gtest.h>

#include "tests/trainer/model_fixture.h"

namespace weft {
namespace {

struct Precision {
  const char* name;
  DType dtype;
  bool has_bf16_moments = false;
  bool has_muon = false;
};
constexpr Precision kFp32{"fp32", DType::kFloat32}, kBf16{"bf16", DType::kBFloat16},
    kBf16Moments{"bf16_and_its_moments", DType::kBFloat16, true},
    kMuon{"bf16_by_muon", DType::kBFloat16, false, true};

TrainerOptions options_of(const Precision& precision) {
  TrainerOptions options = small_options();
  options.shape.dtype = precision.dtype;
  options.optimizer.has_bf16_moments = precision.has_bf16_moments;
  options.optimizer.seed = options.shape.seed;
  if (precision.has_muon)
    options.optimizer.muon = {.extra_scale = 0.2,
                              .iterations = newton_schulz_iterations("quintic", 5)};
  options.shape.hidden_dropout = options.shape.attention_dropout = 0.1F;
  return options;
}

void run_steps(TrainerOnDevice& model, int64_t first, int64_t count,
               std::vector<StepResult>* results) {
  for (int64_t step = first; step < first + count; ++step) {
    const HostBatch batch(model->shape(), 4, static_cast<uint64_t>(step));
    model->step(batch.view(), {.learning_rate = 1e-2, .params_norm = true});
    results->push_back(model->result());
  }
}

void expect_equal_bits(const std::vector<StepResult>& a, const std::vector<StepResult>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].loss, b[i].loss) << i;
    EXPECT_EQ(a[i].grad_norm, b[i].grad_norm) << i;
    EXPECT_EQ(a[i].params_norm, b[i].params_norm) << i;
  }
}

void expect_equal_state(TrainerOnDevice& a, TrainerOnDevice& b) {
  const std::vector<StateTensor> state = a->state_tensors(true), other = b->state_tensors(true);
  ASSERT_EQ(state.size(), other.size());
  for (size_t i = 0; i < state.size(); ++i) {
    EXPECT_EQ(to_host(*a.backend, state[i].tensor), to_host(*b.backend, other[i].tensor))
        << state[i].name;
  }
}

class Steps : public testing::TestWithParam<Precision> {};
INSTANTIATE_TEST_SUITE_P(, Steps, testing::Values(kFp32, kBf16, kBf16Moments, kMuon),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(Steps, RepeatToTheLastBit) {
  std::vector<StepResult> a, b;
  TrainerOnDevice first(options_of(GetParam())), second(options_of(GetParam()));
  run_steps(first, 0, 5, &a);
  run_steps(second, 0, 5, &b);
  expect_equal_bits(a, b);
  expect_equal_state(first, second);
}

TEST_P(Steps, HaveTheSameBitsWithTheOptimizersStateOnTheHost) {
  TrainerOptions options = options_of(GetParam());
  TrainerOnDevice on_device(options);
  options.optimizer.offloads_state = true;
  TrainerOnDevice on_host(options);
  const auto bytes = [](TrainerOnDevice& model, MemoryClass memory_class) {
    return model->plan().class_bytes(memory_class);
  };
  const int64_t moved =
      bytes(on_host, MemoryClass::kPinnedHost) - bytes(on_device, MemoryClass::kPinnedHost);
  const int64_t moment_bytes = GetParam().has_bf16_moments || GetParam().has_muon ? 4 : 8;
  EXPECT_GE(moved, moment_bytes * on_host->parameters().arena_elements());
  EXPECT_EQ(bytes(on_host, MemoryClass::kOptimizer),
            bytes(on_device, MemoryClass::kOptimizer) - moved);
  std::vector<StepResult> a, b;
  run_steps(on_device, 0, 4, &a);
  run_steps(on_host, 0, 4, &b);
  expect_equal_bits(a, b);
  expect_equal_state(on_device, on_host);
}

TEST_P(Steps, AreTimedBetweenTheirEndsOnTheDevice) {
  TrainerOnDevice model(options_of(GetParam()));
  const HostBatch batch(model->shape(), 4);
  const StepOptions options{.learning_rate = 1e-2};
  model->step(batch.view(), options);
  std::vector<StepResult> results;
  for (int i = 0; i < 4; ++i) {  // as the loop does: a step is enqueued before a result is read
    model->step(batch.view(), options);
    results.push_back(model->result());
  }
  EXPECT_EQ(results[0].since_previous_ms, results[0].device_ms);
  for (const StepResult& result : results) {
    EXPECT_GT(result.device_ms, 0);
    EXPECT_GE(result.since_previous_ms, result.device_ms) << "steps follow each other";
    EXPECT_NEAR(result.device_ms, result.forward_ms + result.backward_ms + result.optimizer_ms,
                0.1 * result.device_ms + 0.1);
  }
}

TEST_P(Steps, ContinueToTheLastBitFromCopiedState) {
  std::vector<StepResult> undisturbed, resumed;
  TrainerOnDevice model(options_of(GetParam()));
  run_steps(model, 0, 3, &undisturbed);

  TrainerOnDevice copy(options_of(GetParam()));
  const std::vector<StateTensor> from = model->state_tensors(true), to = copy->state_tensors(true);
  for (size_t i = 0; i < from.size(); ++i) {
    ASSERT_EQ(from[i].name, to[i].name);
    // bf16 values are derived from the masters: a checkpoint's own are not needed for training.
    if (GetParam().dtype == DType::kBFloat16 && from[i].name.rfind("model/", 0) == 0) continue;
    copy.backend->copy(to[i].tensor.data(), from[i].tensor.data(), from[i].tensor.num_bytes(),
                       Stream::kCompute);
  }
  copy->set_scalar_state(model->scalar_state());
  copy->parameters_loaded();

  undisturbed.clear();
  run_steps(model, 3, 3, &undisturbed);
  run_steps(copy, 3, 3, &resumed);
  expect_equal_bits(undisturbed, resumed);
  EXPECT_EQ(copy->scalar_state().iteration, 6);
  EXPECT_EQ(copy->scalar_state().adam_step, 6);
  EXPECT_EQ(copy->scalar_state().consumed_samples, 24);
}

TEST_P(Steps, LearnOneBatchByHeart) {
  TrainerOptions options = options_of(GetParam());
  options.shape.hidden_dropout = options.shape.attention_dropout = 0;
  options.optimizer.weight_decay = 0;
  TrainerOnDevice model(options);
  const HostBatch batch(options.shape, 4);
  double loss = 0;
  for (int step = 0; step < 150; ++step) {
    model->step(batch.view(), {.learning_rate = 5e-3});
    loss = model->result().loss;
  }
  EXPECT_LT(loss, 0.1);
}

TEST_P(Steps, KeepValuesEqualToTheirMasters) {
  TrainerOnDevice model(options_of(GetParam()));
  std::vector<StepResult> results;
  run_steps(model, 0, 3, &results);
  std::map<std::string, std::vector<float>> state;
  for (const StateTensor& t : model->state_tensors(true)) {
    state[t.name] = to_host(*model.backend, t.tensor);
  }
  double squares = 0;
  for (const Parameter& p : model->parameters().all()) {
    const std::vector<float>& values = state.at("model/" + p.name);
    const bool has_master = GetParam().dtype == DType::kBFloat16;
    ASSERT_EQ(state.count("optimizer/master/" + p.name), has_master ? 1U : 0U);
    const std::vector<float>& master = has_master ? state.at("optimizer/master/" + p.name) : values;
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(values[i], has_master ? static_cast<float>(BFloat16(master[i])) : master[i]);
      squares += static_cast<double>(master[i]) * static_cast<double>(master[i]);
    }
  }
  EXPECT_NEAR(results.back().params_norm, std::sqrt(squares), 1e-5 * std::sqrt(squares));
}

TEST(Optimizer, ReportsTheNormOfAllGradients) {
  TrainerOnDevice model(options_of(kFp32));
  const HostBatch batch(model->shape(), 4);
  model->forward_backward(batch.view());
  double squares = 0;
  for (const Parameter& p : model->parameters().all()) {
    for (const float g : to_host(*model.backend, model->gradient(p))) {
      squares += static_cast<double>(g) * static_cast<double>(g);
    }
  }
  model->step(batch.view(), {.learning_rate = 0});
  EXPECT_NEAR(model->result().grad_norm, std::sqrt(squares), 1e-5 * std::sqrt(squares));
}

TEST(Optimizer, WithLearningRateZeroChangesMomentsOnly) {
  TrainerOnDevice model(options_of(kBf16));
  std::map<std::string, std::vector<float>> before;
  for (const StateTensor& t : model->state_tensors(true)) {
    before[t.name] = to_host(*model.backend, t.tensor);
  }
  const HostBatch batch(model->shape(), 4);
  model->step(batch.view(), {.learning_rate = 0});
  model->result();
  for (const StateTensor& t : model->state_tensors(true)) {
    const bool is_moment = t.name.rfind("optimizer/exp_avg", 0) == 0;
    EXPECT_EQ(to_host(*model.backend, t.tensor) == before[t.name], !is_moment) << t.name;
  }
}

TEST(Step, RefusesABatchThatTheModelWasNotPlannedFor) {
  TrainerOptions options = small_options();
  HostBatch batch(options.shape, 2);
  options.shape.restarts_positions = true;
  TrainerOnDevice with_documents(options);
  EXPECT_THROW(with_documents->step(batch.view(), {}), std::logic_error);
  EXPECT_THROW(with_documents->evaluate(batch.view()), std::logic_error);

  options.shape.restarts_positions = false;
  options.has_loss_mask = false;
  TrainerOnDevice without_mask(options);
  batch.mask_every(3);
  EXPECT_THROW(without_mask->step(batch.view(), {}), std::logic_error);
}

TEST(Optimizer, TwoResultsMayWaitAndComeInOrder) {
  TrainerOnDevice one_by_one(options_of(kFp32)), ahead(options_of(kFp32));
  const HostBatch first(ahead->shape(), 4, 1), second(ahead->shape(), 2, 2);
  one_by_one->step(first.view(), {.learning_rate = 1e-3});
  const StepResult a = one_by_one->result();
  one_by_one->step(second.view(), {.learning_rate = 1e-3});
  const StepResult b = one_by_one->result();

  EXPECT_THROW(ahead->result(), std::logic_error);
  ahead->step(first.view(), {.learning_rate = 1e-3});
  ahead->step(second.view(), {.learning_rate = 1e-3});
  EXPECT_THROW(ahead->step(first.view(), {.learning_rate = 1e-3}), std::logic_error);
  expect_equal_bits({ahead->result()}, {a});
  expect_equal_bits({ahead->result()}, {b});
}

}  // namespace
}  // namespace weft
