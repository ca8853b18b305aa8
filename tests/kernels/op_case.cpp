#include "tests/kernels/op_case.h"

#include <algorithm>
#include <cmath>

#include "kernels/numbers/bfloat16.h"
#include "kernels/numbers/float16.h"
#include "kernels/numbers/float8.h"
#include "kernels/numbers/philox.h"

namespace weft::test {

namespace {

constexpr uint64_t kSeed = 1234;

double store_and_load(double value, DType dtype) {
  const auto single = static_cast<float>(value);
  if (dtype == DType::kBFloat16) return static_cast<double>(static_cast<float>(BFloat16(single)));
  if (dtype == DType::kFloat16) return static_cast<double>(static_cast<float>(Float16(single)));
  if (is_float8(dtype)) return static_cast<double>(from_float8(to_float8(single, dtype), dtype));
  return static_cast<double>(single);
}

std::vector<unsigned char> encode(DType dtype, const Values& values) {
  std::vector<unsigned char> bytes(values.size() * static_cast<size_t>(size_bytes(dtype)));
  for (size_t i = 0; i < values.size(); ++i) {
    switch (dtype) {
      case DType::kFloat32:
        reinterpret_cast<float*>(bytes.data())[i] = static_cast<float>(values[i]);
        break;
      case DType::kBFloat16:
        reinterpret_cast<BFloat16*>(bytes.data())[i] = BFloat16(static_cast<float>(values[i]));
        break;
      case DType::kFloat16:
        reinterpret_cast<Float16*>(bytes.data())[i] = Float16(static_cast<float>(values[i]));
        break;
      case DType::kInt32:
        reinterpret_cast<int32_t*>(bytes.data())[i] = static_cast<int32_t>(values[i]);
        break;
      case DType::kUInt8:
        bytes[i] = static_cast<unsigned char>(values[i]);
        break;
      case DType::kFloat8E4M3:
      case DType::kFloat8E5M2:
        bytes[i] = to_float8(static_cast<float>(values[i]), dtype);
        break;
    }
  }
  return bytes;
}

double decode(DType dtype, const unsigned char* bytes, size_t i) {
  switch (dtype) {
    case DType::kFloat32:
      return static_cast<double>(reinterpret_cast<const float*>(bytes)[i]);
    case DType::kBFloat16:
      return static_cast<double>(static_cast<float>(reinterpret_cast<const BFloat16*>(bytes)[i]));
    case DType::kFloat16:
      return static_cast<double>(static_cast<float>(reinterpret_cast<const Float16*>(bytes)[i]));
    case DType::kInt32:
      return reinterpret_cast<const int32_t*>(bytes)[i];
    case DType::kUInt8:
      return bytes[i];
    case DType::kFloat8E4M3:
    case DType::kFloat8E5M2:
      return static_cast<double>(from_float8(bytes[i], dtype));
  }
  return 0;
}

double rms_of(const Values& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return values.empty() ? 0 : std::sqrt(sum / static_cast<double>(values.size()));
}

std::string difference(const Output& got, const Values& wanted, Tolerance tolerance) {
  if (got.values.size() != wanted.size()) {
    return got.name + ": " + std::to_string(got.values.size()) + " values instead of " +
           std::to_string(wanted.size()) + "\n";
  }
  const double slack = tolerance.of_typical * rms_of(wanted);
  double worst = 0, sum_of_squares = 0;
  size_t where = 0, num_bad = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const double allowed = tolerance.relative * std::abs(wanted[i]) + slack;
    const double error = std::abs(got.values[i] - wanted[i]);
    if (std::isfinite(error)) sum_of_squares += error * error;
    if (error <= allowed) continue;  // NaN does not pass
    ++num_bad;
    const double excess = std::isfinite(error) ? error / std::max(allowed, 1e-300) : 1e300;
    if (excess > worst) {
      worst = excess;
      where = i;
    }
  }
  const double typical = rms_of(wanted);
  if (num_bad == 0 && typical > 0) {
    const double error = std::sqrt(sum_of_squares / static_cast<double>(wanted.size())) / typical;
    if (error <= tolerance.of_norm) return "";
    return got.name + ": all differences together are " + std::to_string(error) + " of the norm, " +
           std::to_string(tolerance.of_norm) + " is allowed\n";
  }
  if (num_bad == 0) return "";
  return got.name + ": " + std::to_string(num_bad) + " of " + std::to_string(wanted.size()) +
         " values differ, worst at " + std::to_string(where) + ": " +
         std::to_string(got.values[where]) + " instead of " + std::to_string(wanted[where]) + ", " +
         std::to_string(worst) + " times what is allowed\n";
}

}  // namespace

Arrays::~Arrays() {
  backend_.synchronize();
  for (void* data : memory_) backend_.release(data, Memory::kDevice);
  backend_.set_workspace(nullptr, 0);
  backend_.release(workspace_, Memory::kDevice);
}

void Arrays::give_workspace(std::span<const AnyOperation> operations) {
  const int64_t num_bytes = backend_.workspace_bytes(operations);
  if (num_bytes == workspace_bytes_) return;
  backend_.synchronize();
  backend_.set_workspace(nullptr, 0);
  backend_.release(workspace_, Memory::kDevice);
  workspace_ = backend_.allocate(num_bytes, Memory::kDevice);
  workspace_bytes_ = num_bytes;
  backend_.set_workspace(workspace_, num_bytes);
}

Tensor Arrays::make(DType dtype, std::initializer_list<int64_t> shape) {
  int64_t n = 1;
  for (const int64_t size : shape) n *= size;
  memory_.push_back(backend_.allocate(n * size_bytes(dtype), Memory::kDevice));
  return Tensor(memory_.back(), dtype, shape);
}

Tensor Arrays::make(DType dtype, std::initializer_list<int64_t> shape, const Values& values) {
  const Tensor tensor = make(dtype, shape);
  const std::vector<unsigned char> bytes = encode(dtype, values);
  backend_.copy(tensor.data(), bytes.data(), tensor.num_bytes(), Stream::kCompute);
  return tensor;
}

Values Arrays::read(Tensor tensor) {
  std::vector<unsigned char> bytes(static_cast<size_t>(tensor.num_bytes()));
  backend_.copy(bytes.data(), tensor.data(), tensor.num_bytes(), Stream::kCompute);
  backend_.synchronize();
  Values values(static_cast<size_t>(tensor.num_elements()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = decode(tensor.dtype(), bytes.data(), i);
  return values;
}

Values random_values(int64_t n, uint64_t stream, DType dtype, double scale) {
  Values values(static_cast<size_t>(n));
  for (size_t i = 0; i < values.size(); ++i) {
    const double unit = philox_word(kSeed, stream, i) / 4294967296.0;
    values[i] = store_and_load((2 * unit - 1) * scale, dtype);
  }
  return values;
}

Values random_ids(int64_t n, uint64_t stream, int64_t bound) {
  Values values(static_cast<size_t>(n));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<double>(philox_word(kSeed, stream, i) % static_cast<uint64_t>(bound));
  }
  return values;
}

Values rounded(Values values, DType dtype) {
  for (double& value : values) value = store_and_load(value, dtype);
  return values;
}

Output with_huge_for_infinite(Output output) {
  for (double& value : output.values)
    if (std::isinf(value)) value = std::copysign(1e30, value);
  return output;
}

std::string name_of(const testing::TestParamInfo<OpCase>& test) { return test.param.name; }

void PrintTo(const OpCase& op_case, std::ostream* out) { *out << op_case.name; }

std::string Documents::name() const {
  if (length == 0) return "";
  return std::string(is_random ? "_documents_to" : "_documents_of") + std::to_string(length);
}

Values document_bounds(const Documents& documents, int64_t B, int64_t T) {
  Values bounds;
  if (documents.length == 0) return bounds;
  uint64_t element = 0;
  for (int64_t b = 0; b < B; ++b) {
    for (int64_t begin = 0, end = 0; begin < T; begin = end) {
      const uint32_t word = philox_word(kSeed, 40, element++);
      const int64_t length = documents.is_random ? 1 + static_cast<int64_t>(word) % documents.length
                                                 : documents.length;
      end = std::min(begin + length, T);
      for (int64_t t = begin; t < end; ++t) {
        bounds.push_back(static_cast<double>(begin));
        bounds.push_back(static_cast<double>(end));
      }
    }
  }
  return bounds;
}

std::string type_name(DType dtype) { return weft::name_of(dtype); }

std::vector<OpCase> all_cases(Sizes sizes) {
  std::vector<OpCase> cases;
  for (const DType x : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    add_linear_cases(cases, x, sizes);
    add_residual_norm_cases(cases, x, sizes);
    add_embedding_cases(cases, x, sizes);
    add_qkv_cases(cases, x, sizes);
    add_attention_cases(cases, x, sizes);
    add_loss_cases(cases, x, sizes);
    add_optimizer_cases(cases, x, sizes);
    add_muon_cases(cases, x, sizes);
    add_generation_cases(cases, x, sizes);
  }
  add_fp8_cases(cases, sizes);
  return cases;
}

// The tolerance against fp64 on the same inputs. In fp32 there are sums of at most a few hundred
// terms with an error of 2^-24 each. In bf16 half a unit in the last place is 2^-9, and a second
// rounding (of an intermediate that the interface keeps in bf16) may add as much again. Where small
// differences of large numbers follow (attention's backward subtracts dout * out, where out is
// bf16), errors are a few times 2^-9 of typical values. The same with 2^-12 for fp16.
// A number of e4m3 is up to 2^-4 of itself from what was rounded, and one of e5m2 2^-3; a scale
// that is off by a bit may round it the other way. Small ones have a fixed step.
Tolerance reference_tolerance(DType dtype) {
  if (dtype == DType::kFloat8E4M3) return {1.0 / 15, 1e-4, 4e-2};
  if (dtype == DType::kFloat8E5M2) return {1.0 / 7, 1e-4, 8e-2};
  if (dtype == DType::kFloat16) return {1.0 / 1024, 2.5e-3, 1.25e-3};
  return dtype == DType::kBFloat16 ? Tolerance{1.0 / 128, 2e-2, 1e-2} : Tolerance{1e-5, 1e-5, 1e-5};
}

// The tolerance of CUDA against the CPU. In fp32 sums of thousands of terms have other orders, and
// the GPU has its own exp and tanh. In bf16 both round nearly the same number at the end and may
// get neighbours, which are up to 2^-7 apart. Flash attention rounds probabilities to bf16 in
// between, and its backward the gradients of scores as well: each of the two devices may be 1 % of
// the norm from fp64 then (weft_attention_bench check), so 1.5 % from the other, and the largest of
// 10^5 differences is 5 to 6 times the typical one. Queries of few keys have
// larger gradients than the typical one, and with them larger differences: in a sequence of 1100
// the largest of 2 * 10^6 is 10 % of it. Random shapes have rows of few keys beside very long ones;
// what their test looks for, a wrong order of blocks or a tile that is left out, changes more than
// that. fp16 has three more binary digits. GELU by another exponential may round a few numbers to
// the neighbour in fp8, 2^-3 or 2^-2 apart. Hopper's matrix units align the products of 32 pairs of
// fp8 to the largest and keep about 13 digits of them (DeepSeek-V3, arXiv:2412.19437, section
// 3.5.2): on an H100 the worst of 10^6 sums was 7e-4 of the typical one off.
Tolerance device_tolerance(DType dtype, Accuracy accuracy) {
  if (dtype == DType::kFloat8E4M3) return {1.0 / 7, 1e-4, 2e-3};
  if (dtype == DType::kFloat8E5M2) return {1.0 / 3, 1e-4, 4e-3};
  if (dtype == DType::kFloat32 && accuracy == Accuracy::kFp8Sums) return {1e-3, 1.5e-3, 1e-3};
  if (dtype == DType::kFloat32) return {1e-4, 1e-4, 1e-4};
  const double digits = dtype == DType::kFloat16 ? 1.0 / 8 : 1.0;
  switch (accuracy) {
    case Accuracy::kRounded:
    case Accuracy::kFp8Sums:
      return {digits / 128, digits * 1e-2, digits * 4e-3};
    case Accuracy::kSquare:  // of neighbours 2^-7 apart, and rounded
      return {digits * 3 / 128, digits * 1e-2, digits * 4e-3};
    case Accuracy::kAttention:
      return {digits / 64, digits * 3e-2, digits * 7e-3};
    case Accuracy::kAttentionBackward:
      break;
    case Accuracy::kRandomAttention:
      return {digits / 64, digits * 3e-1, digits * 1.5e-2};
    case Accuracy::kLongAttentionBackward:
      return {digits / 64, digits * 12e-2, digits * 1.5e-2};
  }
  return {digits / 64, digits * 8e-2, digits * 1.5e-2};
}

std::string differences(const Outputs& got, const Outputs& wanted,
                        const std::function<Tolerance(DType)>& tolerance) {
  if (got.size() != wanted.size()) return "another number of outputs";
  std::string text;
  for (size_t i = 0; i < got.size(); ++i) {
    text += difference(got[i], wanted[i].values, tolerance(got[i].dtype));
  }
  return text;
}

}  // namespace weft::test
