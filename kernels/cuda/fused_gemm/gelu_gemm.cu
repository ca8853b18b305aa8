#include "kernels/cuda/fused_gemm/gelu_gemm.h"
#include "kernels/cuda/fused_gemm/launch.cuh"
#include "kernels/cuda/hopper/hopper_code.h"

namespace weft::cuda {

bool has_gelu_gemms(DType x, const GemmSizes& sizes) {
  constexpr int64_t kLargest = int64_t{1} << 30;  // Rows and tiles are counted in 32 bits.
  static const void* const kernel =
      reinterpret_cast<const void*>(fused_gemm::gelu_gemm_kernel<__nv_bfloat16, false>);
  static const bool runs =
      has_hopper_code() && fits_shared_memory(kernel, fused_gemm::shared_bytes(/*backward=*/true));
  return runs && size_bytes(x) == 2 && sizes.N % 8 == 0 && sizes.K % 8 == 0 &&
         sizes.K >= fused_gemm::kMinTerms && std::max({sizes.M, sizes.N, sizes.K}) <= kLargest;
}

void gelu_gemm(cudaStream_t stream, const GeluGemm& args, DType x, const GemmSizes& sizes) {
  fused_gemm::Args device_args = fused_gemm::args_of(sizes.M, sizes.N, sizes.K);
  device_args.out = args.out;
  device_args.pre = args.pre;
  device_args.bias = args.bias;
  device_args.tile_counter = args.tile_counter;
  // Where L2 holds the whole weight, one row of tiles at a time is fastest.
  constexpr int64_t kSmallWeight = int64_t{24} << 20;
  device_args.walk_rows = sizes.N * sizes.K * 2 <= kSmallWeight ? 1 : 4;
  dispatch(x, [&](auto type) {
    using T = decltype(type);
    if constexpr (sizeof(T) == 2)
      fused_gemm::launch_gemm<T, false>(stream, args.inp, args.weight, device_args);
  });
}

}  // namespace weft::cuda
