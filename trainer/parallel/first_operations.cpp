#include "trainer/parallel/first_operations.h"

#include <fmt/format.h>

#include <vector>

#include "kernels/numbers/bfloat16.h"
#include "kernels/numbers/float16.h"

namespace weft {
namespace {

// Device memory of `count` numbers of type T, on the compute stream.
template <typename T>
class Numbers {
 public:
  Numbers(Backend& backend, DType dtype, int64_t count)
      : backend_(backend),
        tensor_(backend.allocate(count * size_bytes(dtype), Memory::kDevice), dtype, {count}) {}
  ~Numbers() { backend_.release(tensor_.data(), Memory::kDevice); }
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;

  Tensor all() const { return tensor_; }
  Tensor one(int idx) const { return Tensor(tensor_.as<T>() + idx, tensor_.dtype(), {1}); }
  void fill(float value) {
    const std::vector<T> values(static_cast<size_t>(tensor_.num_elements()), T(value));
    backend_.copy(tensor_.data(), values.data(), tensor_.num_bytes(), Stream::kCompute);
    backend_.synchronize();
  }
  std::vector<T> values() {
    std::vector<T> values(static_cast<size_t>(tensor_.num_elements()));
    backend_.copy(values.data(), tensor_.data(), tensor_.num_bytes(), Stream::kCompute);
    backend_.synchronize();
    return values;
  }

 private:
  Backend& backend_;
  const Tensor tensor_;
};

template <typename T>
void expect(const char* operation, const Communicator& communicator, T value, int expected) {
  if (static_cast<float>(value) == static_cast<float>(expected)) return;
  throw DeviceLost(fmt::format(
      "the first {} over {} ranks gave {} instead of {}: the connections between these GPUs carry "
      "wrong bytes; try NCCL_P2P_DISABLE=1, and look for access control (ACS) of PCIe switches",
      operation, communicator.size(), static_cast<float>(value), expected));
}

template <typename T>
void run(Communicator& communicator, Backend& backend, DType dtype) {
  constexpr int kLargestExactSum = 256;  // of bf16
  const int size = communicator.size(), rank = communicator.rank();
  const bool is_exact = size <= kLargestExactSum;
  Numbers<T> numbers(backend, dtype, size);
  numbers.fill(1.0F);
  communicator.all_reduce(numbers.all(), Reduce::kSum, Stream::kCompute);
  for (const T value : numbers.values()) {
    if (is_exact) expect("sum", communicator, value, size);
  }
  numbers.fill(1.0F);
  communicator.reduce_scatter(numbers.one(rank), numbers.all(), Stream::kCompute);
  if (is_exact) {
    expect("reduce-scatter", communicator, numbers.values()[static_cast<size_t>(rank)], size);
  }
  numbers.fill(static_cast<float>(rank % kLargestExactSum));
  communicator.all_gather(numbers.all(), numbers.one(rank), Stream::kCompute);
  const std::vector<T> gathered = numbers.values();
  for (int from = 0; from < size; ++from) {
    expect("all-gather", communicator, gathered[static_cast<size_t>(from)],
           from % kLargestExactSum);
  }
}

// Each stage sends its number to the stages before and after it, as activations and gradients go;
// interleaved ones go from the last stage to the first, too.
void run_exchange(Communicator& communicator, Backend& backend) {
  const int size = communicator.size(), rank = communicator.rank();
  const int before = (rank + size - 1) % size, after = (rank + 1) % size;
  Numbers<float> numbers(backend, DType::kFloat32, 3);  // from before, own, from after
  numbers.fill(static_cast<float>(rank));
  const Transfer transfers[] = {{numbers.one(1), before, /*sends=*/true},
                                {numbers.one(0), before, /*sends=*/false},
                                {numbers.one(1), after, /*sends=*/true},
                                {numbers.one(2), after, /*sends=*/false}};
  communicator.exchange(transfers, Stream::kCompute);
  const std::vector<float> received = numbers.values();
  // The last stage tells its losses in this way.
  communicator.broadcast(numbers.one(1), size - 1, Stream::kCompute);
  expect("broadcast", communicator, numbers.values()[1], size - 1);
  expect("exchange", communicator, received[0], before);
  expect("exchange", communicator, received[2], after);
}

}  // namespace

void run_first_operations(Communicator& communicator, Backend& backend, bool exchanges) {
  if (exchanges) run_exchange(communicator, backend);
  run<float>(communicator, backend, DType::kFloat32);
  run<BFloat16>(communicator, backend, DType::kBFloat16);
  run<Float16>(communicator, backend, DType::kFloat16);
}

}  // namespace weft
