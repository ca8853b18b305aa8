#include "kernels/cuda/hopper/hopper_code.h"
#include "kernels/cuda/products/gelu_product.h"
#include "kernels/cuda/products/launch.cuh"

namespace weft::cuda {

bool has_gelu_products(DType x, const ProductSizes& sizes) {
  constexpr int64_t kLargest = int64_t{1} << 30;  // Rows and tiles are counted in 32 bits.
  static const void* const kernel =
      reinterpret_cast<const void*>(products::gelu_product_kernel<__nv_bfloat16, false>);
  static const bool runs =
      has_hopper_code() && fits_shared_memory(kernel, products::shared_bytes(/*backward=*/true));
  return runs && size_bytes(x) == 2 && sizes.N % 8 == 0 && sizes.K % 8 == 0 &&
         sizes.K >= products::kMinTerms && std::max({sizes.M, sizes.N, sizes.K}) <= kLargest;
}

void gelu_product(cudaStream_t stream, const GeluProduct& args, DType x,
                  const ProductSizes& sizes) {
  products::Args device_args = products::args_of(sizes.M, sizes.N, sizes.K);
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
      products::launch_product<T, false>(stream, args.inp, args.weight, device_args);
  });
}

}  // namespace weft::cuda
