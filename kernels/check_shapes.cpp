#include "kernels/check_shapes.h"

#include <stdexcept>
#include <string>
#include <utility>

#include "kernels/split_master.h"

namespace weft {

const char* name_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "fp32";
    case DType::kBFloat16:
      return "bf16";
    case DType::kFloat16:
      return "fp16";
    case DType::kInt32:
      return "int32";
    case DType::kUInt8:
      return "uint8";
    case DType::kFloat8E4M3:
      return "e4m3";
    case DType::kFloat8E5M2:
      return "e5m2";
  }
  return "?";
}

namespace {

using Shape = std::initializer_list<int64_t>;

void append_size(std::string& text, int64_t size) {
  if (text.back() != '(') text += ',';
  text += std::to_string(size);
}

std::string text_of(Shape shape) {
  std::string text = "(";
  for (const int64_t size : shape) append_size(text, size);
  return text + ")";
}

std::string text_of(const Tensor& tensor) {
  std::string text = std::string(name_of(tensor.dtype())) + " (";
  for (int dim = 0; dim < tensor.rank(); ++dim) append_size(text, tensor.shape(dim));
  return text + ")";
}

class Checker {
 public:
  explicit Checker(const char* operation) : operation_(operation) {}

  void require(bool holds, const std::string& what) const {
    if (!holds) throw std::invalid_argument(std::string(operation_) + ": " + what);
  }

  // Checks that the tensor is there and has the model's type.
  void model_type(const char* name, const Tensor& tensor) const {
    present(name, tensor);
    require(is_model_type(tensor.dtype()), std::string(name) + " is " + text_of(tensor) +
                                               "; the model's type is fp32, bf16 or fp16");
  }

  // Checks for exactly this type and shape.
  void tensor(const char* name, const Tensor& tensor, DType dtype, Shape shape) const {
    present(name, tensor);
    bool equal = tensor.dtype() == dtype && tensor.rank() == static_cast<int>(shape.size());
    int dim = 0;
    for (const int64_t size : shape) equal = equal && tensor.shape(dim++) == size;
    if (!equal) mismatch(name, tensor, dtype, shape);
  }

  // Checks for (N,C); the leading dimensions multiply to N.
  void rows(const char* name, const Tensor& tensor, DType dtype, int64_t N, int64_t C) const {
    present(name, tensor);
    const bool equal = tensor.dtype() == dtype && tensor.rank() >= 2 && num_columns(tensor) == C &&
                       num_rows(tensor) == N;
    if (!equal) mismatch(name, tensor, dtype, {N, C});
  }

  // Checks for n elements in any shape: one number per row may be (N) or (B,T).
  void elements(const char* name, const Tensor& tensor, DType dtype, int64_t n) const {
    present(name, tensor);
    if (tensor.dtype() != dtype || tensor.num_elements() != n) mismatch(name, tensor, dtype, {n});
  }

  void whole_blocks(const char* name, const Tensor& tensor) const {
    require(tensor.num_elements() % kOptimizerBlock == 0,
            std::string(name) + " is " + text_of(tensor) +
                "; the number of elements should be a multiple of " +
                std::to_string(kOptimizerBlock));
  }

  void rank(const char* name, const Tensor& tensor, int low, const char* wanted) const {
    present(name, tensor);
    require(tensor.rank() >= low,
            std::string(name) + " is " + text_of(tensor) + ", should be " + wanted);
  }

  void dropout(const Dropout& dropout) const {
    require(dropout.p >= 0.0F && dropout.p < 1.0F,
            "dropout probability is " + std::to_string(dropout.p) + ", should be in [0, 1)");
  }

 private:
  void present(const char* name, const Tensor& tensor) const {
    require(!tensor.empty() && tensor.num_elements() > 0,
            std::string(name) + " is empty, but the operation needs it");
  }
  [[noreturn]] void mismatch(const char* name, const Tensor& tensor, DType dtype,
                             Shape shape) const {
    throw std::invalid_argument(std::string(operation_) + ": " + name + " is " + text_of(tensor) +
                                ", should be " + name_of(dtype) + " " + text_of(shape));
  }

  const char* operation_;
};

// Returns the type that the residual stream may have: that of `tensor` if it is fp32, else the model's.
DType stream_type(const Tensor& tensor, DType x) {
  return tensor.dtype() == DType::kFloat32 ? DType::kFloat32 : x;
}

// Checks the bias of a branch: (C), or (S,C) with a row for each of the period.
void check_branch_bias(const Checker& check, const char* name, const Tensor& bias, DType dtype,
                       int64_t C, int64_t period, int64_t first_row) {
  if (!bias) return;
  check.require(period >= 1 && first_row >= 0, "bias_period is " + std::to_string(period) +
                                                   " and first_row " + std::to_string(first_row));
  if (period == 1) {
    check.elements(name, bias, dtype, C);
    return;
  }
  check.rows(name, bias, dtype, num_rows(bias), C);
  check.require(num_rows(bias) >= period, std::string(name) + " is " + text_of(bias) +
                                              ", should have " + std::to_string(period) +
                                              " rows or more");
}

// Checks the documents of the tokens whose rows of the residual stream begin with `first_row`.
void check_positions(const Checker& check, const Tensor& document_bounds, const Tensor& branch_bias,
                     int64_t N, int64_t period, int64_t first_row) {
  if (!document_bounds) return;
  check.require(branch_bias && period > 1,
                "document_bounds are given, but no table of positions (branch_bias)");
  check.require(document_bounds.rank() == 3,
                "document_bounds is " + text_of(document_bounds) + ", should be (B,T,2)");
  const int64_t B = document_bounds.shape(0);
  check.tensor("document_bounds", document_bounds, DType::kInt32, {B, period, 2});
  check.require(first_row + N <= B * period, "document_bounds is " + text_of(document_bounds) +
                                                 ", but the rows end with " +
                                                 std::to_string(first_row + N));
}

// Checks that tensors that belong together are all absent.
void check_absent(const Checker& check, const char* why,
                  std::initializer_list<std::pair<const char*, const Tensor*>> tensors) {
  for (const auto& [name, tensor] : tensors) {
    check.require(tensor->empty(), std::string(name) + " is given, but there is no " + why);
  }
}

void check_linear(const Checker& check, const Tensor& out, const Tensor& inp, const Tensor& weight,
                  const Tensor& bias) {
  check.model_type("weight", weight);
  check.require(weight.rank() == 2, "weight is " + text_of(weight) + ", should be (O,I)");
  check.rank("inp", inp, 2, "(N,I)");
  const int64_t N = num_rows(inp), O = weight.shape(0), I = weight.shape(1);
  check.rows("inp", inp, weight.dtype(), N, I);
  check.rows("out", out, weight.dtype(), N, O);
  if (bias) check.tensor("bias", bias, weight.dtype(), {O});
}

void check_input_gradient(const Checker& check, const char* dinp_name, const Tensor& dinp,
                          const Tensor& dout, const Tensor& weight) {
  check.model_type("weight", weight);
  check.require(weight.rank() == 2, "weight is " + text_of(weight) + ", should be (O,I)");
  check.rank("dout", dout, 2, "(N,O)");
  const int64_t N = num_rows(dout);
  check.rows("dout", dout, weight.dtype(), N, weight.shape(0));
  check.rows(dinp_name, dinp, weight.dtype(), N, weight.shape(1));
}

void check_attention(const Checker& check, const Tensor& out, const Tensor& lse, const Tensor& kept,
                     const Tensor& qkv, const Tensor& document_bounds, const Tensor& slopes,
                     float dropout_p) {
  check.model_type("qkv", qkv);
  check.require(qkv.rank() == 5 && qkv.shape(3) == 3,
                "qkv is " + text_of(qkv) + ", should be (B,T,H,3,D)");
  const int64_t B = qkv.shape(0), T = qkv.shape(1), H = qkv.shape(2), D = qkv.shape(4);
  check.tensor("out", out, qkv.dtype(), {B, T, H, D});
  check.tensor("lse", lse, DType::kFloat32, {B, H, T});
  if (document_bounds) check.tensor("document_bounds", document_bounds, DType::kInt32, {B, T, 2});
  if (slopes) check.tensor("slopes", slopes, DType::kFloat32, {H});
  check.dropout({.p = dropout_p});
  if (dropout_p > 0.0F) {
    check.tensor("kept", kept, DType::kInt32, {B, H, attention_mask_words(T)});
  }
}

}  // namespace

void check_cast(const Tensor& dst, const Tensor& src) {
  const Checker check("cast");
  check.model_type("src", src);
  check.model_type("dst", dst);
  check.require(src.dtype() == dst.dtype() || src.dtype() == DType::kFloat32 ||
                    dst.dtype() == DType::kFloat32,
                "dst is " + text_of(dst) + " and src is " + text_of(src) + "; one must be fp32");
  check.elements("dst", dst, dst.dtype(), src.num_elements());
}

void check_embedding_forward(const Tensor& out, const Tensor& tokens, const Tensor& word) {
  const Checker check("embedding_forward");
  check.model_type("out", out);
  check.require(out.rank() == 3, "out is " + text_of(out) + ", should be (B,T,C)");
  check.tensor("tokens", tokens, DType::kInt32, {out.shape(0), out.shape(1)});
  check.rows("word", word, out.dtype(), num_rows(word), out.shape(2));
}

void check_embedding_backward(const Tensor& dword, const Tensor& dout, const Tensor& tokens) {
  const Checker check("embedding_backward");
  check.model_type("dout", dout);
  check.require(dout.rank() == 3, "dout is " + text_of(dout) + ", should be (B,T,C)");
  check.tensor("tokens", tokens, DType::kInt32, {dout.shape(0), dout.shape(1)});
  check.rows("dword", dword, DType::kFloat32, num_rows(dword), dout.shape(2));
}

void check_residual_norm_forward(const ResidualNorm& args) {
  const Checker check("residual_norm_forward");
  const bool has_branch = !args.branch.empty();
  const char* name = has_branch ? "branch" : "residual";
  const Tensor& rows = has_branch ? args.branch : args.residual;
  check.model_type(name, rows);
  check.rank(name, rows, 2, "(N,C)");
  const DType x = !has_branch && args.weight ? args.weight.dtype() : rows.dtype();
  const DType r = stream_type(has_branch ? args.residual_out : args.residual, x);
  const int64_t N = num_rows(rows), C = num_columns(rows);
  if (args.residual) check.rows("residual", args.residual, r, N, C);
  if (has_branch) {
    check.rows("residual_out", args.residual_out, r, N, C);
    check_branch_bias(check, "branch_bias", args.branch_bias, x, C, args.bias_period,
                      args.first_row);
    check_positions(check, args.document_bounds, args.branch_bias, N, args.bias_period,
                    args.first_row);
  } else {
    check_absent(check, "branch",
                 {{"residual_out", &args.residual_out},
                  {"branch_bias", &args.branch_bias},
                  {"document_bounds", &args.document_bounds}});
    check.require(args.dropout.p == 0.0F, "dropout is given, but there is no branch");
  }
  if (args.weight) {
    check.model_type("weight", args.weight);
    check.rows("normed", args.normed, x, N, C);
    check.elements("rstd", args.rstd, DType::kFloat32, N);
    check.tensor("weight", args.weight, x, {C});
    if (args.bias) {
      check.elements("mean", args.mean, DType::kFloat32, N);
      check.tensor("bias", args.bias, x, {C});
    } else {
      check_absent(check, "bias", {{"mean", &args.mean}});
    }
  } else {
    check.require(has_branch, "neither a branch nor a weight is given: nothing to do");
    check_absent(check, "weight",
                 {{"normed", &args.normed},
                  {"mean", &args.mean},
                  {"rstd", &args.rstd},
                  {"bias", &args.bias}});
  }
  check.dropout(args.dropout);
}

void check_residual_norm_backward(const ResidualNormBackward& args) {
  const Checker check("residual_norm_backward");
  check.model_type("dresidual", args.dresidual);
  check.rank("dresidual", args.dresidual, 2, "(N,C)");
  const Tensor& of_model = args.weight ? args.weight : args.dbranch;
  if (of_model) check.model_type(args.weight ? "weight" : "dbranch", of_model);
  const DType x = (of_model ? of_model : args.dresidual).dtype();
  const DType r = stream_type(args.dresidual, x);
  const int64_t N = num_rows(args.dresidual), C = num_columns(args.dresidual);
  check.rows("dresidual", args.dresidual, r, N, C);
  if (args.dresidual_in) check.rows("dresidual_in", args.dresidual_in, r, N, C);
  if (args.dbranch) check.rows("dbranch", args.dbranch, x, N, C);
  check.require(
      args.dbranch || args.dbranch_bias.empty() || r == x,
      "dbranch_bias is given, but dbranch, whose rows it sums, is empty; leave it out where "
      "the residual stream has the model's type only");
  check.require(args.dbranch.empty() || args.dbranch.data() != args.dresidual.data(),
                "dbranch and dresidual are the same memory; leave dbranch empty where p == 0");
  check.require(args.dropout.p == 0.0F || args.dbranch,
                "dropout is given, but dbranch, which it applies to, is empty");
  check_branch_bias(check, "dbranch_bias", args.dbranch_bias, DType::kFloat32, C, args.bias_period,
                    args.first_row);
  check_positions(check, args.document_bounds, args.dbranch_bias, N, args.bias_period,
                  args.first_row);
  if (args.weight) {
    check.tensor("weight", args.weight, x, {C});
    check.rows("dnormed", args.dnormed, x, N, C);
    check.rows("residual", args.residual, r, N, C);
    check.elements("rstd", args.rstd, DType::kFloat32, N);
    check.tensor("dweight", args.dweight, DType::kFloat32, {C});
    if (args.mean) {
      check.elements("mean", args.mean, DType::kFloat32, N);
      check.tensor("dbias", args.dbias, DType::kFloat32, {C});
    } else {
      check_absent(check, "mean", {{"dbias", &args.dbias}});
    }
  } else {
    check.rows("dresidual_in", args.dresidual_in, r, N, C);
    check_absent(check, "weight",
                 {{"dnormed", &args.dnormed},
                  {"residual", &args.residual},
                  {"mean", &args.mean},
                  {"rstd", &args.rstd},
                  {"dweight", &args.dweight},
                  {"dbias", &args.dbias}});
  }
  check.dropout(args.dropout);
}

void check_linear_forward(const Tensor& out, const Tensor& inp, const Tensor& weight,
                          const Tensor& bias) {
  check_linear(Checker("linear_forward"), out, inp, weight, bias);
}

void check_linear_backward_input(const Tensor& dinp, const Tensor& dout, const Tensor& weight) {
  check_input_gradient(Checker("linear_backward_input"), "dinp", dinp, dout, weight);
}

void check_linear_gelu_forward(const Tensor& out, const Tensor& pre, const Tensor& inp,
                               const Tensor& weight, const Tensor& bias) {
  const Checker check("linear_gelu_forward");
  check_linear(check, pre, inp, weight, bias);
  check.rows("out", out, weight.dtype(), num_rows(pre), weight.shape(0));
}

void check_linear_gelu_backward_input(const Tensor& dpre, const Tensor& dbias, const Tensor& dout,
                                      const Tensor& weight, const Tensor& pre) {
  const Checker check("linear_gelu_backward_input");
  check_input_gradient(check, "dpre", dpre, dout, weight);
  check.rows("pre", pre, weight.dtype(), num_rows(dpre), weight.shape(1));
  if (dbias) check.tensor("dbias", dbias, DType::kFloat32, {weight.shape(1)});
}

void check_linear_backward_weight(const Tensor& dweight, const Tensor& dbias, const Tensor& dout,
                                  const Tensor& inp) {
  const Checker check("linear_backward_weight");
  check.rank("dweight", dweight, 2, "(O,I)");
  check.model_type("dout", dout);
  check.rank("dout", dout, 2, "(N,O)");
  const int64_t N = num_rows(dout), O = num_columns(dout);
  check.rows("inp", inp, dout.dtype(), N, num_columns(inp));
  check.tensor("dweight", dweight, DType::kFloat32, {O, num_columns(inp)});
  if (dbias) check.tensor("dbias", dbias, DType::kFloat32, {O});
}

void check_quantize(const Quantize& args) {
  const Checker check("quantize");
  const Tensor& like = args.inp ? args.inp : args.pre;
  check.model_type(args.inp ? "inp" : "pre", like);
  check.rank("inp", like, 2, "(N,C)");
  const int64_t N = num_rows(like), C = num_columns(like);
  if (args.pre) check.rows("pre", args.pre, like.dtype(), N, C);
  if (args.value) check.rows("value", args.value, like.dtype(), N, C);
  check.require(args.rows || args.transposed, "neither rows nor transposed are asked for");
  const DType format = (args.rows ? args.rows : args.transposed).dtype();
  check.require(is_float8(format), std::string("fp8 is ") + name_of(format));
  if (args.rows) check.tensor("rows", args.rows, format, {N, C});
  if (args.transposed) check.tensor("transposed", args.transposed, format, {C, N});
  check.tensor("scaling", args.scaling, DType::kFloat32, {2});
  if (args.amax) check.tensor("amax", args.amax, DType::kFloat32, {1});
  if (args.column_sums) check.tensor("column_sums", args.column_sums, DType::kFloat32, {C});
}

void check_fp8_product(const Fp8Product& args) {
  const Checker check("fp8_product");
  check.require(args.a.rank() == 2 && is_float8(args.a.dtype()),
                "a is " + text_of(args.a) + ", should be fp8 (M,K)");
  check.require(args.b.rank() == 2 && is_float8(args.b.dtype()),
                "b is " + text_of(args.b) + ", should be fp8 (N,K)");
  check.require(args.a.dtype() == DType::kFloat8E4M3 || args.b.dtype() == DType::kFloat8E4M3,
                "a and b are e5m2; there is no such product");
  const int64_t M = args.a.shape(0), N = args.b.shape(0), K = args.a.shape(1);
  check.tensor("b", args.b, args.b.dtype(), {N, K});
  check.model_type("out", args.out);
  check.rows("out", args.out, args.out.dtype(), M, N);
  check.require(!args.accumulate || args.out.dtype() == DType::kFloat32,
                "out is " + text_of(args.out) + "; only fp32 accumulates");
  if (args.bias) check.tensor("bias", args.bias, args.out.dtype(), {N});
  check.tensor("a_scaling", args.a_scaling, DType::kFloat32, {2});
  check.tensor("b_scaling", args.b_scaling, DType::kFloat32, {2});
}

void check_update_fp8_scaling(const Fp8ScalingUpdate& args) {
  const Checker check("update_fp8_scaling");
  const int64_t length = args.history_len;
  check.require(args.states.rank() == 2 && length > 0 && args.states.shape(1) >= 2 + length,
                "states is " + text_of(args.states) + ", should be (n,R) with R >= 2 + " +
                    std::to_string(length));
  const int64_t n = args.states.shape(0);
  check.tensor("states", args.states, DType::kFloat32, {n, args.states.shape(1)});
  check.tensor("amaxes", args.amaxes, DType::kFloat32, {n});
  check.require(is_float8(args.format), std::string("the format is ") + name_of(args.format));
  check.require(args.slot >= 0 && args.slot < length,
                "slot " + std::to_string(args.slot) + " of a history of " + std::to_string(length));
}

void check_gelu_forward(const Tensor& out, const Tensor& pre) {
  const Checker check("gelu_forward");
  check.model_type("out", out);
  check.rank("out", out, 2, "(N,F)");
  check.rows("pre", pre, out.dtype(), num_rows(out), num_columns(out));
}

void check_glu_forward(const Tensor& out, const Tensor& pre) {
  const Checker check("glu_forward");
  check.model_type("out", out);
  check.rank("out", out, 2, "(N,F)");
  check.rows("pre", pre, out.dtype(), num_rows(out), 2 * num_columns(out));
}

void check_glu_backward(const Tensor& dpre, const Tensor& dout, const Tensor& pre) {
  const Checker check("glu_backward");
  check.model_type("dout", dout);
  check.rank("dout", dout, 2, "(N,F)");
  check.rows("pre", pre, dout.dtype(), num_rows(dout), 2 * num_columns(dout));
  check.rows("dpre", dpre, dout.dtype(), num_rows(dout), 2 * num_columns(dout));
}

void check_rotate(const Rotary& args) {
  const Checker check("rotate");
  const Tensor &qkv = args.qkv, &angles = args.angles;
  check.model_type("qkv", qkv);
  check.require(qkv.rank() == 5 && qkv.shape(3) >= 3,
                "qkv is " + text_of(qkv) + ", should be (B,T,G,R+2,D)");
  const int64_t B = qkv.shape(0), T = qkv.shape(1), D = qkv.shape(4);
  check.require(angles.rank() == 3, "angles is " + text_of(angles) + ", should be (S,2,P)");
  check.tensor("angles", angles, DType::kFloat32, {angles.shape(0), 2, angles.shape(2)});
  check.require(angles.shape(0) >= T && 2 * angles.shape(2) <= D,
                "angles is " + text_of(angles) + ", but qkv is " + text_of(qkv) +
                    ": should have a row for each position, and no more pairs than a head");
  if (args.document_bounds)
    check.tensor("document_bounds", args.document_bounds, DType::kInt32, {B, T, 2});
}

void check_groups(const char* operation, const Tensor& expanded, const Tensor& grouped) {
  const Checker check(operation);
  check.model_type("grouped", grouped);
  check.require(grouped.rank() == 5 && grouped.shape(3) >= 3,
                "grouped is " + text_of(grouped) + ", should be (B,T,G,R+2,D)");
  const int64_t num_heads = grouped.shape(2) * (grouped.shape(3) - 2);
  check.tensor("expanded", expanded, grouped.dtype(),
               {grouped.shape(0), grouped.shape(1), num_heads, 3, grouped.shape(4)});
}

void check_attention_forward(const Attention& args) {
  const Checker check("attention_forward");
  check_attention(check, args.out, args.lse, args.kept, args.qkv, args.document_bounds, args.slopes,
                  args.dropout.p);
  const Heads& heads = args.heads;
  const int64_t H = args.qkv.shape(2);
  check.require(
      heads.first >= 0 && (heads.total == 0 ? heads.first == 0 : heads.first + H <= heads.total),
      "heads from " + std::to_string(heads.first) + " on of " + std::to_string(heads.total) +
          " are given, but qkv is " + text_of(args.qkv));
  check.require(args.dropout.first_element % kMaskBitsPerDraw == 0,
                "dropout's first element is " + std::to_string(args.dropout.first_element) +
                    ", should be a multiple of " + std::to_string(kMaskBitsPerDraw));
}

void check_attention_backward(const AttentionBackward& args) {
  const Checker check("attention_backward");
  check_attention(check, args.out, args.lse, args.kept, args.qkv, args.document_bounds, args.slopes,
                  args.dropout_p);
  const Tensor& qkv = args.qkv;
  const int64_t B = qkv.shape(0), T = qkv.shape(1), H = qkv.shape(2), D = qkv.shape(4);
  check.tensor("dqkv", args.dqkv, qkv.dtype(), {B, T, H, 3, D});
  check.tensor("dout", args.dout, qkv.dtype(), {B, T, H, D});
  if (args.dqkv_bias) check.elements("dqkv_bias", args.dqkv_bias, DType::kFloat32, H * 3 * D);
}

void check_cross_entropy(const Tensor& losses, const Tensor& logits, const Tensor& targets,
                         const Tensor& loss_mask, int64_t vocabulary_size) {
  const Checker check("cross_entropy");
  check.model_type("logits", logits);
  check.rank("logits", logits, 2, "(N,Vp)");
  const int64_t N = num_rows(logits);
  check.elements("losses", losses, DType::kFloat32, N);
  check.elements("targets", targets, DType::kInt32, N);
  if (loss_mask) check.elements("loss_mask", loss_mask, DType::kFloat32, N);
  check.require(vocabulary_size > 0 && vocabulary_size <= num_columns(logits),
                "vocabulary_size is " + std::to_string(vocabulary_size) + ", but logits is " +
                    text_of(logits));
}

void check_cross_entropy_statistics(const Tensor& statistics, const Tensor& logits,
                                    const Tensor& targets, int64_t first_word,
                                    int64_t vocabulary_size) {
  const Checker check("cross_entropy_statistics");
  check.model_type("logits", logits);
  check.rank("logits", logits, 2, "(N,Vp/tp)");
  const int64_t N = num_rows(logits);
  check.tensor("statistics", statistics, DType::kFloat32, {N, 3});
  check.elements("targets", targets, DType::kInt32, N);
  check.require(vocabulary_size > 0 && first_word >= 0,
                "vocabulary_size is " + std::to_string(vocabulary_size) + " and first_word " +
                    std::to_string(first_word));
}

void check_cross_entropy_gradient(const Tensor& losses, const Tensor& logits,
                                  const Tensor& statistics, const Tensor& targets,
                                  const Tensor& loss_mask, int64_t first_word,
                                  int64_t vocabulary_size) {
  const Checker check("cross_entropy_gradient");
  check.model_type("logits", logits);
  check.rank("logits", logits, 2, "(N,Vp/tp)");
  const int64_t N = num_rows(logits);
  check.require(statistics.rank() == 3,
                "statistics is " + text_of(statistics) + ", should be (tp,N,3)");
  check.tensor("statistics", statistics, DType::kFloat32, {statistics.shape(0), N, 3});
  check.elements("losses", losses, DType::kFloat32, N);
  check.elements("targets", targets, DType::kInt32, N);
  if (loss_mask) check.elements("loss_mask", loss_mask, DType::kFloat32, N);
  check.require(vocabulary_size > 0 && first_word >= 0,
                "vocabulary_size is " + std::to_string(vocabulary_size) + " and first_word " +
                    std::to_string(first_word));
}

void check_sample_losses(const Tensor& out, const Tensor& losses, const Tensor& loss_mask) {
  const Checker check("sample_losses");
  check.rank("losses", losses, 2, "(B,T)");
  const int64_t B = num_rows(losses), T = num_columns(losses);
  check.tensor("losses", losses, DType::kFloat32, {B, T});
  check.elements("out", out, DType::kFloat32, B);
  if (loss_mask) check.elements("loss_mask", loss_mask, DType::kFloat32, B * T);
}

void check_squared_error(const Tensor& out, const Tensor& value, const Tensor& reference) {
  const Checker check("squared_error");
  check.model_type("value", value);
  check.elements("reference", reference, value.dtype(), value.num_elements());
  check.elements("out", out, DType::kFloat32, 2);
}

void check_sum(const char* operation, const Tensor& out, const Tensor& inp) {
  const Checker check(operation);
  check.elements("inp", inp, DType::kFloat32, inp.num_elements());
  check.elements("out", out, DType::kFloat32, 1);
}

void check_clip_coefficient(const Tensor& clip, const Tensor& sum_of_squares) {
  const Checker check("clip_coefficient");
  check.elements("clip", clip, DType::kFloat32, 2);
  check.elements("sum_of_squares", sum_of_squares, DType::kFloat32, 1);
}

void check_adamw(const AdamW& args) {
  const Checker check("adamw");
  check.model_type("param", args.param);
  const int64_t n = args.param.num_elements();
  check.whole_blocks("param", args.param);
  if (args.param.dtype() == DType::kBFloat16) {
    check.elements("remainder", args.remainder, DType::kUInt8, remainder_bytes(n));
  } else {
    check.elements("master", args.master, DType::kFloat32, n);
  }
  const bool is_rounded = args.m.dtype() == DType::kBFloat16;
  check.elements("m", args.m, is_rounded ? DType::kBFloat16 : DType::kFloat32, n);
  check.elements("v", args.v, args.m.dtype(), n);
  if (is_rounded)
    check.elements("block_numbers", args.block_numbers, DType::kInt32, n / kOptimizerBlock);
  check.elements("grad", args.grad, DType::kFloat32, n);
  check.elements("decays", args.decays, DType::kUInt8, n / kOptimizerBlock);
  check.elements("clip", args.clip, DType::kFloat32, 2);
  check.require(args.step >= 1,
                "step is " + std::to_string(args.step) + "; the first update is step 1");
}

void check_masters(const char* operation, const Tensor& param, const Tensor& remainder,
                   const Tensor& master) {
  const Checker check(operation);
  const int64_t n = param.num_elements();
  check.elements("param", param, DType::kBFloat16, n);
  check.whole_blocks("param", param);
  check.elements("remainder", remainder, DType::kUInt8, remainder_bytes(n));
  check.elements("master", master, DType::kFloat32, n);
}

}  // namespace weft
