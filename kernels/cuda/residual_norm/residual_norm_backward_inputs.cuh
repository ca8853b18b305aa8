// The rows that the backward kernels of the residual norm read. They are fetched ahead into shared
// memory, where the layout has slots for them.
#pragma once

#include "kernels/cuda/residual_norm/residual_norm_backward_layout.cuh"

namespace weft::cuda {

// Starts a copy to shared memory, or fills the place with zeros where the source is not `inside`.
template <typename V, typename T>
__device__ inline void async_load_or_zero(V* shared, const T* data, bool inside) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  const int num_bytes = inside ? static_cast<int>(sizeof(V)) : 0;
  if constexpr (sizeof(V) == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(data),
                 "r"(num_bytes)
                 : "memory");
  } else {
    static_assert(sizeof(V) == 8);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(address), "l"(data),
                 "r"(num_bytes)
                 : "memory");
  }
}

// A thread's vectors of inp, dresidual_in and dnormed. Each thread fetches the ones that it reads,
// so no barrier is needed. What is outside the tensors reads as 0.
template <typename R, typename X, typename Layout>
class RowInputs {
 public:
  static constexpr int kSize = Vec<R>::kSize, kVecs = Layout::kVecs;
  static constexpr int kAhead = Layout::kSlots > 0 ? Layout::kSlots - 1 : 0;
  static constexpr int kPlaces = Layout::kSlots * kVecs;  // for a thread and a tensor
  static constexpr int kBytesPerThread = kPlaces * (2 * 16 + sizeof(VecBeside<R, X>));

  __device__ RowInputs(const BackwardArgs& args, int thread, int group_threads)
      : args_(args), thread_(thread), group_threads_(group_threads) {}

  __device__ int column(int i) const { return (thread_ + i * group_threads_) * kSize; }
  __device__ bool has(int i) const { return column(i) < args_.C; }

  __device__ void fetch(int row, int slot) {
    if constexpr (Layout::kSlots > 0) {
#pragma unroll
      for (int i = 0; i < kVecs; ++i) {
        const bool inside = has(i) && row < args_.N;
        const int64_t offset = inside ? static_cast<int64_t>(row) * args_.C + column(i) : 0;
        async_load_or_zero(of_stream(0, slot, i), static_cast<const R*>(args_.inp) + offset,
                           inside);
        if (args_.dresidual_in != nullptr)
          async_load_or_zero(of_stream(1, slot, i),
                             static_cast<const R*>(args_.dresidual_in) + offset, inside);
        async_load_or_zero(of_model(slot, i), static_cast<const X*>(args_.dnormed) + offset,
                           inside);
      }
      async_commit();
    }
  }
  // Waits until the oldest slot's row has arrived.
  __device__ void wait() {
    if constexpr (Layout::kSlots > 0) async_wait<kAhead>();
  }
  // Vector i of row `row`, which fetch(row, slot) has fetched.
  __device__ Vec<R> inp(int row, int slot, int i) {
    if constexpr (Layout::kSlots > 0) return *of_stream(0, slot, i);
    return load<R>(args_.inp, row, i);
  }
  __device__ Vec<R> dresidual_in(int row, int slot, int i) {
    if constexpr (Layout::kSlots > 0) return *of_stream(1, slot, i);
    return load<R>(args_.dresidual_in, row, i);
  }
  __device__ VecBeside<R, X> dnormed(int row, int slot, int i) {
    if constexpr (Layout::kSlots > 0) return *of_model(slot, i);
    return load<X>(args_.dnormed, row, i);
  }
  __device__ VecBeside<R, X> weight(int i) { return load<X>(args_.weight, 0, i); }

 private:
  __device__ static int place(int slot, int i) {
    return (slot * kVecs + i) * blockDim.x + threadIdx.x;
  }
  __device__ static Vec<R>* of_stream(int tensor, int slot, int i) {
    extern __shared__ uint4 ring[];
    return reinterpret_cast<Vec<R>*>(ring) + tensor * kPlaces * blockDim.x + place(slot, i);
  }
  __device__ static VecBeside<R, X>* of_model(int slot, int i) {
    extern __shared__ uint4 ring[];
    return reinterpret_cast<VecBeside<R, X>*>(ring + 2 * kPlaces * blockDim.x) + place(slot, i);
  }
  template <typename T>
  __device__ VecBeside<R, T> load(const void* data, int row, int i) {
    if (!has(i)) return {};
    return load_vec<Vec<R>::kSize>(static_cast<const T*>(data) +
                                   static_cast<int64_t>(row) * args_.C + column(i));
  }

  const BackwardArgs& args_;
  int thread_, group_threads_;
};

}  // namespace weft::cuda
