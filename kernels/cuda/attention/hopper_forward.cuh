// Attention forward on Hopper: the algorithm of forward.cuh with TMA copies and wgmma.
//
// A warpgroup owns 64 queries. It queues the scores of a step behind the previous step's P V and
// then waits for both; its softmax overlaps with the products of the multiprocessor's other
// warpgroups.
#pragma once

#include <type_traits>

#include "kernels/cuda/attention/forward.cuh"
#include "kernels/cuda/attention/wgmma.cuh"

namespace weft::cuda::attention {

template <class Shape, bool kDropout, bool kDocuments, bool kAlibi>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kBlocksPerSm)
    attention_forward_hopper_kernel(const Params p, const __grid_constant__ CUtensorMap qkv_map) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  using Element = typename Shape::Element;
  constexpr int D = Shape::D, kStep = Shape::kStep, kN = kStep / 8;
  using StepTile = PanelTile<D, kStep>;
  using Stages = Ring<Shape::kGroups, Shape::kStages>;
  __shared__ __align__(8) uint64_t barriers[Stages::kNumBarriers];
  extern __shared__ uint8_t shared[];
  const int group = warpgroup_index();
  const uint32_t own_base = aligned_shared(shared);
  const uint32_t stage_base = own_base + Shape::kGroups * Shape::kOwnBytes;
  const PanelTile<D, 64> q_tile{own_base + group * Shape::kOwnBytes};
  const auto k_tile = [&](int step) {
    return StepTile{stage_base + Stages::stage(step) * 2 * Shape::kStepBytes};
  };
  const auto v_tile = [&](int step) { return StepTile{k_tile(step).base + Shape::kStepBytes}; };
  const uint32_t mask_base = stage_base + Shape::kStages * 2 * Shape::kStepBytes;
  const auto mask = [&](int step, int of_group) {
    return mask_base + Stages::stage(step) * Shape::kMaskBytes + of_group * kMaskTileBytes;
  };
  const Stages ring{shared_address(barriers)};

  const int num_tiles = (p.T + Shape::kOwned - 1) / Shape::kOwned;
  const BlockPlace place = block_order(p, num_tiles);
  const int b = place.bh / p.H, h = place.bh % p.H;
  const int first_query = (num_tiles - 1 - place.tile) * Shape::kOwned;
  // Steps begin with the first tile of keys that any of the block's queries sees.
  const int skipped = kDocuments ? uniform(first_key_of(p, b, first_query)) / kStep : 0;
  const int num_steps = (min(first_query + Shape::kOwned, p.T) - 1) / kStep + 1 - skipped;
  const auto load_keys = [&](int step) {
    const uint32_t full = ring.full(step);
    expect_bytes(full, 2 * Shape::kStepBytes + (kDropout ? Shape::kMaskBytes : 0));
    k_tile(step).load(qkv_map, 3 * h + 1, (skipped + step) * kStep, b, full);
    v_tile(step).load(qkv_map, 3 * h + 2, (skipped + step) * kStep, b, full);
    for (int g = 0; kDropout && g < Shape::kGroups; ++g)
      load_bytes(mask(step, g), mask_tile(p, place.bh, first_query / kMaskTile + g, skipped + step),
                 kMaskTileBytes, full);
  };
  const auto load_own = [&](uint32_t barrier) {
    expect_bytes(barrier, Shape::kGroups * Shape::kOwnBytes);
    for (int g = 0; g < Shape::kGroups; ++g) {
      PanelTile<D, 64>{own_base + g * Shape::kOwnBytes}.load(qkv_map, 3 * h, first_query + 64 * g,
                                                             b, barrier);
    }
  };
  ring.start(num_steps, load_own, load_keys);

  const int lane = threadIdx.x & 31;
  const int warp_row = threadIdx.x / 32 % 4 * 16;
  const int group_query = first_query + 64 * group;
  const float scale_log2 = p.scale * kLog2E;
  const float slope = slope_of<kAlibi>(p, h, p.scale);
  int first_keys[1][2];
  [[maybe_unused]] int warp_last_begin = 0;  // of the document of the warp's last query
  if constexpr (kDocuments) {
    load_first_keys(first_keys, p, b, group_query + warp_row);
    warp_last_begin = uniform(first_key_of(p, b, group_query + warp_row + 15));
  }
  float acc[1][D / 8][4] = {};
  float row_max[1][2] = {{-INFINITY, -INFINITY}}, row_sum[1][2] = {};
  uint32_t probabilities[1][kN / 2][4];
  // No product may run from one iteration into the next: ptxas would serialise them all.
  const auto iterate = [&](auto is_first, int step) {
    constexpr bool kFirst = decltype(is_first)::value;
    const int first_key = (skipped + step) * kStep;
    float s[1][kN][4];
    ring.wait(step);
    wgmma_fence();
    start_rows_product<Element, D, kStep>(s[0], q_tile, k_tile(step));
    if constexpr (!kFirst)
      start_columns_product<Element, D, kStep>(acc[0], probabilities[0], v_tile(step - 1));
    wgmma_wait<kFirst ? 0 : 1>();
    pin(s[0]);
    float correction[1][2];
    softmax_step<kDocuments, kAlibi>(s, row_max, row_sum, correction, scale_log2,
                                     first_key + kStep > group_query, group_query + warp_row,
                                     first_key, first_keys, first_key < warp_last_begin, slope);
    if constexpr (kDropout)
      drop_rows<kN>(s[0], load_word(mask(step, group) + threadIdx.x % 128 * 4));
    if constexpr (!kFirst) {
      wgmma_wait<0>();
      pin(acc[0]);
      ring.release(step - 1);
#pragma unroll
      for (int n = 0; n < D / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) acc[0][n][i] *= correction[0][i / 2];
      }
    }
    round_to_operand<Element, 1, kN>(probabilities, s);
    ring.refill(step, num_steps, load_keys);
  };

  // The causal mask hides all later steps from the group, and its documents begin behind the
  // earlier ones.
  const int num_active = min(num_steps, (group_query + 63) / kStep + 1 - skipped);
  const int first_active =
      kDocuments ? uniform(first_key_of(p, b, group_query)) / kStep - skipped : 0;
  wait_barrier(ring.own(), 0);
  if constexpr (kDocuments) ring.pass(0, first_active, num_steps, load_keys);
  iterate(std::true_type{}, first_active);
  for (int step = first_active + 1; step < num_active; ++step) iterate(std::false_type{}, step);
  wgmma_fence();
  start_columns_product<Element, D, kStep>(acc[0], probabilities[0], v_tile(num_active - 1));
  wgmma_wait<0>();
  pin(acc[0]);
  ring.release(num_active - 1);
  ring.pass(num_active, num_steps, num_steps, load_keys);
  // After this barrier no thread reads the group's queries; the results take their place.
  sync_warpgroup();

  float inverse[1][2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float sum = row_sum[0][half];
    sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 1);
    sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 2);
    inverse[0][half] = p.dropout.keep_scale / sum;
    const int query = group_query + warp_row + half * 8 + (lane >> 2);
    if ((lane & 3) == 0 && query < p.T) {
      p.lse[static_cast<int64_t>(place.bh) * p.T + query] =
          row_max[0][half] * p.scale + __logf(sum);
    }
  }
  const int head_size = head_size_of<Shape>(p);
  const int64_t out_stride = static_cast<int64_t>(p.H) * head_size;
  Element* out = static_cast<Element*>(p.out) +
                 (static_cast<int64_t>(b) * p.T + group_query) * out_stride +
                 static_cast<int64_t>(h) * head_size;
  store_rows<Shape::kPadded, D, 1>(acc, inverse, Tile<D>{q_tile.base}, warp_row, out, out_stride,
                                   p.T - group_query, head_size);
#endif
}

// Launches nothing and returns false where the kernel cannot run.
template <class Shape, bool kDropout, bool kDocuments, bool kAlibi>
bool launch_forward_hopper(cudaStream_t stream, const Params& p) {
  const auto kernel = attention_forward_hopper_kernel<Shape, kDropout, kDocuments, kAlibi>;
  const void* function = reinterpret_cast<const void*>(kernel);
  static const bool usable = runs_on_hopper(function);
  if (!usable) return false;
  constexpr int kSharedBytes = Shape::shared_bytes(1, kDropout);
  allow_shared_memory(function, kSharedBytes, "attention_forward_hopper_kernel");
  const int num_tiles = (p.T + Shape::kOwned - 1) / Shape::kOwned;
  kernel<<<num_tiles * p.B * p.H, Shape::kThreads, kSharedBytes, stream>>>(
      p, tensor_map(p.qkv, Shape::D, head_size_of<Shape>(p), 3 * p.H, p.T, p.B));
  check_launch("attention_forward_hopper_kernel");
  return true;
}

// The kernels' shapes for each tile.
template <typename Element, int D>
struct ForwardShapes;
template <typename Element>
struct ForwardShapes<Element, 64> {
  using Hopper = HopperShape<Element, 64, 2, 64, 4, 2>;
  using MmaSync = ForwardShape<Element, 64, 2, 4, 64, 2>;
};
template <typename Element>
struct ForwardShapes<Element, 96> {
  using Hopper = HopperShape<Element, 96, 2, 64, 3, 2>;
  using MmaSync = ForwardShape<Element, 96, 2, 4, 64, 2>;
};
template <typename Element>
struct ForwardShapes<Element, 128> {
  using Hopper = HopperShape<Element, 128, 3, 64, 4, 1>;
  using MmaSync = ForwardShape<Element, 128, 2, 4, 32, 2>;
};
template <typename Element>
struct ForwardShapes<Element, 160> {
  using Hopper = HopperShape<Element, 160, 2, 64, 4, 1>;
  using MmaSync = ForwardShape<Element, 160, 1, 4, 32, 2>;
};

template <typename Element, int D, bool kPadded>
void forward_16bit(cudaStream_t stream, const Params& params, bool dropout) {
  using Shapes = ForwardShapes<Element, D>;
  choose_kernel(params, dropout, [&](auto drops, auto documents, auto alibi) {
    using Hopper = PaddedIf<typename Shapes::Hopper, kPadded>;
    using MmaSync = PaddedIf<typename Shapes::MmaSync, kPadded>;
    if (!launch_forward_hopper<Hopper, drops(), documents(), alibi()>(stream, params))
      launch_forward<MmaSync, drops(), documents(), alibi()>(stream, params);
  });
}

}  // namespace weft::cuda::attention
