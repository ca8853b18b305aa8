// Clears and converts tensors.
#include <cstring>

#include "kernels/cpu/operations.h"
#include "kernels/cpu/rows.h"

namespace weft::cpu {

namespace {
constexpr int64_t kGrain = 1 << 16;  // elements or bytes per task
}

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
      narrow(dst.as<BFloat16>() + begin, src.as<float>() + begin, n);
    } else {
      widen(dst.as<float>() + begin, src.as<BFloat16>() + begin, n);
    }
  });
}

}  // namespace weft::cpu
