#include "trainer/profile/operation.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "kernels/checks/check_shapes.h"

namespace weft {
namespace {

double bytes_of(std::initializer_list<Tensor> tensors) {
  double sum = 0;
  for (const Tensor& tensor : tensors) {
    if (tensor) sum += static_cast<double>(tensor.num_bytes());
  }
  return sum;
}

double product(std::initializer_list<int64_t> factors) {
  double result = 1;
  for (const int64_t factor : factors) result *= static_cast<double>(factor);
  return result;
}

// A linear layer has 2 N O I FLOPs in each of its directions.
Operation linear(const char* name, int64_t N, int64_t O, int64_t I, DType dtype, double bytes) {
  return {.name = name,
          .dimensions = "N O I",
          .sizes = {N, O, I},
          .dtype = dtype,
          .flops = 2 * product({N, O, I}),
          .bytes = bytes};
}

// Returns the bytes of the rows of a bias that `rows` rows use: of a table of positions, those of a
// sequence.
double bias_bytes(Tensor bias, int64_t bias_period, Tensor rows) {
  if (!bias) return 0;
  const int64_t used = std::min({num_rows(bias), bias_period, num_rows(rows)});
  return product({used, num_columns(bias), size_bytes(bias.dtype())});
}

Operation rows_operation(const char* name, Tensor rows, double bytes) {
  return {.name = name,
          .dimensions = "N C",
          .sizes = {num_rows(rows), num_columns(rows)},
          .dtype = rows.dtype(),
          .bytes = bytes};
}

Operation flat_operation(const char* name, int64_t n, DType dtype, double bytes) {
  return {.name = name, .dimensions = "n", .sizes = {n}, .dtype = dtype, .bytes = bytes};
}

Operation collective(const char* name, const char* group, Tensor whole, int num_ranks,
                     double share_on_link) {
  return {.name = name,
          .group = group,
          .dimensions = "bytes ranks",
          .sizes = {whole.num_bytes(), num_ranks},
          .dtype = whole.dtype(),
          .bytes = static_cast<double>(whole.num_bytes()) * share_on_link};
}

std::string size_text(int64_t num_bytes) {
  const auto bytes = static_cast<double>(num_bytes);
  if (num_bytes >= 1 << 20) return fmt::format("{:.1f} MiB", bytes / (1 << 20));
  if (num_bytes >= 1 << 10) return fmt::format("{:.1f} KiB", bytes / (1 << 10));
  return fmt::format("{} bytes", num_bytes);
}

double all_but_one(int num_ranks) { return static_cast<double>(num_ranks - 1) / num_ranks; }

}  // namespace

bool is_same_kind(const Operation& a, const Operation& b) {
  return a.sizes == b.sizes && a.dtype == b.dtype && std::string_view(a.name) == b.name &&
         std::string_view(a.group) == b.group;
}

std::string to_string(const Operation& operation) {
  std::string text = operation.name;
  if (operation.is_collective()) {
    return fmt::format("{} {} over {} {} ranks", text, size_text(operation.sizes[0]),
                       operation.sizes[1], operation.group);
  }
  std::string_view names = operation.dimensions;
  for (size_t i = 0; !names.empty(); ++i) {
    const size_t end = std::min(names.find(' '), names.size());
    text += fmt::format(" {}={}", names.substr(0, end), operation.sizes[i]);
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return text + " " + name_of(operation.dtype);
}

Operation zero_operation(Tensor tensor) {
  return flat_operation("zero", tensor.num_elements(), tensor.dtype(), bytes_of({tensor}));
}

Operation cast_operation(Tensor dst, Tensor src) {
  return flat_operation("cast", dst.num_elements(), src.dtype(), bytes_of({dst, src}));
}

// One side may be the host's memory, so the other side's bytes alone count.
Operation copy_operation(int64_t num_bytes) {
  return flat_operation("copy", num_bytes, DType::kUInt8, static_cast<double>(num_bytes));
}

Operation embedding_forward_operation(Tensor out, Tensor tokens) {
  return rows_operation("embedding_forward", out, 2 * bytes_of({out}) + bytes_of({tokens}));
}

Operation embedding_backward_operation(Tensor dword, Tensor dout, Tensor tokens) {
  const int64_t touched_rows = std::min(num_rows(dword), num_rows(dout));
  const double touched_bytes =
      product({touched_rows, num_columns(dword), size_bytes(dword.dtype())});
  return rows_operation("embedding_backward", dout, bytes_of({dout, tokens}) + 2 * touched_bytes);
}

Operation residual_norm_forward_operation(const ResidualNorm& a) {
  const Tensor rows = a.residual ? a.residual : a.residual_out ? a.residual_out : a.branch;
  return rows_operation("residual_norm_forward", rows,
                        bytes_of({a.normed, a.normed_fp8.rows, a.residual_out, a.mean, a.rstd,
                                  a.residual, a.branch, a.weight, a.bias}) +
                            bias_bytes(a.branch_bias, a.bias_period, rows));
}

Operation residual_norm_backward_operation(const ResidualNormBackward& a) {
  // The gradient of a table of positions is written whole.
  const double sums = bytes_of({a.dbranch_bias, a.dweight, a.dbias});
  return rows_operation("residual_norm_backward", a.dresidual,
                        bytes_of({a.dresidual, a.dbranch, a.dnormed, a.dresidual_in, a.residual,
                                  a.mean, a.rstd, a.weight}) +
                            (a.accumulate ? 2 : 1) * sums);
}

Operation linear_forward_operation(Tensor out, Tensor inp, Tensor weight, Tensor bias) {
  return linear("linear_forward", num_rows(inp), weight.shape(0), weight.shape(1), weight.dtype(),
                bytes_of({out, inp, weight, bias}));
}

Operation linear_backward_input_operation(Tensor dinp, Tensor dout, Tensor weight) {
  return linear("linear_backward_input", num_rows(dout), weight.shape(0), weight.shape(1),
                weight.dtype(), bytes_of({dinp, dout, weight}));
}

Operation linear_gelu_forward_operation(Tensor out, Tensor pre, Tensor inp, Tensor weight,
                                        Tensor bias) {
  return linear("linear_gelu_forward", num_rows(inp), weight.shape(0), weight.shape(1),
                weight.dtype(), bytes_of({out, pre, inp, weight, bias}));
}

Operation linear_gelu_backward_input_operation(Tensor dpre, Tensor dbias, Tensor dout,
                                               Tensor weight, Tensor pre, bool accumulate) {
  return linear("linear_gelu_backward_input", num_rows(dout), weight.shape(0), weight.shape(1),
                weight.dtype(),
                bytes_of({dpre, dout, weight, pre}) + (accumulate ? 2 : 1) * bytes_of({dbias}));
}

Operation linear_backward_weight_operation(Tensor dweight, Tensor dbias, Tensor dout, Tensor inp,
                                           bool accumulate) {
  return linear("linear_backward_weight", num_rows(dout), dweight.shape(0), dweight.shape(1),
                dout.dtype(),
                bytes_of({dout, inp}) + (accumulate ? 2 : 1) * bytes_of({dweight, dbias}));
}

// A scale that is derived costs a pass of its own over what is read.
Operation quantize_operation(const Quantize& a) {
  const Tensor& like = a.inp ? a.inp : a.pre;
  const Tensor& fp8 = a.rows ? a.rows : a.transposed;
  const double num_reads = a.derives_scale ? 2 : 1;
  return {.name = "quantize",
          .dimensions = "N C",
          .sizes = {num_rows(like), num_columns(like)},
          .dtype = fp8.dtype(),
          .bytes = num_reads * bytes_of({a.inp, a.pre}) +
                   bytes_of({a.rows, a.transposed, a.value, a.column_sums})};
}

Operation transpose_fp8_operation(Tensor transposed, Tensor rows) {
  return {.name = "transpose_fp8",
          .dimensions = "N C",
          .sizes = {num_rows(rows), num_columns(rows)},
          .dtype = rows.dtype(),
          .bytes = bytes_of({transposed, rows})};
}

Operation fp8_product_operation(const Fp8Product& a) {
  const int64_t M = a.a.shape(0), N = a.b.shape(0), K = a.a.shape(1);
  return {.name = "fp8_product",
          .dimensions = "M N K",
          .sizes = {M, N, K},
          .dtype = a.a.dtype(),
          .flops = 2 * product({M, N, K}),
          .bytes = (a.accumulate ? 2 : 1) * bytes_of({a.out}) + bytes_of({a.a, a.b, a.bias})};
}

// For each tensor an amax is read and becomes 0, a place of the history and both scales are written,
// and the history is read where its maximum is asked for.
Operation update_fp8_scaling_operation(const Fp8ScalingUpdate& a) {
  const int64_t n = a.states.shape(0), num_read = a.uses_maximum ? a.history_len : 0;
  return {.name = "update_fp8_scaling",
          .dimensions = "n history",
          .sizes = {n, a.history_len},
          .dtype = a.states.dtype(),
          .bytes = product({n, 2 + 1 + 2 + num_read, size_bytes(a.states.dtype())})};
}

Operation squared_error_operation(Tensor value, Tensor reference) {
  return flat_operation("squared_error", value.num_elements(), value.dtype(),
                        bytes_of({value, reference}));
}

Operation activation_operation(const char* name, Tensor narrow, Tensor wide, Tensor also_wide) {
  return {.name = name,
          .dimensions = "N F",
          .sizes = {num_rows(narrow), num_columns(narrow)},
          .dtype = narrow.dtype(),
          .bytes = bytes_of({narrow, wide, also_wide})};
}

// The turned elements of queries and keys are read and written; of the angles those of a sequence
// are read.
Operation rotate_operation(const Rotary& a) {
  const int64_t T = a.qkv.shape(1), parts = a.qkv.shape(3), turned = 2 * a.angles.shape(2);
  const int64_t num_heads = a.qkv.shape(0) * T * a.qkv.shape(2) * (parts - 1);
  return {.name = "rotate",
          .dimensions = "heads elements",
          .sizes = {num_heads, turned},
          .dtype = a.qkv.dtype(),
          .bytes = 2 * product({num_heads, turned, size_bytes(a.qkv.dtype())}) +
                   product({T, turned, size_bytes(DType::kFloat32)}) +
                   bytes_of({a.document_bounds})};
}

Operation groups_operation(const char* name, Tensor grouped, Tensor expanded) {
  return {.name = name,
          .dimensions = "N G R D",
          .sizes = {grouped.shape(0) * grouped.shape(1), grouped.shape(2), grouped.shape(3) - 2,
                    grouped.shape(4)},
          .dtype = grouped.dtype(),
          .bytes = bytes_of({grouped, expanded})};
}

Operation attention_forward_operation(const Attention& a) {
  const int64_t B = a.qkv.shape(0), T = a.qkv.shape(1), H = a.qkv.shape(2), D = a.qkv.shape(4);
  return {.name = "attention_forward",
          .dimensions = "B T H D",
          .sizes = {B, T, H, D},
          .dtype = a.qkv.dtype(),
          // How much documents leave to compute is known on the device only.
          .flops = a.document_bounds ? 0 : 2 * product({B, H, T, T, D}),
          .bytes = bytes_of({a.out, a.lse, a.kept, a.qkv, a.document_bounds})};
}

Operation attention_backward_operation(const AttentionBackward& a) {
  const int64_t B = a.qkv.shape(0), T = a.qkv.shape(1), H = a.qkv.shape(2), D = a.qkv.shape(4);
  return {.name = "attention_backward",
          .dimensions = "B T H D",
          .sizes = {B, T, H, D},
          .dtype = a.qkv.dtype(),
          .flops = a.document_bounds ? 0 : 5 * product({B, H, T, T, D}),
          .bytes = bytes_of({a.dqkv, a.dout, a.out, a.lse, a.kept, a.qkv, a.document_bounds}) +
                   (a.accumulate ? 2 : 1) * bytes_of({a.dqkv_bias})};
}

Operation cross_entropy_operation(const char* name, Tensor logits, Tensor statistics,
                                  bool writes_gradient) {
  return {.name = name,
          .dimensions = "N V",
          .sizes = {num_rows(logits), num_columns(logits)},
          .dtype = logits.dtype(),
          .bytes = (writes_gradient ? 2 : 1) * bytes_of({logits}) + bytes_of({statistics})};
}

Operation sum_operation(const char* name, Tensor inp) {
  return flat_operation(name, inp.num_elements(), inp.dtype(), bytes_of({inp}));
}

Operation clip_coefficient_operation() {
  return flat_operation("clip_coefficient", 1, DType::kFloat32, 3 * sizeof(float));
}

// Master, moments and the weights of fp32 models are read and written; the weights of others are
// written alone.
Operation adamw_operation(const AdamW& a) {
  const bool is_own_master = a.master.data() == a.param.data();
  // The update reads the masters of fp16 weights, and not the weights.
  const bool reads_param = a.remainder || is_own_master;
  const Tensor master = is_own_master ? Tensor{} : a.master;
  return flat_operation("adamw", a.param.num_elements(), a.param.dtype(),
                        2 * bytes_of({master, a.remainder, a.m, a.v}) +
                            (reads_param ? 2 : 1) * bytes_of({a.param}) +
                            bytes_of({a.grad, a.decays, a.block_numbers}));
}

Operation masters_operation(const char* name, Tensor param, Tensor remainder, Tensor master) {
  return flat_operation(name, param.num_elements(), param.dtype(),
                        bytes_of({param, remainder, master}));
}

Operation all_reduce_operation(const char* group, Tensor inout, int num_ranks) {
  return collective("all_reduce", group, inout, num_ranks, 2 * all_but_one(num_ranks));
}

Operation reduce_scatter_operation(const char* group, Tensor whole, int num_ranks) {
  return collective("reduce_scatter", group, whole, num_ranks, all_but_one(num_ranks));
}

Operation all_gather_operation(const char* group, Tensor whole, int num_ranks) {
  return collective("all_gather", group, whole, num_ranks, all_but_one(num_ranks));
}

Operation broadcast_operation(const char* group, Tensor inout, int num_ranks) {
  return collective("broadcast", group, inout, num_ranks, 1);
}

Operation exchange_operation(const char* group, int64_t num_bytes, int num_ranks) {
  return {.name = "exchange",
          .group = group,
          .dimensions = "bytes ranks",
          .sizes = {num_bytes, num_ranks},
          .dtype = DType::kUInt8,
          .bytes = static_cast<double>(num_bytes)};
}

}  // namespace weft
