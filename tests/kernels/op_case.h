// One operation with given inputs: a way to run it on any backend, and its result by definition.
//
// The same cases check the CPU against the definition (kernels_definition_test) and CUDA against
// the CPU (kernels_parity_test).
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "kernels/backend.h"

namespace weft::test {

using Values = std::vector<double>;

struct Output {
  std::string name;
  Values values;
  DType dtype = DType::kFloat32;  // the type that the backend stored; it chooses the tolerance
};
using Outputs = std::vector<Output>;

// Results of two devices that round to 16 bits differ by the last rounding only, or by the square
// of a rounded number, or by products of rounded probabilities (attention), or by differences of
// such products (its backward). Hopper adds up fp8 products in fewer digits than fp32 has.
enum class Accuracy {
  kRounded,
  kSquare,
  kAttention,
  kAttentionBackward,
  kLongAttentionBackward,
  kRandomAttention,
  kFp8Sums
};

struct OpCase {
  std::string name;  // letters, digits and _
  std::function<Outputs(Backend&)> run;
  // Computes the result in fp64 from the formulas, gradients by finite differences of the forward
  // formula. The dtypes are not filled in.
  std::function<Outputs()> expected;
  Accuracy accuracy = Accuracy::kRounded;
};

std::string name_of(const testing::TestParamInfo<OpCase>& test);
// Lets GoogleTest, which sets the name, print a case by its name.
void PrintTo(const OpCase& op_case, std::ostream* out);  // NOLINT(readability-identifier-naming)

// kSmall: finite differences end in milliseconds. kDevice: shapes that cross the tiles of GPU
// kernels, within what the CUDA backend takes (C, F, Vp multiples of 8).
enum class Sizes { kSmall, kDevice };

void add_linear_cases(std::vector<OpCase>& cases, DType x, Sizes sizes);
void add_residual_norm_cases(std::vector<OpCase>& cases, DType x, Sizes sizes);
void add_embedding_cases(std::vector<OpCase>& cases, DType x, Sizes sizes);
void add_qkv_cases(std::vector<OpCase>& cases, DType x, Sizes sizes);
void add_attention_cases(std::vector<OpCase>& cases, DType x, Sizes sizes);
void add_loss_cases(std::vector<OpCase>& cases, DType x, Sizes sizes);
void add_optimizer_cases(std::vector<OpCase>& cases, DType x, Sizes sizes);
void add_muon_cases(std::vector<OpCase>& cases, DType x, Sizes sizes);
void add_generation_cases(std::vector<OpCase>& cases, DType x, Sizes sizes);

// Returns attention's operations for shapes that follow from `seed`: any number of tokens and
// heads, so also of heads that blocks take together, any size of heads, documents, ALiBi's slopes
// and dropout.
std::vector<OpCase> random_attention_cases(uint64_t seed, int num_shapes);
// Returns the same for small shapes in fp32, whose definition is quick.
std::vector<OpCase> small_random_attention_cases(uint64_t seed, int num_shapes);

void add_fp8_cases(std::vector<OpCase>& cases, Sizes sizes);  // of bf16 models

// Returns all cases above for fp32, bf16 and fp16, where they have these types.
std::vector<OpCase> all_cases(Sizes sizes);

// The memory of one backend for one run of a case.
class Arrays {
 public:
  explicit Arrays(Backend& backend) : backend_(backend) {}
  ~Arrays();
  // Returns a number in memory, or nothing where it is 0.
  Tensor offset(int64_t number) {
    return number == 0 ? Tensor() : make(DType::kInt32, {1}, {static_cast<double>(number)});
  }
  Arrays(const Arrays&) = delete;
  Arrays& operator=(const Arrays&) = delete;

  // Runs an operation in a workspace of exactly the size that it needs.
  template <typename Op>
  void run(const Op& op) {
    const AnyOperation operations[] = {op};
    give_workspace(operations);
    backend_.run(op);
  }
  void give_workspace(std::span<const AnyOperation> operations);

  Tensor make(DType dtype, std::initializer_list<int64_t> shape);  // zeros
  Tensor make(DType dtype, std::initializer_list<int64_t> shape, const Values& values);
  Values read(Tensor tensor);
  Output output(const std::string& name, Tensor tensor) {
    return {name, read(tensor), tensor.dtype()};
  }

 private:
  Backend& backend_;
  std::vector<void*> memory_;
  void* workspace_ = nullptr;
  int64_t workspace_bytes_ = 0;
};

// Returns n numbers in [-scale, scale) that `dtype` can represent; each `stream` gives others.
Values random_values(int64_t n, uint64_t stream, DType dtype, double scale = 1.0);
// Returns n integers in [0, bound).
Values random_ids(int64_t n, uint64_t stream, int64_t bound);
Values rounded(Values values, DType dtype);
// Puts 10^30 with its sign for what is infinite, so that differences() can compare it.
Output with_huge_for_infinite(Output output);

// The lengths of the documents that samples of a case consist of.
struct Documents {
  int64_t length = 0;        // of every document; 0: there are none
  bool is_random = false;    // lengths are from 1 to `length`
  std::string name() const;  // "", or what a case's name ends with
};
// Returns (B,T,2): begin and end of each token's document. It is empty where there are none.
Values document_bounds(const Documents& documents, int64_t B, int64_t T);

// Returns "fp32", "bf16" or "fp16".
std::string type_name(DType dtype);

// The difference that is allowed between a and b, given the root mean square of b.
struct Tolerance {
  double relative = 0;    // times |b|
  double of_typical = 0;  // times the rms of b: sums of numbers larger than their result
  double of_norm = 0;     // bounds the rms of all differences, times the rms of b
};
Tolerance reference_tolerance(DType dtype);
Tolerance device_tolerance(DType dtype, Accuracy accuracy);

// Returns "" if every value of `got` is within `tolerance` of `wanted`, else where it is worst.
std::string differences(const Outputs& got, const Outputs& wanted,
                        const std::function<Tolerance(DType)>& tolerance);

}  // namespace weft::test
