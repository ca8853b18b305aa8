// tune(): times the products of a model once, at start, on operands of its own.
//
// Operands are random, because matrix units draw less power and run faster on zeros. They take the
// memory of the largest product, twice where other algorithms are checked against the heuristic's, and 160 MiB for
// passes over memory; all is released before the run allocates its own.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>

#include "kernels/cuda/backend.h"
#include "kernels/cuda/device/check.h"
#include "kernels/cuda/memory_bound/kernels.h"

namespace weft::cuda {
namespace {

// One linear layer of the model, (N,I) -> (N,O).
struct Layer {
  int64_t I, O;
  bool bias;      // forward adds it in the product
  bool dbias;     // the product of backward for the weight sums its gradient
  bool gelu_in;   // backward applies GELU's derivative to the gradient of the inputs
  bool gelu_out;  // forward applies GELU to the output
};

// The biases of proj and fc2 are added in the residual stream.
std::vector<Layer> layers_of(const WorkspaceShape& shape) {
  const int64_t C = shape.C, A = shape.H * shape.D;
  std::vector<Layer> layers;
  const auto add = [&layers](const Layer& layer) {
    if (layer.I > 0 && layer.O > 0) layers.push_back(layer);
  };
  const bool has_qkv_dbias = shape.has_qkv_bias && !shape.attention_sums_qkv_bias;
  // In fp8 GELU belongs to the quantizing. Else the gradient of its input sums up that of fc1's bias.
  const bool gelu = !shape.has_glu && !shape.fp8_gradients;
  const bool has_fc1_dbias = shape.has_fc1_bias && !gelu;
  add({C, shape.qkv_size(), shape.has_qkv_bias, has_qkv_dbias, false, false});  // qkv
  add({A, C, false, false, false, false});                                      // proj
  add({C, shape.fc1_size(), shape.has_fc1_bias, has_fc1_dbias, false, gelu});   // fc1
  add({shape.F, C, false, false, gelu, false});                                 // fc2
  add({C, shape.Vp, false, false, false, false});                               // head
  return layers;
}

// Times the products of one layer in fp8. Its operands are random numbers, rounded.
void time_fp8_products(CudaBackend& backend, const Layer& layer, const WorkspaceShape& shape,
                       Tensor out, Tensor inp, Tensor weight, Tensor bias, Tensor dweight) {
  const DType e4m3 = DType::kFloat8E4M3, gradients = *shape.fp8_gradients;
  const int64_t N = num_rows(inp), O = layer.O, I = layer.I;
  const TemporaryMemory fp8_inp(N * I), fp8_dout(N * O), fp8_weight(O * I), scaling_memory(256);
  const Tensor scaling(scaling_memory.data(), DType::kFloat32, {2});
  const auto view = [](const TemporaryMemory& memory, DType dtype, int64_t rows, int64_t columns) {
    return Tensor(memory.data(), dtype, {rows, columns});
  };
  const auto fill = [&](Tensor rows, Tensor from) {
    backend.run(Quantize{.rows = rows, .scaling = scaling, .derives_scale = true, .inp = from});
  };
  fill(view(fp8_inp, e4m3, N, I), inp);
  fill(view(fp8_dout, gradients, N, O), out);
  fill(view(fp8_weight, e4m3, O, I), weight);
  backend.run(Fp8Product{.out = out,
                         .a = view(fp8_inp, e4m3, N, I),
                         .b = view(fp8_weight, e4m3, O, I),
                         .a_scaling = scaling,
                         .b_scaling = scaling,
                         .bias = bias,
                         .sums_fast = true});
  backend.run(Fp8Product{.out = inp,
                         .a = view(fp8_dout, gradients, N, O),
                         .b = view(fp8_weight, e4m3, I, O),
                         .a_scaling = scaling,
                         .b_scaling = scaling});
  if (!shape.has_fp8_weight_gradients) return;
  for (const bool accumulate : {false, true}) {
    backend.run(Fp8Product{.out = dweight,
                           .a = view(fp8_dout, gradients, O, N),
                           .b = view(fp8_inp, e4m3, I, N),
                           .a_scaling = scaling,
                           .b_scaling = scaling,
                           .accumulate = accumulate});
  }
}

// Random operands that serve every layer, one after the other.
class Operands {
 public:
  Operands(cudaStream_t stream, const std::vector<Layer>& layers, int64_t N, DType x)
      : N_(N),
        x_(x),
        inp_(N * largest(layers, &Layer::I) * size_bytes(x)),
        out_(N * largest(layers, &Layer::O) * size_bytes(x)),
        pre_(N * largest_gelu(layers) * size_bytes(x)),
        weight_(largest_weight(layers) * size_bytes(x)),
        dweight_(largest_weight(layers) * 4),
        bias_(largest(layers, &Layer::O) * size_bytes(x)),
        dbias_(largest(layers, &Layer::O) * 4) {
    fill_random(stream, inp_.data(), x, N * largest(layers, &Layer::I));
    fill_random(stream, out_.data(), x, N * largest(layers, &Layer::O));
    fill_random(stream, pre_.data(), x, N * largest_gelu(layers));
    fill_random(stream, weight_.data(), x, largest_weight(layers));
    fill_random(stream, dweight_.data(), DType::kFloat32, largest_weight(layers));
    fill_random(stream, bias_.data(), x, largest(layers, &Layer::O));
    fill_random(stream, dbias_.data(), DType::kFloat32, largest(layers, &Layer::O));
  }
  Tensor inp(const Layer& l) const { return {inp_.data(), x_, {N_, l.I}}; }
  Tensor out(const Layer& l) const { return {out_.data(), x_, {N_, l.O}}; }
  Tensor pre(int64_t columns) const { return {pre_.data(), x_, {N_, columns}}; }
  Tensor weight(const Layer& l) const { return {weight_.data(), x_, {l.O, l.I}}; }
  Tensor dweight(const Layer& l) const { return {dweight_.data(), DType::kFloat32, {l.O, l.I}}; }
  Tensor bias(const Layer& l) const { return l.bias ? Tensor(bias_.data(), x_, {l.O}) : Tensor(); }
  Tensor column_sums(int64_t columns) const { return {dbias_.data(), DType::kFloat32, {columns}}; }
  Tensor dbias(const Layer& l) const {
    return l.dbias ? Tensor(dbias_.data(), DType::kFloat32, {l.O}) : Tensor();
  }

 private:
  static int64_t largest(const std::vector<Layer>& layers, int64_t Layer::*size) {
    int64_t result = 0;
    for (const Layer& layer : layers) result = std::max(result, layer.*size);
    return result;
  }
  static int64_t largest_gelu(const std::vector<Layer>& layers) {
    int64_t result = 0;
    for (const Layer& layer : layers) {
      if (layer.gelu_in) result = std::max(result, layer.I);
    }
    return result;
  }
  static int64_t largest_weight(const std::vector<Layer>& layers) {
    int64_t result = 0;
    for (const Layer& layer : layers) result = std::max(result, layer.I * layer.O);
    return result;
  }

  int64_t N_;
  DType x_;
  TemporaryMemory inp_, out_, pre_, weight_, dweight_, bias_, dbias_;
};

// Tells what a user may wonder about: a long start, and a library that computes wrongly.
std::string note_of_search(int num_refused, std::chrono::duration<double> time) {
  constexpr double kLongSeconds = 3;
  std::string note;
  if (time.count() > kLongSeconds)
    note = "the matrix products' algorithms were timed for " +
           std::to_string(std::lround(time.count())) + " s; the next run finds the choices\n";
  if (num_refused > 0)
    note += std::to_string(num_refused) +
            " fast algorithms of cuBLASLt gave other numbers than its first choice, and are not "
            "taken\n";
  return note;
}

}  // namespace

void CudaBackend::time_products(const WorkspaceShape& shape) {
  const std::vector<Layer> layers = layers_of(shape);
  const int64_t N = shape.B * shape.T;
  if (layers.empty() || N == 0) return;
  const Operands operands(context_.stream, layers, N, shape.x);
  for (const Layer& layer : layers) {
    const Tensor inp = operands.inp(layer), out = operands.out(layer);
    const Tensor weight = operands.weight(layer);
    const bool is_head = shape.Vp > 0 && &layer == &layers.back();
    if (shape.fp8_gradients && !is_head) {
      time_fp8_products(*this, layer, shape, out, inp, weight, operands.bias(layer),
                        operands.dweight(layer));
      CUDA_CHECK(cudaStreamSynchronize(context_.stream));
      if (shape.has_fp8_weight_gradients) continue;
    }
    if (layer.gelu_out) {
      run(LinearGeluForward{.out = operands.pre(layer.O),
                            .pre = out,
                            .inp = inp,
                            .weight = weight,
                            .bias = operands.bias(layer),
                            .gelu = shape.gelu});
    } else {
      run(LinearForward{.out = out, .inp = inp, .weight = weight, .bias = operands.bias(layer)});
    }
    if (layer.gelu_in) {
      const Tensor dbias = shape.has_fc1_bias ? operands.column_sums(layer.I) : Tensor();
      run(LinearGeluBackwardInput{.dpre = inp,
                                  .dbias = dbias,
                                  .dout = out,
                                  .weight = weight,
                                  .pre = operands.pre(layer.I),
                                  .gelu = shape.gelu,
                                  .accumulate = false});
    } else {
      run(LinearBackwardInput{.dinp = inp, .dout = out, .weight = weight});
    }
    for (const bool accumulate : {false, true}) {
      run(LinearBackwardWeight{.dweight = operands.dweight(layer),
                               .dbias = operands.dbias(layer),
                               .dout = out,
                               .inp = inp,
                               .accumulate = accumulate});
    }
  }
  CUDA_CHECK(cudaStreamSynchronize(context_.stream));  // the operands are released next
}

std::string CudaBackend::tune(const WorkspaceShape& shape) {
  if (!gemm_->table().has_file()) return "";
  const int64_t num_bytes = workspace_bytes(shape);
  void* const old_workspace = gemm_->workspace();
  const int64_t old_bytes =
      old_workspace == nullptr ? 0 : Gemm::kWorkspaceBytes + context_.scratch_bytes;
  const auto start = std::chrono::steady_clock::now();
  const int refused_before = gemm_->num_refused();
  std::string note;
  const auto restore = [&] {
    gemm_->set_timing(false);
    gemm_->forget_choices();
    set_workspace(old_workspace, old_bytes);
  };
  try {
    const TemporaryMemory workspace(num_bytes);
    set_workspace(workspace.data(), num_bytes);
    gemm_->set_timing(true);
    time_products(shape);
    restore();
  } catch (const DeviceOutOfMemory& error) {
    restore();
    note = std::string("GEMM algorithms are not timed, the library's own choice is used: ") +
           error.what() + "\n";
  } catch (...) {
    restore();
    throw;
  }
  note += note_of_search(gemm_->num_refused() - refused_before,
                         std::chrono::steady_clock::now() - start);
  const std::string unkept = gemm_->table().store();
  return unkept.empty() ? note : note + unkept + "\n";
}

void CudaBackend::use_algorithms(const std::string& text) {
  gemm_->table().take(text);
  gemm_->forget_choices();
}

}  // namespace weft::cuda
