#include "kernels/check_shapes.h"

#include <stdexcept>
#include <string>

namespace weft {

namespace {

using Shape = std::initializer_list<int64_t>;

const char* name_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "fp32";
    case DType::kBFloat16:
      return "bf16";
    case DType::kInt32:
      return "int32";
    case DType::kUInt8:
      return "uint8";
  }
  return "?";
}

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
    require(tensor.dtype() == DType::kFloat32 || tensor.dtype() == DType::kBFloat16,
            std::string(name) + " is " + text_of(tensor) + "; the model's type is fp32 or bf16");
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

void check_normalised(const Checker& check, const Tensor& normed, const Tensor& mean,
                      const Tensor& rstd, const Tensor& inp, const Tensor& weight,
                      const Tensor& bias) {
  const int64_t N = num_rows(inp), C = num_columns(inp);
  check.rows("normed", normed, inp.dtype(), N, C);
  check.elements("mean", mean, DType::kFloat32, N);
  check.elements("rstd", rstd, DType::kFloat32, N);
  check.tensor("weight", weight, inp.dtype(), {C});
  check.tensor("bias", bias, inp.dtype(), {C});
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

void check_attention(const Checker& check, const Tensor& out, const Tensor& lse, const Tensor& qkv,
                     const Dropout& dropout) {
  check.model_type("qkv", qkv);
  check.require(qkv.rank() == 5 && qkv.shape(3) == 3,
                "qkv is " + text_of(qkv) + ", should be (B,T,H,3,D)");
  const int64_t B = qkv.shape(0), T = qkv.shape(1), H = qkv.shape(2), D = qkv.shape(4);
  check.tensor("out", out, qkv.dtype(), {B, T, H, D});
  check.tensor("lse", lse, DType::kFloat32, {B, H, T});
  check.dropout(dropout);
}

}  // namespace

void check_cast(const Tensor& dst, const Tensor& src) {
  const Checker check("cast");
  check.model_type("src", src);
  check.model_type("dst", dst);
  check.elements("dst", dst, dst.dtype(), src.num_elements());
}

void check_embedding_forward(const Tensor& out, const Tensor& tokens, const Tensor& word,
                             const Tensor& position, const Dropout& dropout) {
  const Checker check("embedding_forward");
  check.model_type("out", out);
  check.require(out.rank() == 3, "out is " + text_of(out) + ", should be (B,T,C)");
  const int64_t B = out.shape(0), T = out.shape(1), C = out.shape(2);
  check.tensor("tokens", tokens, DType::kInt32, {B, T});
  check.rows("word", word, out.dtype(), num_rows(word), C);
  if (position) {
    check.rows("position", position, out.dtype(), num_rows(position), C);
    check.require(num_rows(position) >= T, "position is " + text_of(position) + ", should have " +
                                               std::to_string(T) + " rows or more");
  }
  check.dropout(dropout);
}

void check_embedding_backward(const Tensor& dword, const Tensor& dposition, const Tensor& dout,
                              const Tensor& tokens, const Dropout& dropout) {
  const Checker check("embedding_backward");
  check.model_type("dout", dout);
  check.require(dout.rank() == 3, "dout is " + text_of(dout) + ", should be (B,T,C)");
  const int64_t B = dout.shape(0), T = dout.shape(1), C = dout.shape(2);
  check.tensor("tokens", tokens, DType::kInt32, {B, T});
  check.rows("dword", dword, DType::kFloat32, num_rows(dword), C);
  if (dposition) {
    check.rows("dposition", dposition, DType::kFloat32, num_rows(dposition), C);
    check.require(num_rows(dposition) >= T, "dposition is " + text_of(dposition) +
                                                ", should have " + std::to_string(T) +
                                                " rows or more");
  }
  check.dropout(dropout);
}

void check_layernorm_forward(const Tensor& normed, const Tensor& mean, const Tensor& rstd,
                             const Tensor& inp, const Tensor& weight, const Tensor& bias) {
  const Checker check("layernorm_forward");
  check.model_type("inp", inp);
  check.rank("inp", inp, 2, "(N,C)");
  check_normalised(check, normed, mean, rstd, inp, weight, bias);
}

void check_residual_layernorm_forward(const Tensor& normed, const Tensor& residual_out,
                                      const Tensor& mean, const Tensor& rstd,
                                      const Tensor& residual, const Tensor& branch,
                                      const Tensor& weight, const Tensor& bias,
                                      const Dropout& dropout) {
  const Checker check("residual_layernorm_forward");
  check.model_type("residual", residual);
  check.rank("residual", residual, 2, "(N,C)");
  const int64_t N = num_rows(residual), C = num_columns(residual);
  check.rows("branch", branch, residual.dtype(), N, C);
  check.rows("residual_out", residual_out, residual.dtype(), N, C);
  check_normalised(check, normed, mean, rstd, residual, weight, bias);
  check.dropout(dropout);
}

void check_layernorm_backward(const Tensor& dresidual, const Tensor& dbranch, const Tensor& dweight,
                              const Tensor& dbias, const Tensor& dnormed,
                              const Tensor& dresidual_in, const Tensor& inp, const Tensor& mean,
                              const Tensor& rstd, const Tensor& weight, const Dropout& dropout) {
  const Checker check("layernorm_backward");
  check.model_type("inp", inp);
  check.rank("inp", inp, 2, "(N,C)");
  const DType x = inp.dtype();
  const int64_t N = num_rows(inp), C = num_columns(inp);
  check.rows("dresidual", dresidual, x, N, C);
  if (dbranch) check.rows("dbranch", dbranch, x, N, C);
  check.require(dbranch.empty() || dbranch.data() != dresidual.data(),
                "dbranch and dresidual are the same memory; leave dbranch empty where p == 0");
  check.tensor("dweight", dweight, DType::kFloat32, {C});
  check.tensor("dbias", dbias, DType::kFloat32, {C});
  check.rows("dnormed", dnormed, x, N, C);
  if (dresidual_in) check.rows("dresidual_in", dresidual_in, x, N, C);
  check.elements("mean", mean, DType::kFloat32, N);
  check.elements("rstd", rstd, DType::kFloat32, N);
  check.tensor("weight", weight, x, {C});
  check.dropout(dropout);
}

void check_linear_forward(const Tensor& out, const Tensor& inp, const Tensor& weight,
                          const Tensor& bias) {
  check_linear(Checker("linear_forward"), out, inp, weight, bias);
}

void check_linear_gelu_forward(const Tensor& out, const Tensor& pre, const Tensor& inp,
                               const Tensor& weight, const Tensor& bias) {
  const Checker check("linear_gelu_forward");
  check_linear(check, out, inp, weight, bias);
  check.rows("pre", pre, weight.dtype(), num_rows(out), weight.shape(0));
}

void check_linear_backward_input(const Tensor& dinp, const Tensor& dout, const Tensor& weight) {
  check_input_gradient(Checker("linear_backward_input"), "dinp", dinp, dout, weight);
}

void check_linear_gelu_backward_input(const Tensor& dpre, const Tensor& dout, const Tensor& weight,
                                      const Tensor& pre) {
  const Checker check("linear_gelu_backward_input");
  check_input_gradient(check, "dpre", dpre, dout, weight);
  check.rows("pre", pre, weight.dtype(), num_rows(dpre), weight.shape(1));
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

void check_attention_forward(const Tensor& out, const Tensor& lse, const Tensor& qkv,
                             const Dropout& dropout) {
  check_attention(Checker("attention_forward"), out, lse, qkv, dropout);
}

void check_attention_backward(const Tensor& dqkv, const Tensor& dout, const Tensor& out,
                              const Tensor& lse, const Tensor& qkv, const Dropout& dropout) {
  const Checker check("attention_backward");
  check_attention(check, out, lse, qkv, dropout);
  const int64_t B = qkv.shape(0), T = qkv.shape(1), H = qkv.shape(2), D = qkv.shape(4);
  check.tensor("dqkv", dqkv, qkv.dtype(), {B, T, H, 3, D});
  check.tensor("dout", dout, qkv.dtype(), {B, T, H, D});
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
  check.require(n % kOptimizerBlock == 0, "param is " + text_of(args.param) +
                                              "; the number of elements should be a multiple of " +
                                              std::to_string(kOptimizerBlock));
  check.elements("master", args.master, DType::kFloat32, n);
  check.elements("m", args.m, DType::kFloat32, n);
  check.elements("v", args.v, DType::kFloat32, n);
  check.elements("grad", args.grad, DType::kFloat32, n);
  check.elements("decays", args.decays, DType::kUInt8, n / kOptimizerBlock);
  check.elements("clip", args.clip, DType::kFloat32, 2);
  check.require(args.step >= 1,
                "step is " + std::to_string(args.step) + "; the first update is step 1");
}

}  // namespace weft
