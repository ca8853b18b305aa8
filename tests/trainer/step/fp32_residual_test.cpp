// --fp32-residual-connection: models of 16 bits whose residual stream is fp32 come closer to the fp32 model, and
// are cut among ranks without loss.
#include <gtest/gtest.h>

#include "tests/trainer/step/parallel_training.h"

namespace weft {
namespace {

constexpr uint64_t kSteps = 30;

struct Shape {
  const char* name;
  void (*change)(ModelShape&);
};
void PrintTo(const Shape& shape, std::ostream* out) {  // NOLINT(readability-identifier-naming)
  *out << shape.name;
}

// Every layer's sums are rounded where the stream has 16 bits, so there are many.
TrainerOptions deep_options(const Shape& shape, DType dtype, bool has_fp32_residual) {
  TrainerOptions options = small_options();
  options.shape.num_layers = 12;
  options.shape.dtype = dtype;
  options.shape.has_fp32_residual = has_fp32_residual;
  options.shape.hidden_dropout = options.shape.attention_dropout = 0.1F;
  if (dtype == DType::kFloat16) options.loss_scale = LossScaleOptions{.constant = 256};
  shape.change(options.shape);
  return options;
}

std::vector<float> all_gradients(TrainerOnDevice& model) {
  const HostBatch batch(model->shape(), 4);
  const auto scale = static_cast<float>(model->loss_scale());
  model->forward_backward(batch.view());
  std::vector<float> all;
  for (const Parameter& p : model->parameters().all()) {
    for (const float value : to_host(*model.backend, model->gradient(p)))
      all.push_back(value / scale);
  }
  return all;
}

std::vector<float> losses_of(TrainerOnDevice& model) {
  std::vector<float> losses;
  for (uint64_t step = 0; step < kSteps; ++step) {
    const HostBatch batch(model->shape(), 4, step % 4);
    model->step(batch.view(), {.learning_rate = 1e-3});
    losses.push_back(static_cast<float>(model->result().loss));
  }
  return losses;
}

class Fp32Residual : public testing::TestWithParam<Shape> {};

// Other decisions of dropout would be differences, too.
TEST_P(Fp32Residual, ComesCloserToTheFp32Model) {
  TrainerOnDevice exact(deep_options(GetParam(), DType::kFloat32, false));
  const std::vector<float> gradients = all_gradients(exact), losses = losses_of(exact);
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    TrainerOnDevice rounded(deep_options(GetParam(), dtype, false));
    TrainerOnDevice wide(deep_options(GetParam(), dtype, true));
    const double of_rounded = relative_error(all_gradients(rounded), gradients);
    const double of_wide = relative_error(all_gradients(wide), gradients);
    std::printf("gradients %g %g\n", of_rounded, of_wide);
    const double l_rounded = relative_error(losses_of(rounded), losses);
    const double l_wide = relative_error(losses_of(wide), losses);
    std::printf("losses %g %g\n", l_rounded, l_wide);
  }
}

// Products in fp8 read norms and gradients of branches, which keep the model's type.
TEST(Fp32ResidualWithFp8, TrainsNearBf16) {
  const auto options = [](bool has_fp8) {
    TrainerOptions of_model = small_options();
    of_model.shape.dtype = DType::kBFloat16;
    of_model.shape.has_fp32_residual = true;
    of_model.shape.num_heads = 4;
    of_model.shape.head_size = 8;
    of_model.shape.hidden_dropout = 0;
    if (has_fp8) of_model.shape.fp8 = Fp8Options{};
    return of_model;
  };
  TrainerOnDevice fp8(options(true)), bf16(options(false));
  const std::vector<float> got = losses_of(fp8), wanted = losses_of(bf16);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 2e-2 * wanted[i]) << i;
  EXPECT_NE(got, wanted);
}

#ifndef WEFT_TEST_CUDA
TEST(Fp32ResidualOverRanks, TrainsTheModelOfOneRank) {
  for (const bool has_embedding_norm : {false, true}) {
    Variant one{.micro_batch_size = 2,
                .dtype = DType::kBFloat16,
                .has_fp32_residual = true,
                .num_layers = 4,
                .has_embedding_norm = has_embedding_norm};
    const Outcome expected = train(one);
    for (const bool sequence_parallel : {false, true}) {
      for (const int num_chunks : {1, 2}) {
        Variant many = one;
        many.topology = {.tp_size = 2,
                         .pp_size = 2,
                         .dp_size = 2,
                         .sequence_parallel = sequence_parallel,
                         .num_chunks = num_chunks};
        many.shards_optimizer = sequence_parallel;
        SCOPED_TRACE(many.name());
        expect_near(train(many), expected, 3e-3);
      }
    }
  }
}

// Stages that rounded what they exchange would have other losses.
TEST(Fp32ResidualOverRanks, StagesExchangeTheStreamWithoutLoss) {
  Variant variant{.dtype = DType::kBFloat16, .has_fp32_residual = true, .num_layers = 4};
  const Outcome one = train(variant);
  variant.topology.pp_size = 4;
  const Outcome stages = train(variant);
  EXPECT_EQ(stages.first_loss, one.first_loss);
  // The tied embedding's gradient alone is summed in another order.
  for (const auto& [name, gradient] : stages.gradients) {
    if (name != "embedding.word_embeddings.weight") {
      EXPECT_EQ(gradient, one.gradients.at(name)) << name;
    }
  }
}
#endif

const Shape kShapes[] = {
    {"gpt", [](ModelShape&) {}},
    {"bloom",
     [](ModelShape& shape) {
       shape.has_embedding_norm = true;
       shape.has_position_table = false;
       shape.has_alibi = true;
     }},
    {"llama",
     [](ModelShape& shape) {
       shape.uses_rms_norm = true;
       shape.has_position_table = false;
       shape.rotary_size = shape.head_size;
       shape.glu = Glu::kSwiglu;
       shape.has_biases = shape.has_qkv_bias = false;
       shape.unties_head = true;
       shape.hidden_dropout = shape.attention_dropout = 0;
     }},
};
INSTANTIATE_TEST_SUITE_P(Of, Fp32Residual, testing::ValuesIn(kShapes),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace weft
