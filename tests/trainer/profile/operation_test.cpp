// The work of operations follows from their shapes.
#include "trainer/profile/operation.h"

#include <gtest/gtest.h>

#include "kernels/operations/operations.h"

namespace weft {
namespace {

char memory[2];  // no operation runs: tensors only must not be empty

Tensor bf16(std::initializer_list<int64_t> shape) { return {memory, DType::kBFloat16, shape}; }
Tensor fp32(std::initializer_list<int64_t> shape) { return {memory, DType::kFloat32, shape}; }

TEST(Operation, LinearLayersHaveTheFlopsOfTheirProductInEveryDirection) {
  const Tensor inp = bf16({2, 8, 3}), out = bf16({2, 8, 5}), weight = bf16({5, 3});
  const double flops = 2.0 * 16 * 5 * 3, moved = 2.0 * (16 * 3 + 16 * 5 + 5 * 3);
  const Operation forward =
      operation_of(LinearForward{.out = out, .inp = inp, .weight = weight, .bias = bf16({5})});
  EXPECT_EQ(to_string(forward), "linear_forward N=16 O=5 I=3 bf16");
  EXPECT_EQ(forward.flops, flops);
  EXPECT_EQ(forward.bytes, moved + 2 * 5) << "the bias, too";
  EXPECT_EQ(operation_of(LinearForward{.out = out, .inp = inp, .weight = weight}).bytes, moved);
  const Operation gelu = operation_of(ActivationForward{.out = out, .pre = out});
  EXPECT_EQ(to_string(gelu), "gelu_forward N=16 F=5 bf16");
  EXPECT_EQ(gelu.bytes, 2 * 2 * 16 * 5) << "one read, one write";
  const Operation dinp =
      operation_of(LinearBackwardInput{.dinp = inp, .dout = out, .weight = weight});
  EXPECT_EQ(to_string(dinp), "linear_backward_input N=16 O=5 I=3 bf16");
  EXPECT_EQ(dinp.flops, flops);
  EXPECT_EQ(dinp.bytes, moved);
  EXPECT_EQ(
      operation_of(LinearActivationBackwardInput{
                       .dpre = inp, .dout = out, .weight = weight, .pre = inp, .accumulate = true})
          .bytes,
      moved + 2 * 16 * 3);
  const double gradient = 4.0 * (5 * 3 + 5), read = 2.0 * (16 * 3 + 16 * 5);
  const Operation assigned = operation_of(LinearBackwardWeight{
      .dweight = fp32({5, 3}), .dbias = fp32({5}), .dout = out, .inp = inp, .accumulate = false});
  const Operation added = operation_of(LinearBackwardWeight{
      .dweight = fp32({5, 3}), .dbias = fp32({5}), .dout = out, .inp = inp, .accumulate = true});
  EXPECT_EQ(to_string(added), "linear_backward_weight N=16 O=5 I=3 bf16");
  EXPECT_EQ(added.flops, flops);
  EXPECT_EQ(assigned.bytes, read + gradient);
  EXPECT_EQ(added.bytes, read + 2 * gradient);
  EXPECT_TRUE(is_same_kind(assigned, added));
  EXPECT_FALSE(is_same_kind(assigned, dinp));
}

TEST(Operation, AttentionCountsTheCausalHalfWithTwoProductsForwardAndFiveBackward) {
  const int64_t B = 2, T = 8, H = 3, D = 4;
  const Tensor qkv = bf16({B, T, H, 3, D}), att = bf16({B, T, H, D}), lse = fp32({B, H, T});
  const Operation forward = operation_of(AttentionForward{.out = att, .lse = lse, .qkv = qkv});
  EXPECT_EQ(to_string(forward), "attention_forward B=2 T=8 H=3 D=4 bf16");
  // Both products have B H T T D multiplications, of which half is masked.
  EXPECT_EQ(forward.flops, 2 * (2.0 * B * H * T * T * D / 2));
  EXPECT_EQ(forward.bytes, 2.0 * (3 + 1) * B * T * H * D + 4.0 * B * H * T);
  const Operation backward =
      operation_of(AttentionBackward{.dqkv = qkv, .dout = att, .out = att, .lse = lse, .qkv = qkv});
  EXPECT_EQ(backward.flops, 2.5 * forward.flops);
  EXPECT_EQ(backward.bytes, 2.0 * (3 + 3 + 1 + 1) * B * T * H * D + 4.0 * B * H * T);
  AttentionBackward with_bias{.dqkv = qkv, .dout = att, .out = att, .lse = lse, .qkv = qkv};
  with_bias.dqkv_bias = fp32({3 * H * D});
  EXPECT_EQ(operation_of(with_bias).bytes, backward.bytes + 2 * 4 * 3 * H * D);
}

TEST(Operation, ElementwiseOperationsMoveEachTensorOnce) {
  const Tensor rows = bf16({16, 32}), per_row = fp32({16}), weight = bf16({32});
  const Operation norm = operation_of(ResidualNormForward{.normed = rows,
                                                          .residual_out = rows,
                                                          .mean = per_row,
                                                          .rstd = per_row,
                                                          .residual = rows,
                                                          .branch = rows,
                                                          .branch_bias = weight,
                                                          .weight = weight,
                                                          .bias = weight});
  EXPECT_EQ(to_string(norm), "residual_norm_forward N=16 C=32 bf16");
  EXPECT_EQ(norm.flops, 0);
  EXPECT_EQ(norm.bytes, 4 * 2.0 * 16 * 32 + 2 * 4.0 * 16 + 3 * 2.0 * 32);
  EXPECT_EQ(operation_of(ResidualNormForward{.normed = rows, .branch = rows}).bytes, 4.0 * 16 * 32);
  // The first layer adds 8 positions of a table of 64.
  EXPECT_EQ(
      operation_of(
          ResidualNormForward{
              .normed = rows, .branch = rows, .branch_bias = bf16({64, 32}), .bias_period = 8})
          .bytes,
      4.0 * 16 * 32 + 2.0 * 8 * 32);

  // A norm in fp8 beside its output in bf16, or in place of it.
  const Tensor fp8(memory, DType::kFloat8E4M3, {16, 32}), turned(memory, fp8.dtype(), {32, 16});
  const double beside_bf16 =
      operation_of(
          ResidualNormForward{.normed = rows, .normed_fp8 = {.rows = fp8}, .residual = rows})
          .bytes;
  EXPECT_EQ(beside_bf16, (2 + 1 + 2) * 16.0 * 32);
  EXPECT_EQ(operation_of(ResidualNormForward{.normed_fp8 = {.rows = fp8}, .residual = rows}).bytes,
            (1 + 2) * 16.0 * 32);
  EXPECT_EQ(to_string(operation_of(TransposeFp8{.transposed = turned, .rows = fp8})),
            "transpose_fp8 N=16 C=32 e4m3");
  EXPECT_EQ(operation_of(TransposeFp8{.transposed = turned, .rows = fp8}).bytes, 2.0 * 16 * 32);

  // An fp32 stream beside branches and norms of bf16.
  const Tensor wide = fp32({16, 32});
  const Operation beside = operation_of(
      ResidualNormForward{.normed = rows, .residual_out = wide, .residual = wide, .branch = rows});
  EXPECT_EQ(to_string(beside), "residual_norm_forward N=16 C=32 fp32");
  EXPECT_EQ(beside.bytes, 2 * 6.0 * 16 * 32);
  EXPECT_EQ(to_string(operation_of(ResidualNormForward{.residual_out = wide, .branch = rows})),
            to_string(beside));
  EXPECT_EQ(operation_of(ResidualNormBackward{.dresidual = wide,
                                              .dbranch = rows,
                                              .dnormed = rows,
                                              .dresidual_in = wide,
                                              .residual = wide})
                .bytes,
            (3 * 4.0 + 2 * 2.0) * 16 * 32);

  ResidualNormBackward back{.dresidual = rows, .dnormed = rows, .residual = rows};
  back.dweight = back.dbias = fp32({32});
  back.accumulate = false;
  EXPECT_EQ(operation_of(back).bytes, 3 * 2.0 * 16 * 32 + 2 * 4.0 * 32);
  back.accumulate = true;
  EXPECT_EQ(operation_of(back).bytes, 3 * 2.0 * 16 * 32 + 4 * 4.0 * 32);
  back.dbranch_bias = fp32({64, 32});
  back.bias_period = 8;
  EXPECT_EQ(operation_of(back).bytes, 3 * 2.0 * 16 * 32 + 4 * 4.0 * 32 + 2 * 4.0 * 64 * 32);

  const Tensor logits = bf16({16, 64});
  EXPECT_EQ(operation_of(CrossEntropy{.logits = logits, .writes_gradient = true}).bytes,
            2 * 2.0 * 16 * 64);
  EXPECT_EQ(operation_of(CrossEntropy{.logits = logits}).bytes, 2.0 * 16 * 64);

  const Tensor tokens(memory, DType::kInt32, {2, 8});
  EXPECT_EQ(operation_of(EmbeddingForward{.out = bf16({2, 8, 32}), .tokens = tokens}).bytes,
            2 * 2.0 * 16 * 32 + 64);
  // 16 tokens touch at most 10 rows of a vocabulary of 10 words.
  EXPECT_EQ(operation_of(EmbeddingBackward{
                             .dword = fp32({10, 32}), .dout = bf16({2, 8, 32}), .tokens = tokens})
                .bytes,
            2.0 * 16 * 32 + 64 + 2 * 4.0 * 10 * 32);
}

TEST(Operation, WhatLlamasLayersAddMovesEachTensorOnce) {
  const Tensor wide = bf16({16, 64}), narrow = bf16({16, 32});
  const Operation glu = operation_of(GluForward{.out = narrow, .pre = wide});
  EXPECT_EQ(to_string(glu), "glu_forward N=16 F=32 bf16");
  EXPECT_EQ(glu.bytes, 3 * 2.0 * 16 * 32);
  EXPECT_EQ(operation_of(GluBackward{.dpre = wide, .dout = narrow, .pre = wide}).bytes,
            5 * 2.0 * 16 * 32);
  // 2 samples of 8 tokens, 3 groups of 2 queries, a key and a value of 16; half of a head turns.
  const Tensor grouped = bf16({2, 8, 3, 4, 16});
  const Operation rotate = operation_of(Rotary{.qkv = grouped, .angles = fp32({32, 2, 4})});
  EXPECT_EQ(to_string(rotate), "rotate heads=144 elements=8 bf16");
  EXPECT_EQ(rotate.bytes, 2 * 2.0 * 144 * 8 + 4.0 * 8 * 8);
  // Attention reads each key once, whatever number of queries shares it.
  const Tensor att = bf16({2, 8, 6, 16}), lse = fp32({2, 6, 8});
  const Operation attention =
      operation_of(AttentionForward{.out = att, .lse = lse, .qkv = grouped});
  EXPECT_EQ(to_string(attention), "attention_forward B=2 T=8 H=6 D=16 bf16");
  EXPECT_EQ(attention.bytes, 2.0 * 16 * (12 + 6) * 16 + 4.0 * 2 * 6 * 8);
}

TEST(Operation, AdamWMovesThirtyBytesOfABf16ParameterAndTwentyEightOfAnFp32One) {
  char master[1], param[1], remainder[1];
  const int64_t n = 2048;
  AdamW args;
  args.master = Tensor(master, DType::kFloat32, {n});
  args.m = args.v = args.grad = fp32({n});
  args.param = Tensor(param, DType::kFloat16, {n});
  EXPECT_EQ(operation_of(args).bytes, 30.0 * n);
  args.param = args.master;
  EXPECT_EQ(operation_of(args).bytes, 28.0 * n);
  EXPECT_EQ(to_string(operation_of(args)), "adamw n=2048 fp32");
  args.master = {};
  args.remainder = Tensor(remainder, DType::kUInt8, {n * 17 / 8});
  args.param = Tensor(param, DType::kBFloat16, {n});
  EXPECT_EQ(operation_of(args).bytes, 28.25 * n);
}

TEST(Operation, NewScalesOfFp8ReadTheHistoryOnlyForItsMaximum) {
  UpdateFp8Scaling args{.states = fp32({12, 20}), .history_len = 16, .amaxes = fp32({12})};
  EXPECT_EQ(to_string(operation_of(args)), "update_fp8_scaling n=12 history=16 fp32");
  EXPECT_EQ(operation_of(args).bytes, 4.0 * 12 * 5);
  args.uses_maximum = true;
  EXPECT_EQ(operation_of(args).bytes, 4.0 * 12 * (5 + 16));
}

TEST(Operation, CollectivesCountWhatCrossesALinkOfARing) {
  const Tensor whole = fp32({1 << 20});
  const Operation reduce = all_reduce_operation("data", whole, 4);
  EXPECT_TRUE(reduce.is_collective());
  EXPECT_EQ(to_string(reduce), "all_reduce 4.0 MiB over 4 data ranks");
  EXPECT_EQ(to_string(all_reduce_operation("model", fp32({1}), 4)),
            "all_reduce 4 bytes over 4 model ranks");
  EXPECT_EQ(reduce.bytes, 2 * 0.75 * 4 * (1 << 20));
  EXPECT_EQ(reduce_scatter_operation("data", whole, 4).bytes, 0.75 * 4 * (1 << 20));
  EXPECT_EQ(all_gather_operation("data", whole, 4).bytes, 0.75 * 4 * (1 << 20));
  EXPECT_FALSE(is_same_kind(reduce, all_reduce_operation("tensor", whole, 4)));
}

}  // namespace
}  // namespace weft
