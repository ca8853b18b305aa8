// Recomputation changes memory and time, and no bit of losses, gradients and weights.
#include <gtest/gtest.h>

#include "tests/trainer/step/parallel_training.h"

namespace weft {
namespace {

using Method = RecomputeOptions::Method;

// Trains with everything kept, then with each option, and compares all bits.
void expect_same_bits(Variant variant) {
  variant.recompute = {};
  SCOPED_TRACE(variant.name());
  const Outcome kept = train(variant, 2);
  for (const RecomputeOptions& recompute :
       {RecomputeOptions{Method::kUniform, 1}, RecomputeOptions{Method::kUniform, 2},
        RecomputeOptions{Method::kUniform, 3}, RecomputeOptions{Method::kBlock, 1},
        RecomputeOptions{Method::kBlock, 2}, RecomputeOptions{.norms = true},
        RecomputeOptions{.activation = true}, RecomputeOptions{.norms = true, .activation = true},
        RecomputeOptions{.mlp = true}, RecomputeOptions{.norms = true, .mlp = true}}) {
    variant.recompute = recompute;
    SCOPED_TRACE(name_of(variant.recompute));
    const Outcome recomputed = train(variant, 2);
    EXPECT_EQ(recomputed.first_loss, kept.first_loss);
    EXPECT_EQ(recomputed.gradients, kept.gradients);
    EXPECT_EQ(recomputed.evaluation, kept.evaluation);
    expect_equal(recomputed, kept);
  }
}

TEST(Recompute, HasTheBitsOfKeepingEverything) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const float dropout : {0.0F, 0.2F})
      expect_same_bits({.dtype = dtype, .dropout = dropout, .num_layers = 3});
  }
}

TEST(Recompute, HasTheBitsOfKeepingEverythingInFp16AndWithGatedUnits) {
  expect_same_bits({.dtype = DType::kFloat16, .num_layers = 3});
  expect_same_bits({.dtype = DType::kBFloat16, .num_layers = 3, .glu = Glu::kSwiglu});
}

TEST(Recompute, HasTheBitsOfKeepingEverythingWithAnFp32ResidualStream) {
  for (const float dropout : {0.0F, 0.2F}) {
    expect_same_bits({.dtype = DType::kBFloat16,
                      .has_fp32_residual = true,
                      .dropout = dropout,
                      .num_layers = 3});
  }
  expect_same_bits({.topology = {.tp_size = 2,
                                 .pp_size = 2,
                                 .dp_size = 2,
                                 .sequence_parallel = true,
                                 .stage_layers = {1, 3}},
                    .dtype = DType::kFloat16,
                    .has_fp32_residual = true,
                    .num_layers = 4,
                    .has_embedding_norm = true,
                    .uses_rms_norm = true,
                    .has_qk_norm = true,
                    .loss_scale = LossScaleOptions{.constant = 256}});
}

// Forward quantizes inputs by rows and transposed at once where everything is kept; with norms and
// the activation recomputed each input is quantized in forward and again in backward.
TEST(Recompute, HasTheBitsOfKeepingEverythingInFp8) {
  for (const Glu glu : {Glu::kNone, Glu::kSwiglu}) {
    for (const bool is_delayed : {true, false}) {
      expect_same_bits({.dtype = DType::kBFloat16,
                        .num_layers = 3,
                        .glu = glu,
                        .fp8 = Fp8Options{.is_delayed = is_delayed}});
    }
  }
  expect_same_bits({.dtype = DType::kBFloat16,
                    .num_layers = 3,
                    .glu = Glu::kSwiglu,
                    .fp8 = Fp8Options{.has_weight_gradients = false}});
  expect_same_bits({.dtype = DType::kBFloat16,
                    .num_layers = 3,
                    .activation = Activation::kSquaredRelu,
                    .has_qk_norm = true,
                    .stores_norms_less_one = true,
                    .fp8 = Fp8Options{}});
}

// The copies belong to micro-batches, of which several are under way. A scale of the tensor itself
// differs between them. With four tensor-parallel ranks a layer has no gradient as wide as a
// LayerNorm.
TEST(Recompute, HasTheSameBitsInFp8OverRanks) {
  for (const Topology& topology :
       {Topology{.tp_size = 2, .sequence_parallel = true},
        Topology{.pp_size = 2, .stage_layers = {2, 1}},
        Topology{.tp_size = 2, .pp_size = 2, .num_chunks = 2, .stage_layers = {1, 1, 2, 1}}}) {
    expect_same_bits({.topology = topology,
                      .dtype = DType::kBFloat16,
                      .num_layers = topology.num_chunks > 1 ? 5 : 3,
                      .fp8 = Fp8Options{.is_delayed = false}});
  }
  expect_same_bits(
      {.topology = {.tp_size = 4}, .dtype = DType::kBFloat16, .head_size = 8, .fp8 = Fp8Options{}});
}

TEST(Recompute, HasTheSameBitsOverTensorParallelRanks) {
  for (const bool sequence_parallel : {false, true}) {
    for (const float dropout : {0.0F, 0.2F}) {
      expect_same_bits({.topology = {.tp_size = 2, .sequence_parallel = sequence_parallel},
                        .dropout = dropout,
                        .num_layers = 3});
    }
  }
}

// Stages keep the inputs of several micro-batches, and share what they recompute. The last stage of
// the second pipeline has three layers, its first one none.
TEST(Recompute, HasTheSameBitsOverPipelineStages) {
  expect_same_bits({.topology = {.pp_size = 2, .stage_layers = {3, 2}}, .num_layers = 5});
  expect_same_bits({.topology = {.pp_size = 3, .stage_layers = {0, 1, 3}},
                    .dtype = DType::kBFloat16,
                    .dropout = 0,
                    .num_layers = 4});
}

TEST(Recompute, HasTheSameBitsWhereEverythingMeets) {
  expect_same_bits({.topology = {.tp_size = 2,
                                 .pp_size = 2,
                                 .dp_size = 2,
                                 .sequence_parallel = true,
                                 .stage_layers = {1, 3}},
                    .micro_batch_size = 2,
                    .shards_optimizer = true,
                    .bucket_elements = 4096,
                    .dtype = DType::kBFloat16,
                    .num_layers = 4,
                    .activation = Activation::kGeluErf,
                    .has_embedding_norm = true,
                    .has_biases = false,
                    .documents = true,
                    .planned_length = 24});
}

}  // namespace
}  // namespace weft
