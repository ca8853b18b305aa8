// Times every operation of a Backend at the shapes of one GPT, and adds them up to one training
// step.
//
//   weft_kernels_bench --device cuda --model 124m --micro-batch-size 64 --seq-length 1024 --dtype
//   bf16
//
// ms: mean over back-to-back calls, by events on the compute stream. TF/s: multiplications and
// additions of the definition (causal attention counted half) per second. GB/s: bytes that have to
// be read and written once. calls: per micro-batch of a step; share: of the sum of ms * calls.
// Collectives and data loading are not in it.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/numbers/bfloat16.h"
#include "kernels/numbers/philox.h"
#include "kernels/numbers/split_master.h"
#include "kernels/recording_backend.h"
#include "trainer/ceilings/algorithm_file.h"

namespace weft {
namespace {

struct Options {
  std::string device = "cpu", model = "small", only, gemm_algorithm_cache;
  int64_t B = 0, T = 0, L = 0, C = 0, H = 0, Vp = 0;  // 0: the model's
  int num_threads = 0;
  float dropout = 0;
  DType x = DType::kFloat32;
  bool fp32_residual = false;
  DType r() const { return fp32_residual ? DType::kFloat32 : x; }
  double seconds = 0.3;  // per operation
};

struct Model {
  const char* name;
  int64_t B, T, L, C, H, Vp;
};
constexpr Model kModels[] = {
    {"small", 8, 256, 6, 256, 8, 8192},      {"124m", 64, 1024, 12, 768, 12, 50304},
    {"355m", 32, 1024, 24, 1024, 16, 50304}, {"774m", 16, 1024, 36, 1280, 20, 50304},
    {"1.7b", 8, 2048, 24, 2304, 24, 50304},  {"7b", 2, 2048, 32, 4096, 32, 50304},
};

void apply_model(Options& o) {
  for (const Model& model : kModels) {
    if (o.model != model.name) continue;
    const auto fill = [](int64_t& value, int64_t given) { value = value > 0 ? value : given; };
    fill(o.B, model.B), fill(o.T, model.T), fill(o.L, model.L);
    fill(o.C, model.C), fill(o.H, model.H), fill(o.Vp, model.Vp);
    return;
  }
  throw std::invalid_argument("--model " + o.model +
                              ": known are small, 124m, 355m, 774m, 1.7b, 7b");
}

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i], value = argv[i + 1];
    if (flag == "--device")
      o.device = value;
    else if (flag == "--model")
      o.model = value;
    else if (flag == "--only")
      o.only = value;
    else if (flag == "--gemm-algorithm-cache")
      o.gemm_algorithm_cache = value;
    else if (flag == "--micro-batch-size")
      o.B = std::stoll(value);
    else if (flag == "--seq-length")
      o.T = std::stoll(value);
    else if (flag == "--num-layers")
      o.L = std::stoll(value);
    else if (flag == "--hidden-size")
      o.C = std::stoll(value);
    else if (flag == "--num-attention-heads")
      o.H = std::stoll(value);
    else if (flag == "--vocab-size")
      o.Vp = std::stoll(value);
    else if (flag == "--threads")
      o.num_threads = std::stoi(value);
    else if (flag == "--dropout")
      o.dropout = std::stof(value);
    else if (flag == "--seconds")
      o.seconds = std::stod(value);
    else if (flag == "--dtype")
      o.x = value == "bf16" ? DType::kBFloat16 : DType::kFloat32;
    else if (flag == "--residual-dtype")
      o.fp32_residual = value == "fp32";
    else
      throw std::invalid_argument("unknown flag " + flag);
  }
  if (argc % 2 == 0) throw std::invalid_argument("every flag needs a value");
  apply_model(o);
  return o;
}

// Operands: random numbers, because zeros let a GPU run faster than it would.
class Arrays {
 public:
  explicit Arrays(Backend& backend) : backend_(backend) {}

  Tensor make(DType dtype, std::initializer_list<int64_t> shape) {
    Tensor tensor(nullptr, dtype, shape);
    tensor = Tensor(backend_.allocate(tensor.num_bytes(), Memory::kDevice), dtype, shape);
    fill(tensor);
    return tensor;
  }
  Tensor ids(std::initializer_list<int64_t> shape, int64_t bound) {
    Tensor tensor(nullptr, DType::kInt32, shape);
    std::vector<int32_t> values(static_cast<size_t>(tensor.num_elements()));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<int32_t>(philox_word(1, 1, i) % static_cast<uint64_t>(bound));
    }
    tensor = Tensor(backend_.allocate(tensor.num_bytes(), Memory::kDevice), DType::kInt32, shape);
    backend_.copy(tensor.data(), values.data(), tensor.num_bytes(), Stream::kCompute);
    return tensor;
  }

 private:
  void fill(const Tensor& tensor) {
    const int64_t size = size_bytes(tensor.dtype());
    int64_t done = std::min<int64_t>(tensor.num_elements(), 1 << 18) * size;
    std::vector<unsigned char> bytes(static_cast<size_t>(done));
    for (int64_t i = 0; i < done / size; ++i) {
      const float value =
          static_cast<float>(philox_word(2, 1, static_cast<uint64_t>(i))) / 4294967296.0F - 0.5F;
      const BFloat16 half(value);
      if (tensor.dtype() == DType::kFloat32)
        std::memcpy(&bytes[static_cast<size_t>(i * 4)], &value, 4);
      if (tensor.dtype() == DType::kBFloat16)
        std::memcpy(&bytes[static_cast<size_t>(i * 2)], &half, 2);
    }
    auto* data = tensor.as<unsigned char>();
    backend_.copy(data, bytes.data(), done, Stream::kCompute);
    while (done < tensor.num_bytes()) {
      const int64_t length = std::min(done, tensor.num_bytes() - done);
      backend_.copy(data + done, data, length, Stream::kCompute);
      done += length;
    }
  }
  Backend& backend_;
};

struct Row {
  std::string name;
  int64_t calls;
  double flops, bytes;
  std::function<void()> call;
};

float time_ms(Backend& backend, const std::function<void()>& call, double seconds) {
  const EventId start = backend.create_timed_event(), stop = backend.create_timed_event();
  const auto run = [&](int64_t times) {
    backend.record(start, Stream::kCompute);
    for (int64_t i = 0; i < times; ++i) call();
    backend.record(stop, Stream::kCompute);
    backend.synchronize(stop);
    return backend.elapsed_ms(start, stop);
  };
  run(1);  // first use: choice of algorithms, page faults
  const double once = std::max(1e-3, static_cast<double>(run(1)));
  const auto times = static_cast<int64_t>(std::clamp(1e3 * seconds / once, 1.0, 1000.0));
  return run(times) / static_cast<float>(times);
}

// Everything an operation may be given; one set of buffers for all.
struct Buffers {
  Options o;
  int64_t N, D, F, num_parameters;
  Tensor tokens, word, position, dword, dposition, x1, x2, x3, residual, dresidual, wide1, wide2,
      qkv, dqkv, att, datt;
  Tensor logits, weight, bias, dweight, dbias, mean, rstd, lse, kept, losses, one, two;
  AdamW adamw;
  // A batch of Newton-Schulz iterations of fc1: X and its successor, X X' and its polynomial.
  static constexpr int64_t kMuonBatch = 4;
  Tensor muon_x, muon_next, muon_products, muon_polynomial;

  Buffers(Arrays arrays, const Options& options) : o(options) {
    const DType f32 = DType::kFloat32;
    N = o.B * o.T, D = o.C / o.H, F = 4 * o.C;
    num_parameters = o.L * (12 * o.C * o.C + 13 * o.C) + (o.Vp + o.T + 2) * o.C;
    num_parameters = (num_parameters + kOptimizerBlock - 1) / kOptimizerBlock * kOptimizerBlock;
    tokens = arrays.ids({o.B, o.T}, o.Vp);
    word = arrays.make(o.x, {o.Vp, o.C}), position = arrays.make(o.x, {o.T, o.C});
    dword = arrays.make(f32, {o.Vp, o.C}), dposition = arrays.make(f32, {o.T, o.C});
    x1 = arrays.make(o.x, {o.B, o.T, o.C}), x2 = arrays.make(o.x, {N, o.C});
    x3 = arrays.make(o.x, {N, o.C}), residual = arrays.make(o.r(), {N, o.C});
    dresidual = arrays.make(o.r(), {N, o.C});
    wide1 = arrays.make(o.x, {N, F}), wide2 = arrays.make(o.x, {N, F});
    qkv = arrays.make(o.x, {o.B, o.T, o.H, 3, D}), dqkv = arrays.make(o.x, {o.B, o.T, o.H, 3, D});
    att = arrays.make(o.x, {o.B, o.T, o.H, D}), datt = arrays.make(o.x, {o.B, o.T, o.H, D});
    logits = arrays.make(o.x, {N, o.Vp});
    weight = arrays.make(o.x, {F, o.C}), bias = arrays.make(o.x, {F});
    dweight = arrays.make(f32, {F, o.C}), dbias = arrays.make(f32, {F});
    mean = arrays.make(f32, {N}), rstd = arrays.make(f32, {N});
    if (o.dropout > 0) kept = arrays.make(DType::kInt32, {o.B, o.H, attention_mask_words(o.T)});
    lse = arrays.make(f32, {o.B, o.H, o.T}), losses = arrays.make(f32, {N});
    one = arrays.make(f32, {1}), two = arrays.make(f32, {2});
    if (o.x == DType::kBFloat16) {
      adamw.remainder = arrays.make(DType::kUInt8, {remainder_bytes(num_parameters)});
    } else {
      adamw.master = arrays.make(f32, {num_parameters});
    }
    adamw.param = o.x == f32 ? adamw.master : arrays.make(o.x, {num_parameters});
    adamw.m = arrays.make(f32, {num_parameters}), adamw.v = arrays.make(f32, {num_parameters});
    adamw.block_numbers = arrays.make(DType::kInt32, {num_parameters / kOptimizerBlock});
    adamw.grad = arrays.make(f32, {num_parameters}), adamw.clip = two;
    adamw.decays = arrays.make(DType::kUInt8, {num_parameters / kOptimizerBlock});
    adamw.lr = 1e-9;
    muon_x = arrays.make(o.x, {kMuonBatch, o.C, F});
    muon_next = arrays.make(o.x, {kMuonBatch, o.C, F});
    muon_products = arrays.make(o.x, {kMuonBatch, o.C, o.C});
    muon_polynomial = arrays.make(o.x, {kMuonBatch, o.C, o.C});
  }
  // A view of the first elements.
  static Tensor view(const Tensor& tensor, std::initializer_list<int64_t> shape) {
    return Tensor(tensor.data(), tensor.dtype(), shape);
  }
};

// No row counts in the sum of a step, which is AdamW's.
void add_muon(std::vector<Row>& rows, Backend& backend, const Buffers& b) {
  const auto add = [&](const std::string& name, const auto& op) {
    const Operation work = operation_of(op);
    rows.push_back({name, 0, work.flops, work.bytes, [=, &backend] { backend.run(op); }});
  };
  const int64_t C = b.o.C, F = b.F;
  const MatrixView fc1{.data = Buffers::view(b.dweight, {F * C}),
                       .columns = C,
                       .num_groups = 1,
                       .group_rows = F,
                       .run_rows = F};
  const Tensor matrix = Buffers::view(b.muon_x, {C, F});
  const Tensor &x = b.muon_x, &products = b.muon_products;
  add("muon momentum",
      MuonMomentum{.m = b.adamw.m, .grad = b.adamw.grad, .clip = b.two, .nesterov = true});
  add("muon normalize fc1", NormalizeMatrix{.out = matrix, .inp = fc1, .transposed = true});
  add("muon X X'", BatchedProduct{.out = products, .a = x, .b = x, .transposes_b = true});
  add("muon polynomial", BatchedProduct{.out = b.muon_polynomial,
                                        .a = products,
                                        .b = products,
                                        .c = products,
                                        .alpha = 2.6F,
                                        .beta = -6.3F});
  add("muon next X",
      BatchedProduct{.out = b.muon_next, .a = b.muon_polynomial, .b = x, .c = x, .beta = 4});
  add("muon scale fc1", ScaleMatrix{.out = fc1, .inp = matrix, .transposed = true});
  add("muon update", MuonUpdate{.param = b.adamw.param,
                                .master = b.adamw.master,
                                .remainder = b.adamw.remainder,
                                .update = b.adamw.grad,
                                .lr = 1e-9});
}

void add_linear(std::vector<Row>& rows, Backend& backend, const Buffers& b, const std::string& name,
                int64_t I, int64_t O, bool has_bias = true) {
  const int64_t N = b.N, calls = name == "head" ? 1 : b.o.L;
  const double flops =
      2.0 * static_cast<double>(N) * static_cast<double>(I) * static_cast<double>(O);
  const double x = static_cast<double>(size_bytes(b.o.x));
  const double inp_bytes = static_cast<double>(N * I) * x,
               out_bytes = static_cast<double>(N * O) * x;
  const double weights = static_cast<double>(I * O);
  const Tensor inp = Buffers::view(b.wide1, {N, I});
  const Tensor out = Buffers::view(name == "head" ? b.logits : b.wide2, {N, O});
  const bool head = name == "head";
  const Tensor weight = head ? b.word : Buffers::view(b.weight, {O, I});
  const Tensor bias = !has_bias ? Tensor() : Buffers::view(b.bias, {O});
  const Tensor dweight = head ? b.dword : Buffers::view(b.dweight, {O, I});
  // GELU's output in fc1 and its input in fc2 need a place of their own: the logits' memory serves.
  if (name == "fc1") {
    const Tensor activated = Buffers::view(b.logits, {N, O});
    rows.push_back({name + " forward +bias +gelu", calls, flops,
                    inp_bytes + 2 * out_bytes + weights * x, [=, &backend] {
                      backend.run(LinearActivationForward{.out = activated,
                                                          .pre = out,
                                                          .inp = inp,
                                                          .weight = weight,
                                                          .bias = bias,
                                                          .activation = Activation::kGeluTanh});
                    }});
  } else {
    rows.push_back({name + (has_bias ? " forward +bias" : " forward"), calls, flops,
                    inp_bytes + out_bytes + weights * x, [=, &backend] {
                      backend.run(
                          LinearForward{.out = out, .inp = inp, .weight = weight, .bias = bias});
                    }});
  }
  if (name == "fc2") {
    const Tensor kept = Buffers::view(b.logits, {N, I});
    const Tensor sums = Buffers::view(b.dbias, {I});
    rows.push_back({name + " backward input +gelu +bias", calls, flops,
                    2 * inp_bytes + out_bytes + weights * x, [=, &backend] {
                      backend.run(LinearActivationBackwardInput{.dpre = inp,
                                                                .dbias = sums,
                                                                .dout = out,
                                                                .weight = weight,
                                                                .pre = kept,
                                                                .activation = Activation::kGeluTanh,
                                                                .accumulate = true});
                    }});
  } else {
    rows.push_back({name + " backward input", calls, flops, inp_bytes + out_bytes + weights * x,
                    [=, &backend] {
                      backend.run(LinearBackwardInput{.dinp = inp, .dout = out, .weight = weight});
                    }});
  }
  // Gradients of biases are sums that other operations have at hand.
  rows.push_back(
      {name + " backward weight", calls, flops, inp_bytes + out_bytes + 8 * weights, [=, &backend] {
         backend.run(
             LinearBackwardWeight{.dweight = dweight, .dout = out, .inp = inp, .accumulate = true});
       }});
}

std::vector<Row> rows_of(Backend& backend, const Buffers& b) {
  const Options& o = b.o;
  const Dropout dropout{.p = o.dropout, .seed = 1, .stream = 2};
  const double x = static_cast<double>(size_bytes(o.x));
  const double act = static_cast<double>(b.N * o.C) * x;
  const double n = static_cast<double>(b.num_parameters);
  const double att_flops = 2.0 * static_cast<double>(o.B * o.H * b.D) * static_cast<double>(o.T) *
                           static_cast<double>(o.T);
  const double logit_bytes = static_cast<double>(b.N * o.Vp) * x;
  const float scale = 0.125F;
  const Tensor w = Buffers::view(b.bias, {o.C}), dw = Buffers::view(b.dbias, {o.C});
  const Tensor db = Buffers::view(b.dweight, {o.C});
  const Tensor dbranch_bias(b.dword.data(), DType::kFloat32, {o.C});
  std::vector<Row> rows;
  rows.push_back({"embedding forward", 1, 0, 2 * act, [=, &backend] {
                    backend.run(EmbeddingForward{
                        .out = b.x1, .tokens = b.tokens, .word = b.word, .first_word = 0});
                  }});
  rows.push_back(
      {"embedding backward", 1, 0, act + 8.0 * static_cast<double>(b.N * o.C), [=, &backend] {
         backend.run(EmbeddingBackward{
             .dword = b.dword, .dout = b.x1, .tokens = b.tokens, .first_word = 0});
       }});
  const Tensor x1 = Buffers::view(b.x1, {b.N, o.C}), x2 = Buffers::view(b.x2, {b.N, o.C});
  const double stream = static_cast<double>(b.residual.num_bytes());
  const bool has_dbranch = o.dropout > 0 || o.r() != o.x;
  rows.push_back({"residual+norm forward", 2 * o.L, 0, 2 * (act + stream), [=, &backend] {
                    backend.run(ResidualNormForward{.normed = x2,
                                                    .residual_out = b.residual,
                                                    .mean = b.mean,
                                                    .rstd = b.rstd,
                                                    .residual = b.residual,
                                                    .branch = b.x3,
                                                    .branch_bias = w,
                                                    .weight = w,
                                                    .bias = w,
                                                    .dropout = dropout});
                  }});
  rows.push_back({"residual+norm backward", 2 * o.L + 1, 0,
                  (has_dbranch ? 2 : 1) * act + 3 * stream, [=, &backend] {
                    backend.run(ResidualNormBackward{.dresidual = b.dresidual,
                                                     .dbranch = has_dbranch ? x2 : Tensor(),
                                                     .dbranch_bias = dbranch_bias,
                                                     .dweight = dw,
                                                     .dbias = db,
                                                     .dnormed = x1,
                                                     .dresidual_in = b.dresidual,
                                                     .residual = b.residual,
                                                     .mean = b.mean,
                                                     .rstd = b.rstd,
                                                     .weight = w,
                                                     .dropout = dropout});
                  }});
  add_linear(rows, backend, b, "qkv", o.C, 3 * o.C);
  add_linear(rows, backend, b, "proj", o.C, o.C, /*bias=*/false);
  add_linear(rows, backend, b, "fc1", o.C, b.F);
  rows.push_back({"gelu forward", o.L, 0, 2.0 * static_cast<double>(b.N * b.F) * x, [=, &backend] {
                    backend.run(ActivationForward{
                        .out = b.wide2, .pre = b.wide1, .activation = Activation::kGeluTanh});
                  }});
  add_linear(rows, backend, b, "fc2", b.F, o.C, /*bias=*/false);
  rows.push_back({"attention forward", o.L, att_flops, 4 * act, [=, &backend] {
                    backend.run(AttentionForward{.out = b.att,
                                                 .lse = b.lse,
                                                 .dropout_mask = b.kept,
                                                 .qkv = b.qkv,
                                                 .scale = scale,
                                                 .dropout = dropout});
                  }});
  rows.push_back({"attention backward", o.L, 2.5 * att_flops, 8 * act, [=, &backend] {
                    backend.run(AttentionBackward{.dqkv = b.dqkv,
                                                  .dout = b.datt,
                                                  .out = b.att,
                                                  .lse = b.lse,
                                                  .dropout_mask = b.kept,
                                                  .qkv = b.qkv,
                                                  .scale = scale,
                                                  .dropout_p = dropout.p,
                                                  .dqkv_bias = Buffers::view(b.dbias, {3 * o.C})});
                  }});
  add_linear(rows, backend, b, "head", o.C, o.Vp, /*bias=*/false);
  rows.push_back({"cross_entropy", 1, 0, 2 * logit_bytes, [=, &backend] {
                    backend.run(CrossEntropy{.losses = b.losses,
                                             .logits = b.logits,
                                             .targets = b.tokens,
                                             .vocabulary_size = o.Vp,
                                             .gradient_scale = 1e-4F,
                                             .writes_gradient = true});
                  }});
  rows.push_back({"sample_losses", 1, 0, 4.0 * static_cast<double>(b.N), [=, &backend] {
                    const Tensor losses(b.losses.data(), DType::kFloat32, {o.B, o.T});
                    const Tensor means(b.lse.data(), DType::kFloat32, {o.B});
                    backend.run(SampleLosses{.out = means, .losses = losses});
                  }});
  rows.push_back({"sum", 1, 0, 4.0 * static_cast<double>(b.N), [=, &backend] {
                    backend.run(
                        Sum{.out = b.one, .inp = b.losses, .scale = 1.0F, .accumulate = false});
                  }});
  rows.push_back(
      {"zero gradients", 1, 0, 4 * n, [=, &backend] { backend.run(Zero{.out = b.adamw.grad}); }});
  rows.push_back({"sum_of_squares", 1, 0, 4 * n,
                  [=, &backend] { backend.run(SumOfSquares{.out = b.one, .inp = b.adamw.grad}); }});
  rows.push_back({"clip_coefficient", 1, 0, 8, [=, &backend] {
                    backend.run(
                        ClipCoefficient{.clip = b.two, .sum_of_squares = b.one, .max_norm = 1.0F});
                  }});
  const double step_bytes = o.x == DType::kFloat32 ? 28 : o.x == DType::kFloat16 ? 30 : 28.25;
  rows.push_back({"adamw", 1, 0, n * step_bytes, [=, &backend] { backend.run(b.adamw); }});
  AdamW rounded = b.adamw;
  rounded.m = Tensor(rounded.m.data(), DType::kBFloat16, {b.num_parameters});
  rounded.v = Tensor(rounded.v.data(), DType::kBFloat16, {b.num_parameters});
  rows.push_back(
      {"adamw, bf16 moments", 0, 0, n * (step_bytes - 8), [=, &backend] { backend.run(rounded); }});
  add_muon(rows, backend, b);
  return rows;
}

void run(const Options& o) {
  const std::unique_ptr<Backend> backend =
      o.device == "cuda" ? create_cuda_backend(0) : create_cpu_backend(o.num_threads);
  Arrays arrays(*backend);
  const Buffers buffers(arrays, o);
  RecordingBackend recorder;
  for (const Row& row : rows_of(recorder, buffers)) row.call();
  const std::vector<AnyOperation>& operations = recorder.operations();
  std::fputs(tune_with_file(*backend, operations, o.gemm_algorithm_cache).c_str(), stdout);
  const int64_t workspace_bytes = backend->workspace_bytes(operations);
  backend->set_workspace(backend->allocate(workspace_bytes, Memory::kDevice), workspace_bytes);
  std::printf(
      "%s; %s B %ld T %ld L %ld C %ld H %ld D %ld Vp %ld, %.1f M parameters, dropout %g, workspace "
      "%.1f MiB\n",
      backend->description().c_str(), o.x == DType::kBFloat16 ? "bf16" : "fp32", o.B, o.T, o.L, o.C,
      o.H, buffers.D, o.Vp, static_cast<double>(buffers.num_parameters) / 1e6,
      static_cast<double>(o.dropout), static_cast<double>(workspace_bytes) / 1048576);

  std::vector<Row> rows = rows_of(*backend, buffers);
  std::vector<double> ms;
  double total_ms = 0, total_flops = 0;
  for (const Row& row : rows) {
    const bool wanted = o.only.empty() || row.name.find(o.only) != std::string::npos;
    ms.push_back(wanted ? static_cast<double>(time_ms(*backend, row.call, o.seconds)) : 0.0);
    total_ms += ms.back() * static_cast<double>(row.calls);
    if (wanted) total_flops += row.flops * static_cast<double>(row.calls);
  }
  std::printf("%-30s %6s %10s %9s %9s %7s\n", "operation", "calls", "ms", "TF/s", "GB/s", "share");
  for (size_t i = 0; i < rows.size(); ++i) {
    if (ms[i] == 0) continue;
    std::printf("%-30s %6ld %10.4f %9.3f %9.1f %6.1f%%\n", rows[i].name.c_str(), rows[i].calls,
                ms[i], rows[i].flops / ms[i] / 1e9, rows[i].bytes / ms[i] / 1e6,
                100 * ms[i] * static_cast<double>(rows[i].calls) / total_ms);
  }
  std::printf("sum over one step: %.3f ms, %.1f TF/s, %.0f tokens/s\n", total_ms,
              total_flops / total_ms / 1e9, 1e3 * static_cast<double>(buffers.N) / total_ms);
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  try {
    weft::run(weft::parse(argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
