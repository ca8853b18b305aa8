// The residual stream: N rows, C columns, with and without each of its parts.
#include "tests/kernels/op_case.h"
#include "tests/kernels/reference.h"

namespace weft::test {

namespace {

constexpr float kEpsilon = 1e-5F;

struct Shape {
  int64_t N, C;
};

struct Parts {
  bool residual = true, branch = true, bias = false, norm = true;
  int64_t period = 1;  // of the bias; above 1 it has three rows more than that
  float p = 0;
  bool rms = false;          // the norm is an RMSNorm
  bool in_place = false;     // residual_out is residual; backward: dresidual is dresidual_in
  bool accumulate = true;    // backward only
  Documents documents = {};  // with a period, which is then the length of a sample
  bool fp32_stream = false;  // the residual stream is fp32 whatever x is
  float weight_offset = 0;
  DType stream(DType x) const { return fp32_stream ? DType::kFloat32 : x; }
  int64_t first_row() const { return period > 1 ? 4 : 0; }
  int64_t bias_rows() const { return period > 1 ? period + 3 : 1; }
};

std::string name_of(const char* operation, DType x, const Shape& s, const Parts& o) {
  return std::string(operation) + "_" + type_name(x) + "_N" + std::to_string(s.N) + "_C" +
         std::to_string(s.C) + (o.residual ? "_residual" : "") + (o.branch ? "_branch" : "") +
         (o.bias ? "_bias" : "") + (o.period > 1 ? "_period" + std::to_string(o.period) : "") +
         o.documents.name() + (o.norm ? o.rms ? "_rms_norm" : "_norm" : "") +
         (o.p > 0 ? "_dropout" : "") + (o.in_place ? "_in_place" : "") +
         (o.accumulate ? "" : "_assign") + (o.fp32_stream ? "_fp32_stream" : "") +
         (o.weight_offset > 0 ? "_offset" : "");
}

Dropout dropout_of(float p) {
  return {.p = p, .seed = 77, .stream = (5ULL << 40) + 3, .first_element = (1ULL << 33) + 6};
}

struct Inputs {
  Values residual, branch, branch_bias, weight, bias, dnormed, dresidual_in, dweight, dbias,
      dbranch_bias;
  reference::Normalised normalised;  // residual, normalised
  Inputs(DType x, const Shape& s, const Parts& o)
      : residual(random_values(s.N * s.C, 1, o.stream(x), 2.0)),
        branch(random_values(s.N * s.C, 2, x)),
        branch_bias(random_values(o.bias_rows() * s.C, 9, x)),
        weight(random_values(s.C, 3, x)),
        bias(random_values(s.C, 4, x)),
        dnormed(random_values(s.N * s.C, 5, x)),
        dresidual_in(random_values(s.N * s.C, 6, o.stream(x))),
        dweight(random_values(s.C, 7, DType::kFloat32)),
        dbias(random_values(s.C, 8, DType::kFloat32)),
        dbranch_bias(random_values(o.bias_rows() * s.C, 10, DType::kFloat32)),
        normalised(norm_of(residual, weight, bias, o)) {}
  static reference::Normalised norm_of(const Values& inp, Values weight, const Values& bias,
                                       const Parts& o) {
    for (double& w : weight) w += o.weight_offset;
    return o.rms ? reference::rms_norm(inp, weight, kEpsilon)
                 : reference::layernorm(inp, weight, bias, kEpsilon);
  }
};

// The rows are some of those of whole samples.
Values bounds_of(const Shape& s, const Parts& o) {
  const int64_t num_samples = (o.first_row() + s.N + o.period - 1) / o.period;
  return document_bounds(o.documents, num_samples, o.period);
}

Tensor bounds_tensor(Arrays& arrays, const Shape& s, const Parts& o) {
  const Values bounds = bounds_of(s, o);
  if (bounds.empty()) return {};
  const auto num_samples = static_cast<int64_t>(bounds.size()) / (2 * o.period);
  return arrays.make(DType::kInt32, {num_samples, o.period, 2}, bounds);
}

// Returns the row of the bias for row n of the branch.
size_t bias_row(const Values& bounds, const Parts& o, size_t n) {
  const size_t row = n + static_cast<size_t>(o.first_row());
  const size_t begin = bounds.empty() ? 0 : static_cast<size_t>(bounds[2 * row]);
  return row % static_cast<size_t>(o.period) - begin;
}

Tensor bias_tensor(Arrays& arrays, DType dtype, const Shape& s, const Parts& o,
                   const Values& values) {
  if (!o.bias) return {};
  return o.period > 1 ? arrays.make(dtype, {o.bias_rows(), s.C}, values)
                      : arrays.make(dtype, {s.C}, values);
}

Outputs run_forward(Backend& backend, DType x, const Shape& s, const Parts& o) {
  const Inputs in(x, s, o);
  const DType r = o.stream(x);
  Arrays arrays(backend);
  ResidualNormForward args;
  args.epsilon = kEpsilon;
  args.dropout = dropout_of(o.p);
  args.bias_period = o.period;
  args.first_row = o.first_row();
  if (o.residual) args.residual = arrays.make(r, {s.N, s.C}, in.residual);
  if (o.branch) {
    args.branch = arrays.make(x, {s.N, s.C}, in.branch);
    args.branch_bias = bias_tensor(arrays, x, s, o, in.branch_bias);
    args.document_bounds = bounds_tensor(arrays, s, o);
    args.residual_out = o.in_place ? args.residual : arrays.make(r, {s.N, s.C});
  }
  if (o.norm) {
    args.normed = arrays.make(x, {s.N, s.C});
    args.rstd = arrays.make(DType::kFloat32, {s.N});
    args.weight = arrays.make(x, {s.C}, in.weight);
    args.weight_offset = o.weight_offset;
    if (!o.rms) {
      args.mean = arrays.make(DType::kFloat32, {s.N});
      args.bias = arrays.make(x, {s.C}, in.bias);
    }
  }
  arrays.run(args);
  Outputs outputs;
  if (o.branch) outputs.push_back(arrays.output("residual_out", args.residual_out));
  if (o.norm) {
    outputs.push_back(arrays.output("normed", args.normed));
    // A bf16 sum that is nearly a tie may be stored either way, and its statistics follow.
    if (!o.rms) outputs.push_back({"mean", arrays.read(args.mean), r});
    outputs.push_back({"rstd", arrays.read(args.rstd), r});
  }
  return outputs;
}

// Returns the branch with its bias.
Values with_bias(const Inputs& in, const Shape& s, const Parts& o) {
  const Values bounds = bounds_of(s, o);
  Values sum = in.branch;
  for (size_t i = 0; i < sum.size() && o.bias; ++i) {
    const auto C = static_cast<size_t>(s.C);
    const size_t row = bias_row(bounds, o, i / C);
    sum[i] += in.branch_bias[row * C + i % C];
  }
  return sum;
}

Outputs expected_forward(DType x, const Shape& s, const Parts& o) {
  const Inputs in(x, s, o);
  Values sum = o.residual ? in.residual : Values(static_cast<size_t>(s.N * s.C), 0.0);
  Outputs outputs;
  if (o.branch) {
    const Values mask = reference::dropout_multipliers(dropout_of(o.p), s.N * s.C);
    // The sum is normalised as it was stored.
    sum = rounded(reference::add(sum, reference::multiply(with_bias(in, s, o), mask)), o.stream(x));
    outputs.push_back({"residual_out", sum});
  }
  if (o.norm) {
    const auto result = Inputs::norm_of(sum, in.weight, in.bias, o);
    outputs.push_back({"normed", result.normed});
    if (!o.rms) outputs.push_back({"mean", result.mean});
    outputs.push_back({"rstd", result.rstd});
  }
  return outputs;
}

bool stores_dbranch(DType x, const Parts& o) { return o.branch && (o.p > 0 || o.stream(x) != x); }

Outputs run_backward(Backend& backend, DType x, const Shape& s, const Parts& o) {
  const Inputs in(x, s, o);
  const DType r = o.stream(x);
  Arrays arrays(backend);
  ResidualNormBackward args;
  args.dropout = dropout_of(o.p);
  args.accumulate = o.accumulate;
  args.bias_period = o.period;
  args.first_row = o.first_row();
  if (o.residual) args.dresidual_in = arrays.make(r, {s.N, s.C}, in.dresidual_in);
  args.dresidual = o.in_place ? args.dresidual_in : arrays.make(r, {s.N, s.C});
  if (stores_dbranch(x, o)) args.dbranch = arrays.make(x, {s.N, s.C});
  args.dbranch_bias = bias_tensor(arrays, DType::kFloat32, s, o, in.dbranch_bias);
  args.document_bounds = bounds_tensor(arrays, s, o);
  if (o.norm) {
    args.dweight = arrays.make(DType::kFloat32, {s.C}, in.dweight);
    if (!o.rms) {
      args.dbias = arrays.make(DType::kFloat32, {s.C}, in.dbias);
      args.mean = arrays.make(DType::kFloat32, {s.N}, in.normalised.mean);
    }
    args.dnormed = arrays.make(x, {s.N, s.C}, in.dnormed);
    args.residual = arrays.make(r, {s.N, s.C}, in.residual);
    args.rstd = arrays.make(DType::kFloat32, {s.N}, in.normalised.rstd);
    args.weight = arrays.make(x, {s.C}, in.weight);
    args.weight_offset = o.weight_offset;
  }
  arrays.run(args);
  Outputs outputs{arrays.output("dresidual", args.dresidual)};
  if (args.dbranch) outputs.push_back(arrays.output("dbranch", args.dbranch));
  // The sums are those of the stored rows, which may be neighbours in bf16.
  if (o.bias) outputs.push_back({"dbranch_bias", arrays.read(args.dbranch_bias), x});
  if (o.norm) {
    outputs.push_back(arrays.output("dweight", args.dweight));
    if (!o.rms) outputs.push_back(arrays.output("dbias", args.dbias));
  }
  return outputs;
}

// Returns the gradients of the norm's input, weight and bias.
reference::Normalised gradients_of_norm(const Inputs& in, const Parts& o) {
  const auto of_inp = [&](const Values& v) {
    return Inputs::norm_of(v, in.weight, in.bias, o).normed;
  };
  const auto of_weight = [&](const Values& v) {
    return Inputs::norm_of(in.residual, v, in.bias, o).normed;
  };
  const auto of_bias = [&](const Values& v) {
    return Inputs::norm_of(in.residual, in.weight, v, o).normed;
  };
  return {reference::gradient(of_inp, in.residual, in.dnormed),
          reference::gradient(of_weight, in.weight, in.dnormed),
          reference::gradient(of_bias, in.bias, in.dnormed)};
}

Values sums_for_bias(const Values& dbranch, const Shape& s, const Parts& o, Values sums) {
  if (!o.accumulate) std::fill(sums.begin(), sums.end(), 0.0);
  const Values bounds = bounds_of(s, o);
  for (size_t i = 0; i < dbranch.size(); ++i) {
    const auto C = static_cast<size_t>(s.C);
    const size_t row = bias_row(bounds, o, i / C);
    sums[row * C + i % C] += dbranch[i];
  }
  return sums;
}

Outputs expected_backward(DType x, const Shape& s, const Parts& o) {
  const Inputs in(x, s, o);
  Values dresidual(static_cast<size_t>(s.N * s.C), 0.0), dweight, dbias;
  if (o.norm) {
    const reference::Normalised gradients = gradients_of_norm(in, o);
    dresidual = gradients.normed;
    dweight = o.accumulate ? reference::add(gradients.mean, in.dweight) : gradients.mean;
    dbias = o.accumulate ? reference::add(gradients.rstd, in.dbias) : gradients.rstd;
  }
  if (o.residual) dresidual = reference::add(dresidual, in.dresidual_in);
  const Values dbranch =
      reference::multiply(dresidual, reference::dropout_multipliers(dropout_of(o.p), s.N * s.C));
  Outputs outputs{{"dresidual", dresidual}};
  if (stores_dbranch(x, o)) outputs.push_back({"dbranch", dbranch});
  if (o.bias) {
    outputs.push_back({"dbranch_bias", sums_for_bias(rounded(dbranch, x), s, o, in.dbranch_bias)});
  }
  if (o.norm) {
    outputs.push_back({"dweight", dweight});
    if (!o.rms) outputs.push_back({"dbias", dbias});
  }
  return outputs;
}

OpCase forward(DType x, Shape s, Parts o) {
  return {name_of("residual_norm_forward", x, s, o),
          [=](Backend& backend) { return run_forward(backend, x, s, o); },
          [=] { return expected_forward(x, s, o); }};
}

OpCase backward(DType x, Shape s, Parts o) {
  return {name_of("residual_norm_backward", x, s, o),
          [=](Backend& backend) { return run_backward(backend, x, s, o); },
          [=] { return expected_backward(x, s, o); }};
}

// Backward on CUDA has a kernel for each range of widths, and in it for each kind of norm with and
// without a bias. The widths are those around the ranges' ends. A block has as many groups of
// threads as fit, and a group takes a row at a time.
void add_layouts(std::vector<OpCase>& cases, DType x, bool fp32_stream) {
  const Parts layer{.bias = true, .fp32_stream = fp32_stream};
  const Parts rms_layer{.bias = true, .p = 0.1F, .rms = true, .fp32_stream = fp32_stream};
  const Parts norm{.branch = false, .accumulate = false, .fp32_stream = fp32_stream};
  const Parts rms_norm{.residual = false, .branch = false, .rms = true, .fp32_stream = fp32_stream};
  const std::vector<Shape> few_rows = {{5, 8},    {41, 64},  {13, 264},  {7, 1024}, {9, 1280},
                                       {1, 1600}, {3, 2560}, {3, 2568},  {2, 4096}, {3, 4104},
                                       {2, 8192}, {3, 8200}, {2, 16384}, {3, 16392}};
  for (const Shape& s : few_rows) {
    for (const Parts& o : {layer, rms_layer, norm, rms_norm}) cases.push_back(backward(x, s, o));
  }
  if (x == DType::kFloat16) return;  // The cases below are large, and bf16 has the same layouts.
  // Blocks take several rows one after the other, more than they fetch ahead, on up to 140
  // multiprocessors.
  const std::vector<Shape> many_rows = {
      {3401, 768}, {841, 2568}, {421, 4104}, {143, 8200}, {143, 16392}};
  for (const Shape& s : many_rows) {
    for (const Parts& o : {layer, rms_norm}) cases.push_back(backward(x, s, o));
  }
}

void add_cases(std::vector<OpCase>& cases, DType x, Sizes sizes, bool fp32_stream) {
  const auto add = [&](OpCase (*direction)(DType, Shape, Parts), const Shape& s, Parts o) {
    o.fp32_stream = fp32_stream;
    cases.push_back(direction(x, s, o));
  };
  const std::vector<Shape> shapes =
      sizes == Sizes::kSmall ? std::vector<Shape>{{4, 8}, {5, 24}, {19, 72}}
                             : std::vector<Shape>{{3, 64},    {37, 96},   {257, 768}, {130, 1032},
                                                  {65, 2048}, {17, 5120}, {5, 12288}};
  for (const Shape& s : shapes) {
    for (const float p : {0.0F, 0.1F}) {
      for (const Parts& o : {
               Parts{.bias = true, .p = p},                                         // every layer
               Parts{.bias = true, .p = p, .in_place = true, .accumulate = false},  //
               Parts{.residual = false, .bias = true, .period = 7, .p = p},         // embedding
               Parts{.residual = false,
               .bias = true,
               .period = 7,
               .p = p,
               .documents = {.length = 4, .is_random = true}},  // positions in documents
               Parts{.bias = true, .norm = false, .p = p, .in_place = true},  // a stage's end
               Parts{.norm = false, .p = p},                                  //
               Parts{.p = p, .accumulate = false},                            // no bias
               Parts{.p = p, .rms = true},                                    // LLaMA's layers
               Parts{.bias = true, .p = p, .weight_offset = 1},               // Nemotron's
               Parts{.p = p, .rms = true, .weight_offset = 1},                //
               Parts{.bias = true, .p = p, .rms = true, .in_place = true, .accumulate = false},
           }) {
        add(forward, s, o);
        add(backward, s, o);
      }
    }
    // A later stage begins with a whole sum.
    add(forward, s, {.branch = false});
    add(backward, s, {.branch = false, .in_place = true});
    add(backward, s, {.residual = false, .branch = false});
    add(forward, s, {.branch = false, .rms = true});
    add(backward, s, {.residual = false, .branch = false, .rms = true});
    add(backward, s,
        {.residual = false, .bias = true, .period = 7, .p = 0.1F, .accumulate = false});
    // Many rows of one position.
    add(backward, s,
        {.residual = false,
         .bias = true,
         .period = 130,
         .accumulate = false,
         .documents = {.length = 2}});
  }
  if (sizes == Sizes::kDevice) add_layouts(cases, x, fp32_stream);
}

}  // namespace

void add_residual_norm_cases(std::vector<OpCase>& cases, DType x, Sizes sizes) {
  add_cases(cases, x, sizes, /*fp32_stream=*/false);
  if (x != DType::kFloat32) add_cases(cases, x, sizes, /*fp32_stream=*/true);
}

}  // namespace weft::test
