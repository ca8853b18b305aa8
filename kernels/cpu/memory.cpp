// The operations zero and cast.
#include <cstring>

#include "kernels/cpu/loops/rows.h"
#include "kernels/cpu/operations.h"

namespace weft::cpu {

namespace {

constexpr int64_t kGrain = 1 << 16;  // elements or bytes per task

}  // namespace

void zero(const Context& context, Tensor tensor) {
  auto* bytes = tensor.as<unsigned char>();
  context.for_each_range(tensor.num_bytes(), kGrain, [&](int64_t begin, int64_t end, int) {
    std::memset(bytes + begin, 0, static_cast<size_t>(end - begin));
  });
}

void cast(const Context& context, Tensor dst, Tensor src) {
  context.for_each_range(src.num_elements(), kGrain, [&](int64_t begin, int64_t end, int) {
    const int64_t n = end - begin;
    if (src.dtype() == dst.dtype()) {
      const int64_t size = size_bytes(src.dtype());
      std::memcpy(dst.as<unsigned char>() + begin * size, src.as<unsigned char>() + begin * size,
                  static_cast<size_t>(n * size));
    } else if (src.dtype() == DType::kFloat32) {
      store_row(dst, begin, n, src.as<float>() + begin);
    } else {
      widen_row(dst.as<float>() + begin, src, begin, n);
    }
  });
}

}  // namespace weft::cpu
