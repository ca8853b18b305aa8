// The residual stream: a branch's bias, its dropout, the sum, and the LayerNorm or RMSNorm after
// it.
//
// Forward reads its inputs once and writes its outputs once: the row stays in registers, in its
// storage type, between the mean, the variance around that mean, and the result. A row of up to 256
// 16-byte vectors of the stream belongs to a warp, so that it needs no barrier. A longer one
// belongs to a block with few vectors per thread.
#include "kernels/cuda/device/context.h"
#include "kernels/cuda/memory_bound/fp8.cuh"
#include "kernels/cuda/residual_norm/residual_norm.cuh"
#include "kernels/operations/residual_norm.h"

namespace weft::cuda {
namespace {

constexpr int kWarpRowThreads = 256;  // 8 rows a block

struct ForwardArgs {
  void *normed, *residual_out;
  float *mean, *rstd;
  const void *residual, *branch, *branch_bias, *weight, *bias;
  int64_t N, C, bias_period, first_row;
  float weight_offset, epsilon;
  DropoutMask mask;
  const int32_t* document_bounds;
  uint8_t* fp8_rows;  // null where the output is not stored in fp8
  const float* fp8_scaling;
  unsigned* amax;
};

ForwardArgs device_args(const ResidualNormForward& args) {
  const Tensor& rows = args.branch ? args.branch : args.residual;
  return {args.normed.data(),
          args.residual_out.data(),
          args.mean.as<float>(),
          args.rstd.as<float>(),
          args.residual.data(),
          args.branch.data(),
          args.branch_bias.data(),
          args.weight.data(),
          args.bias.data(),
          num_rows(rows),
          num_columns(rows),
          args.bias_period,
          args.first_row,
          args.weight_offset,
          args.epsilon,
          make_mask(args.dropout),
          args.document_bounds.as<const int32_t>(),
          args.normed_fp8.rows.as<uint8_t>(),
          args.normed_fp8.scaling.as<const float>(),
          args.normed_fp8.amax.as<unsigned>()};
}

// Returns the row of branch_bias for a row of the branch.
__device__ inline int64_t bias_row(const ForwardArgs& args, int64_t row) {
  const int64_t position = (args.first_row + row) % args.bias_period;
  if (args.document_bounds == nullptr) return position;
  return position - args.document_bounds[2 * (args.first_row + row)];
}

// Adds the branch to x, the residual's vectors of a row (zeros where there is none), and stores the
// sum.
template <typename R, typename X, int kVecs>
__device__ inline void add_branch(Vec<R> (&x)[kVecs], const ForwardArgs& args, int64_t row,
                                  int lane, int group) {
  constexpr int kSize = Vec<R>::kSize;
  const int num_vecs = static_cast<int>(args.C / kSize);
  const int64_t first = row * args.C;
  VecBeside<R, X> branch[kVecs];
#pragma unroll
  for (int i = 0; i < kVecs; ++i) {
    const int vec = lane + i * group;
    if (vec < num_vecs)
      branch[i] = load_vec<Vec<R>::kSize>(static_cast<const X*>(args.branch) + first + vec * kSize);
  }
  const X* bias = static_cast<const X*>(args.branch_bias);
  if (bias != nullptr && args.bias_period > 1) bias += bias_row(args, row) * args.C;
#pragma unroll
  for (int i = 0; i < kVecs; ++i) {
    const int vec = lane + i * group;
    if (vec >= num_vecs) continue;
    float sum[kSize], added[kSize];
    unpack(x[i], sum);
    unpack(branch[i], added);
    if (bias != nullptr) {
      float values[kSize];
      unpack(load_vec<Vec<R>::kSize>(bias + vec * kSize), values);
#pragma unroll
      for (int j = 0; j < kSize; ++j) added[j] += values[j];
    }
    if (args.mask.threshold != 0) apply_mask(args.mask, first + vec * kSize, added);
#pragma unroll
    for (int j = 0; j < kSize; ++j) sum[j] += added[j];
    x[i] = pack<R>(sum);
    store_vec(static_cast<R*>(args.residual_out) + first + vec * kSize, x[i]);
  }
}

template <bool kWarpPerRow, int kCount>
__device__ inline void row_sum(float (&values)[kCount]) {
  if constexpr (kWarpPerRow) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) values[i] = warp_sum(values[i]);
  } else {
    block_sum(values);
  }
}

// Rounds a vector of the output to fp8, and returns its largest magnitude as bits.
template <typename V>
__device__ inline unsigned store_fp8(uint8_t* rows, const V& normed, float scale) {
  constexpr int kSize = sizeof(V) / sizeof(bf16);
  const auto* pairs = reinterpret_cast<const unsigned*>(&normed);
  unsigned largest_pair = 0;
#pragma unroll
  for (int i = 0; i < kSize / 2; ++i) largest_pair = __vmaxu2(largest_pair, pairs[i] & 0x7fff7fffu);
  const unsigned largest = max(largest_pair << 16, largest_pair & 0xffff0000u);
  float values[kSize];
  unpack(normed, values);
  if (largest >= 0x7f800000u) infinite_to_nan(values);
  if constexpr (kSize == 8) {
    *reinterpret_cast<uint2*>(rows) = round_8<__NV_E4M3>(values, scale);
  } else {
    *reinterpret_cast<unsigned*>(rows) = round_4<__NV_E4M3>(values, scale);
  }
  return largest;
}

// kRms: the norm takes no mean and has no bias.
template <typename R, typename X, int kVecs, bool kWarpPerRow, bool kBranch, bool kRms>
__global__ void residual_norm_forward_kernel(ForwardArgs args) {
  constexpr int kSize = Vec<R>::kSize;
  const int lane = kWarpPerRow ? threadIdx.x % 32 : threadIdx.x;
  const int group = kWarpPerRow ? 32 : blockDim.x;
  const int64_t row =
      kWarpPerRow ? blockIdx.x * (kWarpRowThreads / 32LL) + threadIdx.x / 32 : blockIdx.x;
  if (row >= args.N) return;  // a whole warp, and never a part of a block that shares a row
  const int num_vecs = static_cast<int>(args.C / kSize);
  const int64_t first = row * args.C;

  Vec<R> x[kVecs] = {};
  if (args.residual != nullptr) {
#pragma unroll
    for (int i = 0; i < kVecs; ++i) {
      const int vec = lane + i * group;
      if (vec < num_vecs)
        x[i] = load_vec(static_cast<const R*>(args.residual) + first + vec * kSize);
    }
  }
  if constexpr (kBranch) {
    add_branch<R, X, kVecs>(x, args, row, lane, group);
    if (args.weight == nullptr) return;
  }

  float total[1] = {}, mean = 0.0F;
  if constexpr (!kRms) {
#pragma unroll
    for (int i = 0; i < kVecs; ++i) {
      if (lane + i * group >= num_vecs) continue;
      float values[kSize];
      unpack(x[i], values);
#pragma unroll
      for (int j = 0; j < kSize; ++j) total[0] += values[j];
    }
    row_sum<kWarpPerRow>(total);
    mean = total[0] / args.C;
    total[0] = 0.0F;
  }
#pragma unroll
  for (int i = 0; i < kVecs; ++i) {
    if (lane + i * group >= num_vecs) continue;
    float values[kSize];
    unpack(x[i], values);
#pragma unroll
    for (int j = 0; j < kSize; ++j) total[0] += (values[j] - mean) * (values[j] - mean);
  }
  row_sum<kWarpPerRow>(total);
  const float rstd = 1.0F / sqrtf(total[0] / args.C + args.epsilon);
  if (lane == 0) {
    if constexpr (!kRms) args.mean[row] = mean;
    args.rstd[row] = rstd;
  }
  [[maybe_unused]] float scale = 0.0F;
  [[maybe_unused]] unsigned largest = 0;
  if constexpr (std::is_same_v<X, bf16>) {
    if (args.fp8_rows != nullptr) scale = args.fp8_scaling[1];
  }
#pragma unroll
  for (int i = 0; i < kVecs; ++i) {
    const int vec = lane + i * group;
    if (vec >= num_vecs) continue;
    float values[kSize], weight[kSize], bias[kSize] = {};
    unpack(x[i], values);
    unpack(load_vec<Vec<R>::kSize>(static_cast<const X*>(args.weight) + vec * kSize), weight);
    if constexpr (!kRms)
      unpack(load_vec<Vec<R>::kSize>(static_cast<const X*>(args.bias) + vec * kSize), bias);
#pragma unroll
    for (int j = 0; j < kSize; ++j)
      values[j] = (values[j] - mean) * rstd * (weight[j] + args.weight_offset) + bias[j];
    const VecBeside<R, X> normed = pack<X>(values);
    if constexpr (std::is_same_v<X, bf16>) {
      if (args.fp8_rows != nullptr)
        largest = max(largest, store_fp8(args.fp8_rows + first + vec * kSize, normed, scale));
      if (args.normed == nullptr) continue;
    }
    store_vec(static_cast<X*>(args.normed) + first + vec * kSize, normed);
  }
  if constexpr (std::is_same_v<X, bf16>) {
    if (args.amax != nullptr) raise_amax_of_warp(args.amax, largest);
  }
}

template <typename R, typename X, int kVecs, bool kWarpPerRow, bool kRms>
void launch_norm(cudaStream_t stream, const ForwardArgs& args) {
  const int num_vecs = static_cast<int>(args.C / Vec<R>::kSize);
  const int threads = kWarpPerRow ? kWarpRowThreads
                                  : static_cast<int>(ceil_div(ceil_div(num_vecs, kVecs), 32) * 32);
  const unsigned blocks = grid_size(kWarpPerRow ? ceil_div(args.N, threads / 32) : args.N);
  if (args.branch != nullptr) {
    residual_norm_forward_kernel<R, X, kVecs, kWarpPerRow, true, kRms>
        <<<blocks, threads, 0, stream>>>(args);
  } else {
    residual_norm_forward_kernel<R, X, kVecs, kWarpPerRow, false, kRms>
        <<<blocks, threads, 0, stream>>>(args);
  }
}

template <typename R, typename X, int kVecs, bool kWarpPerRow>
void launch_forward(cudaStream_t stream, const ForwardArgs& args) {
  const bool is_rms = args.weight != nullptr && args.bias == nullptr;
  if (is_rms) return launch_norm<R, X, kVecs, kWarpPerRow, true>(stream, args);
  launch_norm<R, X, kVecs, kWarpPerRow, false>(stream, args);
}

template <typename R, typename X>
void choose_forward(cudaStream_t stream, const ForwardArgs& args) {
  const int64_t num_vecs = args.C / Vec<R>::kSize;
  if (num_vecs <= 64) return launch_forward<R, X, 2, true>(stream, args);
  if (num_vecs <= 96) return launch_forward<R, X, 3, true>(stream, args);
  if (num_vecs <= 128) return launch_forward<R, X, 4, true>(stream, args);
  if (num_vecs <= 256) return launch_forward<R, X, 8, true>(stream, args);
  if (num_vecs <= 2048) return launch_forward<R, X, 2, false>(stream, args);
  if (num_vecs <= 8192) return launch_forward<R, X, 8, false>(stream, args);
  throw std::invalid_argument("the norm on CUDA: a row of " + std::to_string(args.C) +
                              " elements is longer than 128 KiB");
}

}  // namespace

void run(const Context& context, const ResidualNormForward& op) {
  constexpr const char* kName = "residual_norm_forward";
  require_multiple(kName, "the hidden size", num_columns(op.branch ? op.branch : op.residual), 8);
  require_aligned(kName, {op.normed, op.normed_fp8.rows, op.residual_out, op.residual, op.branch,
                          op.branch_bias, op.weight, op.bias});
  const ForwardArgs on_device = device_args(op);
  const DType r = (op.branch ? op.residual_out : op.residual).dtype();
  const DType x = (op.branch ? op.branch : op.weight).dtype();
  if (op.normed_fp8.rows && x != DType::kBFloat16)
    throw std::invalid_argument("the norm on CUDA: an output in fp8 is that of a bf16 model");
  dispatch_stream(r, x, [&](auto of_stream, auto of_model) {
    choose_forward<decltype(of_stream), decltype(of_model)>(context.stream, on_device);
  });
  CUDA_CHECK(cudaGetLastError());
}

}  // namespace weft::cuda
