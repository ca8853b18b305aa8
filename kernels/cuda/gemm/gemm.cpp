#include "kernels/cuda/gemm/gemm.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "kernels/cuda/device/check.h"

namespace weft::cuda {
cudaDataType_t cuda_type(DType dtype) {
  if (dtype == DType::kFloat8E4M3) return CUDA_R_8F_E4M3;
  if (dtype == DType::kFloat8E5M2) return CUDA_R_8F_E5M2;
  if (dtype == DType::kFloat16) return CUDA_R_16F;
  return dtype == DType::kBFloat16 ? CUDA_R_16BF : CUDA_R_32F;
}

namespace {

const char* name_of(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::kNone:
      return "none";
    case Epilogue::kBias:
      return "bias";
    case Epilogue::kDGelu:
      return "dgelu";
    case Epilogue::kBiasGradient:
      return "bgradb";
  }
  return "?";
}

cublasLtEpilogue_t cublas_epilogue(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::kNone:
      return CUBLASLT_EPILOGUE_DEFAULT;
    case Epilogue::kBias:
      return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::kDGelu:
      return CUBLASLT_EPILOGUE_DGELU;
    case Epilogue::kBiasGradient:
      return CUBLASLT_EPILOGUE_BGRADB;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

// Returns ",batch=20,a=8704/456,b=..." with the distances of columns and of products.
std::string text_of(const GemmBatch& batch) {
  if (batch.count == 0) return "";
  const auto matrix = [](const char* name, int64_t ld, int64_t stride) {
    return std::string(name) + std::to_string(ld) + "/" + std::to_string(stride);
  };
  return ",batch=" + std::to_string(batch.count) + matrix(",a=", batch.lda, batch.stride_a) +
         matrix(",b=", batch.ldb, batch.stride_b) + matrix(",d=", batch.ldd, batch.stride_d);
}

std::string text_of(const GemmProblem& problem) {
  return "m=" + std::to_string(problem.m) + ",n=" + std::to_string(problem.n) +
         ",k=" + std::to_string(problem.k) + ",op=" + (problem.transpose_a ? "t" : "n") +
         (problem.transpose_b ? "t" : "n") + ",types=" + name_of(problem.inputs) +
         (problem.b_input ? std::string("*") + name_of(*problem.b_input) : "") + ":" +
         name_of(problem.output) + (problem.sums_fast ? ",sums=fast" : "") +
         ",epilogue=" + name_of(problem.epilogue) + ",beta=" + (problem.accumulate ? "1" : "0") +
         text_of(problem.batch);
}

template <typename T>
void set(cublasLtMatmulDesc_t description, cublasLtMatmulDescAttributes_t attribute,
         const T& value) {
  CUBLAS_CHECK(cublasLtMatmulDescSetAttribute(description, attribute, &value, sizeof value));
}

}  // namespace

Gemm::Plan::~Plan() {
  if (a != nullptr) cublasLtMatrixLayoutDestroy(a);
  if (b != nullptr) cublasLtMatrixLayoutDestroy(b);
  if (d != nullptr) cublasLtMatrixLayoutDestroy(d);
  if (description != nullptr) cublasLtMatmulDescDestroy(description);
}

size_t Gemm::Hash::operator()(const GemmProblem& problem) const {
  size_t hash = 0;
  const auto mix = [&hash](int64_t value) {
    hash = (hash ^ static_cast<size_t>(value)) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
  };
  mix(problem.m);
  mix(problem.n);
  mix(problem.k);
  mix((problem.transpose_a ? 1 : 0) + (problem.transpose_b ? 2 : 0) + (problem.accumulate ? 4 : 0) +
      8 * static_cast<int>(problem.epilogue) + 64 * static_cast<int>(problem.inputs) +
      512 * static_cast<int>(problem.output) +
      4096 * static_cast<int>(problem.b_input.value_or(problem.inputs)) +
      (problem.sums_fast ? 32768 : 0));
  const GemmBatch& batch = problem.batch;
  if (batch.count > 0) {
    for (const int64_t value : {batch.count, batch.lda, batch.stride_a, batch.ldb, batch.stride_b,
                                batch.ldd, batch.stride_d})
      mix(value);
  }
  return hash;
}

Gemm::Gemm(cudaStream_t stream, std::string device_name)
    : stream_(stream), device_name_(std::move(device_name)) {
  std::replace(device_name_.begin(), device_name_.end(), ' ', '_');
  CUBLAS_CHECK(cublasLtCreate(&handle_));
}

Gemm::~Gemm() {
  plans_.clear();
  cublasLtDestroy(handle_);
}

void Gemm::run(const GemmProblem& problem, const GemmOperands& operands) {
  if (workspace_ == nullptr)
    throw std::invalid_argument("a matrix product before set_workspace was called");
  Plan& plan = plan_of(problem, operands);
  if (!plan.found)
    throw std::invalid_argument("cuBLASLt has no algorithm for the product " + text_of(problem) +
                                "; make all dimensions multiples of 8 (pad the vocabulary)");
  launch(plan, plan.algorithm, operands);
}

void Gemm::forget_choices() {
  plans_.clear();
  fused_.clear();
  for (auto& answers : own_) answers.clear();
}

Gemm::Plan& Gemm::plan_of(const GemmProblem& problem, const GemmOperands& operands) {
  const auto it = plans_.find(problem);
  if (it != plans_.end()) return *it->second;
  std::unique_ptr<Plan> plan = make_plan(problem);
  choose_algorithm(*plan, problem, operands);
  return *plans_.emplace(problem, std::move(plan)).first->second;
}

std::unique_ptr<Gemm::Plan> Gemm::make_plan(const GemmProblem& problem) const {
  auto plan = std::make_unique<Plan>();
  plan->beta = problem.accumulate ? 1.0F : 0.0F;
  plan->epilogue = problem.epilogue;
  plan->has_scales = is_float8(problem.inputs);
  // fp32 inputs have full fp32 products (no TF32), and all sums are fp32.
  CUBLAS_CHECK(cublasLtMatmulDescCreate(&plan->description, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  const auto op = [](bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; };
  set(plan->description, CUBLASLT_MATMUL_DESC_TRANSA, op(problem.transpose_a));
  set(plan->description, CUBLASLT_MATMUL_DESC_TRANSB, op(problem.transpose_b));
  set(plan->description, CUBLASLT_MATMUL_DESC_EPILOGUE, cublas_epilogue(problem.epilogue));
  if (problem.epilogue != Epilogue::kNone && problem.epilogue != Epilogue::kDGelu) {
    const DType bias =
        problem.epilogue == Epilogue::kBiasGradient ? DType::kFloat32 : problem.output;
    set(plan->description, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, cuda_type(bias));
  }
  if (problem.epilogue == Epilogue::kDGelu) {
    set(plan->description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, problem.m);
    set(plan->description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, cuda_type(problem.output));
  }
  if (problem.sums_fast) set(plan->description, CUBLASLT_MATMUL_DESC_FAST_ACCUM, int8_t{1});
  const GemmBatch& batch = problem.batch;
  const auto layout = [&batch](cublasLtMatrixLayout_t* matrix, DType type, int64_t rows,
                               int64_t columns, int64_t ld, int64_t stride) {
    CUBLAS_CHECK(cublasLtMatrixLayoutCreate(matrix, cuda_type(type), static_cast<uint64_t>(rows),
                                            static_cast<uint64_t>(columns),
                                            batch.count > 0 ? ld : rows));
    if (batch.count == 0) return;
    const auto count = static_cast<int32_t>(batch.count);
    CUBLAS_CHECK(cublasLtMatrixLayoutSetAttribute(*matrix, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                                  &count, sizeof count));
    CUBLAS_CHECK(cublasLtMatrixLayoutSetAttribute(
        *matrix, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride));
  };
  const bool ta = problem.transpose_a, tb = problem.transpose_b;
  layout(&plan->a, problem.inputs, ta ? problem.k : problem.m, ta ? problem.m : problem.k,
         batch.lda, batch.stride_a);
  layout(&plan->b, problem.b_input.value_or(problem.inputs), tb ? problem.n : problem.k,
         tb ? problem.k : problem.n, batch.ldb, batch.stride_b);
  layout(&plan->d, problem.output, problem.m, problem.n, batch.ldd, batch.stride_d);
  return plan;
}

void Gemm::set_scales(Plan& plan, const GemmOperands& operands) {
  if (!plan.has_scales) return;
  set(plan.description, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, operands.a_scale);
  set(plan.description, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, operands.b_scale);
}

cublasStatus_t Gemm::try_launch(Plan& plan, const cublasLtMatmulAlgo_t& algorithm,
                                const GemmOperands& operands) {
  const Epilogue epilogue = plan.epilogue;
  if (epilogue != Epilogue::kNone && epilogue != Epilogue::kDGelu)
    set(plan.description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, operands.bias);
  if (epilogue == Epilogue::kDGelu)
    set(plan.description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, operands.aux);
  set_scales(plan, operands);
  const bool has_c = operands.c != nullptr;
  return cublasLtMatmul(handle_, plan.description, &operands.alpha, operands.a, plan.a, operands.b,
                        plan.b, has_c ? &operands.beta : &plan.beta,
                        has_c ? operands.c : operands.d, plan.d, operands.d, plan.d, &algorithm,
                        workspace_, kWorkspaceBytes, stream_);
}

void Gemm::launch(Plan& plan, const cublasLtMatmulAlgo_t& algorithm, const GemmOperands& operands) {
  CUBLAS_CHECK(try_launch(plan, algorithm, operands));
}

std::string Gemm::key_of(const GemmProblem& problem) const {
  return text_of(problem) + ",workspace=" + std::to_string(kWorkspaceBytes >> 20) +
         "MiB,cublaslt=" + std::to_string(cublasLtGetVersion()) + ",gpu=" + device_name_;
}

}  // namespace weft::cuda
