// The operations zero and cast.
#include "kernels/operations/memory.h"

#include <cstring>

#include "kernels/cpu/loops/context.h"
#include "kernels/cpu/loops/rows.h"

namespace weft::cpu {

namespace {

constexpr int64_t kGrain = 1 << 16;  // elements or bytes per task

}  // namespace

void run(const Context& context, const Zero& op) {
  auto* bytes = op.out.as<unsigned char>();
  context.for_each_range(op.out.num_bytes(), kGrain, [&](int64_t begin, int64_t end, int) {
    std::memset(bytes + begin, 0, static_cast<size_t>(end - begin));
  });
}

void run(const Context& context, const Cast& op) {
  const Tensor &dst = op.dst, &src = op.src;
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
