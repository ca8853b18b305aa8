// Training in fp16 on a GPU: the loss scale falls, fits and grows where it does on the CPU, and a
// run repeats its bits, also from a state in the middle of the fall.
#include "tests/trainer/model_fixture.h"

namespace weft {
namespace {

constexpr uint64_t kFp16Steps = 36;

// The factor begins with 2^32, which overflows, and grows every third step.
TrainerOptions fp16_options() {
  TrainerOptions options = small_options();
  options.shape.dtype = DType::kFloat16;
  options.shape.hidden_dropout = options.shape.attention_dropout = 0.1F;
  options.optimizer.clip_grad = 0.5F;
  options.loss_scale = LossScaleOptions{.window = 3};
  return options;
}

TEST(Fp16OnAGpu, SkipsTheStepsThatTheCpuSkips) {
  TrainerOnDevice gpu(fp16_options()), cpu(fp16_options(), create_cpu_backend());
  const std::vector<StepResult> a = run_steps(gpu, 0, kFp16Steps),
                                b = run_steps(cpu, 0, kFp16Steps);
  int num_skipped = 0, num_growths = 0, num_late_skips = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].outcome.skipped, b[i].outcome.skipped) << "step " << i;
    EXPECT_EQ(a[i].outcome.loss_scale, b[i].outcome.loss_scale) << "step " << i;
    EXPECT_NEAR(a[i].loss, b[i].loss, 5e-3 * b[i].loss) << "step " << i;
    if (!b[i].outcome.skipped) {
      EXPECT_NEAR(a[i].grad_norm, b[i].grad_norm, 2e-2 * b[i].grad_norm) << "step " << i;
    }
    num_skipped += a[i].outcome.skipped ? 1 : 0;
    num_late_skips += a[i].outcome.skipped && num_growths > 0 ? 1 : 0;
    if (i > 0) num_growths += a[i].outcome.loss_scale > a[i - 1].outcome.loss_scale ? 1 : 0;
  }
  EXPECT_GT(num_skipped, 5);
  EXPECT_GT(num_growths, 1);
  EXPECT_GT(num_late_skips, 0);
  EXPECT_LT(a.back().loss, 0.95 * a.front().loss) << "it learns";
}

TEST(Fp16OnAGpu, RepeatsItsBitsAlsoFromAStateInTheMiddle) {
  TrainerOnDevice whole(fp16_options());
  const std::vector<StepResult> expected = run_steps(whole, 0, kFp16Steps);
  for (const uint64_t stop : {uint64_t{0}, uint64_t{6}, uint64_t{25}}) {
    TrainerOnDevice first(fp16_options()), second(fp16_options());
    run_steps(first, 0, stop);
    const std::vector<StateTensor> from = first->state_tensors(true);
    const std::vector<StateTensor> to = second->state_tensors(true);
    ASSERT_EQ(from.size(), to.size());
    for (size_t i = 0; i < from.size(); ++i) {
      std::vector<char> bytes(static_cast<size_t>(from[i].tensor.num_bytes()));
      first.backend->copy(bytes.data(), from[i].tensor.data(), from[i].tensor.num_bytes(),
                          Stream::kCompute);
      first.backend->synchronize();
      second.backend->copy(to[i].tensor.data(), bytes.data(), to[i].tensor.num_bytes(),
                           Stream::kCompute);
      second.backend->synchronize();
    }
    second->set_scalar_state(first->scalar_state());
    second->parameters_loaded();
    const std::vector<StepResult> got = run_steps(second, stop, kFp16Steps);
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].loss, expected[stop + i].loss) << stop << " + " << i;
      EXPECT_EQ(got[i].outcome.loss_scale, expected[stop + i].outcome.loss_scale);
    }
    EXPECT_EQ(state_of(second), state_of(whole)) << stop;
  }
}

}  // namespace
}  // namespace weft
