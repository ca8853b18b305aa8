// Quantizing, products of fp8 operands and delayed scales.
#include <cmath>

#include "kernels/numbers/float8.h"
#include "tests/kernels/op_case.h"
#include "tests/kernels/reference.h"

namespace weft::test {

namespace {

struct Shape {
  int64_t N, C;
};

enum class Kind { kPlain, kActivation, kActivationGradient, kSquaredRelu };
// GPUs have another kernel for numbers that are stored by rows alone.
enum class Layouts { kBoth, kRows, kTransposed };

std::string name_of(const char* operation, DType format, const Shape& s, Kind kind) {
  const char* kinds[] = {"", "_gelu", "_gelu_gradient", "_squared_relu"};
  return std::string(operation) + "_" + type_name(format) + "_N" + std::to_string(s.N) + "_C" +
         std::to_string(s.C) + kinds[static_cast<int>(kind)];
}

Values inputs(const Shape& s) { return random_values(s.N * s.C, 50, DType::kBFloat16, 3.0); }
Values pres(const Shape& s) { return random_values(s.N * s.C, 51, DType::kBFloat16, 3.0); }

Activation activation_of(Kind kind) {
  return kind == Kind::kSquaredRelu ? Activation::kSquaredRelu : Activation::kGeluTanh;
}
bool is_output(Kind kind) { return kind == Kind::kActivation || kind == Kind::kSquaredRelu; }

// The numbers before they are rounded.
Values values_of(const Shape& s, Kind kind) {
  if (kind == Kind::kPlain) return inputs(s);
  if (is_output(kind)) return reference::activation(pres(s), activation_of(kind));
  return reference::gradient(
      [](const Values& pre) { return reference::activation(pre, Activation::kGeluTanh); }, pres(s),
      inputs(s));
}

double largest_of(const Values& values) {
  double largest = 0;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

Values transposed(const Values& rows, const Shape& s) {
  Values result(rows.size());
  for (int64_t n = 0; n < s.N; ++n) {
    for (int64_t c = 0; c < s.C; ++c)
      result[static_cast<size_t>(c * s.N + n)] = rows[static_cast<size_t>(n * s.C + c)];
  }
  return result;
}

// A number in fp8 is compared after it is multiplied with the inverse scale.
Output unscaled(Output output, double inverse) {
  for (double& value : output.values) value *= inverse;
  return output;
}

OpCase quantize(DType format, Shape s, Kind kind, Layouts layouts) {
  const char* names[] = {"", "_rows", "_transposed"};
  const bool has_rows = layouts != Layouts::kTransposed, has_columns = layouts != Layouts::kRows;
  return {
      name_of("quantize", format, s, kind) + names[static_cast<int>(layouts)],
      [=](Backend& backend) -> Outputs {
        const DType x = DType::kBFloat16, f = DType::kFloat32;
        Arrays arrays(backend);
        const Tensor rows = has_rows ? arrays.make(format, {s.N, s.C}) : Tensor();
        const Tensor columns = has_columns ? arrays.make(format, {s.C, s.N}) : Tensor();
        const Tensor scaling = arrays.make(f, {2}), amax = arrays.make(f, {1}, {0.5});
        const Tensor sums =
            has_columns ? arrays.make(f, {s.C}, Values(static_cast<size_t>(s.C), 1.0)) : Tensor();
        const Tensor value = arrays.make(x, {s.N, s.C});
        arrays.run(
            Quantize{.rows = rows,
                     .transposed = columns,
                     .value = value,
                     .column_sums = sums,
                     .scaling = scaling,
                     .derives_scale = true,
                     .amax = amax,
                     .inp = is_output(kind) ? Tensor() : arrays.make(x, {s.N, s.C}, inputs(s)),
                     .pre = kind == Kind::kPlain ? Tensor() : arrays.make(x, {s.N, s.C}, pres(s)),
                     .activation = activation_of(kind)});
        const double inverse = arrays.read(scaling)[0];
        Outputs outputs = {arrays.output("value", value), arrays.output("scaling", scaling),
                           arrays.output("amax", amax)};
        if (has_rows) outputs.push_back(unscaled(arrays.output("rows", rows), inverse));
        if (has_columns) {
          outputs.push_back(unscaled(arrays.output("transposed", columns), inverse));
          outputs.push_back(arrays.output("sums", sums));
        }
        return outputs;
      },
      [=]() -> Outputs {
        const Values values = values_of(s, kind);
        const double amax = largest_of(values);
        const double scale = static_cast<double>(fp8_scale(static_cast<float>(amax), format));
        Outputs outputs = {{"value", values}, {"scaling", {1 / scale, scale}}, {"amax", {amax}}};
        if (has_rows) outputs.push_back({"rows", values});
        if (has_columns) {
          Values sums(static_cast<size_t>(s.C), 1.0);
          for (size_t i = 0; i < values.size(); ++i) sums[i % sums.size()] += values[i];
          outputs.push_back({"transposed", transposed(values, s)});
          outputs.push_back({"sums", sums});
        }
        return outputs;
      },
      Accuracy::kRounded};
}

// With a scale that is too large, numbers become the format's largest; NaN and infinity become NaN.
OpCase quantize_beyond(DType format, Layouts layouts) {
  const Shape s{16, 16};
  const bool has_columns = layouts == Layouts::kBoth;
  const auto numbers = [=] {
    Values values(static_cast<size_t>(s.N * s.C), 0.25);
    values[0] = 1e30;
    values[1] = -1e30;
    values[2] = INFINITY;
    values[3] = NAN;
    return values;
  };
  return {name_of("quantize_beyond", format, s, Kind::kPlain) + (has_columns ? "" : "_rows"),
          [=](Backend& backend) -> Outputs {
            const DType x = DType::kBFloat16;
            Arrays arrays(backend);
            const Tensor rows = arrays.make(format, {s.N, s.C});
            const Tensor columns = has_columns ? arrays.make(format, {s.C, s.N}) : Tensor();
            arrays.run(Quantize{.rows = rows,
                                .transposed = columns,
                                .scaling = arrays.make(DType::kFloat32, {2}, {0.25, 4.0}),
                                .inp = arrays.make(x, {s.N, s.C}, numbers())});
            Outputs outputs = {arrays.output("rows", rows)};
            if (has_columns) outputs.push_back(arrays.output("transposed", columns));
            for (Output& output : outputs) {
              for (double& value : output.values)
                if (std::isnan(value)) value = -12345;
            }
            return outputs;
          },
          [=]() -> Outputs {
            Values values(static_cast<size_t>(s.N * s.C), 1.0);
            values[0] = static_cast<double>(float8_format(format).largest);
            values[1] = -values[0];
            values[2] = values[3] = -12345;
            Outputs outputs = {{"rows", values}};
            if (has_columns) outputs.push_back({"transposed", transposed(values, s)});
            return outputs;
          }};
}

// Returns how many numbers differ.
double num_different(const Values& a, const Values& b) {
  double count = 0;
  for (size_t i = 0; i < a.size(); ++i) count += a[i] == b[i] ? 0 : 1;
  return count;
}

// A norm that writes its output in fp8 writes the bytes that quantizing its output would write, and
// finds the same largest number. Some numbers are too large for the format; with `overflows` some
// are infinite in bf16.
OpCase norm_in_fp8(Shape s, DType stream, bool is_rms, bool has_branch, bool overflows) {
  const std::string name = std::string("residual_norm_forward_fp8_") + type_name(stream) + "_N" +
                           std::to_string(s.N) + "_C" + std::to_string(s.C) +
                           (is_rms ? "_rms" : "") + (has_branch ? "_branch" : "") +
                           (overflows ? "_overflows" : "");
  return {
      name,
      [=](Backend& backend) -> Outputs {
        const DType x = DType::kBFloat16, f = DType::kFloat32, e4m3 = DType::kFloat8E4M3;
        Arrays arrays(backend);
        Values weight = random_values(s.C, 56, x, 2.0);
        if (overflows) weight[1] = weight[static_cast<size_t>(s.C - 1)] = 0x1.FEp127;
        ResidualNormForward norm{
            .residual = arrays.make(stream, {s.N, s.C}, random_values(s.N * s.C, 57, stream, 2.0)),
            .weight = arrays.make(x, {s.C}, weight)};
        norm.rstd = arrays.make(f, {s.N});
        if (!is_rms) {
          norm.mean = arrays.make(f, {s.N});
          norm.bias = arrays.make(x, {s.C}, random_values(s.C, 58, x));
        }
        if (has_branch) {
          norm.branch = arrays.make(x, {s.N, s.C}, inputs(s));
          norm.residual_out = arrays.make(stream, {s.N, s.C});
        }
        const Tensor scaling = arrays.make(f, {2}, {1.0 / 256, 256.0});
        const double before =
            has_branch ? 1000.0 : 0.25;  // above all numbers, or below the largest
        const Tensor amax = arrays.make(f, {1}, {before}), wanted = arrays.make(f, {1}, {before});
        const auto bytes = [&](int64_t rows, int64_t columns) {
          return arrays.make(e4m3, {rows, columns});
        };
        const Tensor alone = bytes(s.N, s.C), beside = bytes(s.N, s.C), rows = bytes(s.N, s.C);
        const Tensor columns = bytes(s.C, s.N), transposed = bytes(s.C, s.N);
        norm.normed_fp8 = {.rows = alone, .scaling = scaling, .amax = amax};
        arrays.run(norm);
        norm.normed = arrays.make(x, {s.N, s.C});
        norm.normed_fp8 = {.rows = beside, .scaling = scaling};
        arrays.run(norm);
        arrays.run(Quantize{.rows = rows,
                            .transposed = columns,
                            .scaling = scaling,
                            .amax = wanted,
                            .inp = norm.normed});
        arrays.run(TransposeFp8{.transposed = transposed, .rows = alone});
        const auto different = [&](const Tensor& a, const Tensor& b) {
          const auto bytes_of = [&](const Tensor& t) {
            return arrays.read(Tensor(t.data(), DType::kUInt8, {t.num_bytes()}));
          };
          return Values{num_different(bytes_of(a), bytes_of(b))};
        };
        return {{"different alone", different(alone, rows)},
                {"different beside normed", different(beside, rows)},
                {"different transposed", different(transposed, columns)},
                {"different amax", different(amax, wanted)},
                {"finite amax", {std::isfinite(arrays.read(amax)[0]) ? 1.0 : 0.0}}};
      },
      [=]() -> Outputs {
        return {{"different alone", {0}},
                {"different beside normed", {0}},
                {"different transposed", {0}},
                {"different amax", {0}},
                {"finite amax", {overflows ? 0.0 : 1.0}}};
      }};
}

struct ProductShape {
  int64_t M, N, K;
};

OpCase product(DType a_format, DType b_format, DType out_type, ProductShape s, bool with_bias,
               bool accumulate) {
  const auto a_values = [=] { return random_values(s.M * s.K, 52, a_format, 2.0); };
  const auto b_values = [=] { return random_values(s.N * s.K, 53, b_format, 2.0); };
  const auto bias_values = [=] { return random_values(s.N, 54, out_type); };
  const auto out_values = [=] { return random_values(s.M * s.N, 55, out_type); };
  const std::string name =
      std::string("fp8_product_") + type_name(a_format) + "_" + type_name(b_format) + "_" +
      type_name(out_type) + "_M" + std::to_string(s.M) + "_N" + std::to_string(s.N) + "_K" +
      std::to_string(s.K) + (with_bias ? "_bias" : "") + (accumulate ? "_accumulate" : "");
  return {name,
          [=](Backend& backend) -> Outputs {
            const DType f = DType::kFloat32;
            Arrays arrays(backend);
            const Tensor out = arrays.make(out_type, {s.M, s.N}, out_values());
            arrays.run(Fp8Product{
                .out = out,
                .a = arrays.make(a_format, {s.M, s.K}, a_values()),
                .b = arrays.make(b_format, {s.N, s.K}, b_values()),
                .a_scaling = arrays.make(f, {2}, {0.5, 2.0}),
                .b_scaling = arrays.make(f, {2}, {2.0, 0.5}),
                .bias = with_bias ? arrays.make(out_type, {s.N}, bias_values()) : Tensor(),
                .accumulate = accumulate});
            return {arrays.output("out", out)};
          },
          [=]() -> Outputs {
            Values out = reference::linear(a_values(), b_values(),
                                           with_bias ? bias_values() : Values(), s.K, s.N);
            if (accumulate) out = reference::add(out, out_values());
            return {{"out", out}};
          },
          Accuracy::kFp8Sums};
}

// Two tensors: one with an amax, one whose amax is not finite.
OpCase update_scaling(bool uses_maximum) {
  return {std::string("update_fp8_scaling") + (uses_maximum ? "_maximum" : "_most_recent"),
          [=](Backend& backend) -> Outputs {
            Arrays arrays(backend);
            const DType f = DType::kFloat32;
            const Tensor states = arrays.make(
                f, {2, 6}, {1 / 7.0, 7.0, 1.0, 2.0, 3.0, 5.0, 1 / 9.0, 9.0, 0.0, 0.0, 0.0, 5.0});
            const Tensor amaxes = arrays.make(f, {2}, {2.5, INFINITY});
            arrays.run(UpdateFp8Scaling{.states = states,
                                        .history_len = 3,
                                        .amaxes = amaxes,
                                        .format = DType::kFloat8E5M2,
                                        .slot = 1,
                                        .margin = 1,
                                        .uses_maximum = uses_maximum});
            return {arrays.output("states", states), arrays.output("amaxes", amaxes)};
          },
          [=]() -> Outputs {
            const double scale = 57344.0 / 2 / (uses_maximum ? 3.0 : 2.5);
            return {{"states",
                     {1 / scale, scale, 1.0, 2.5, 3.0, 5.0, 1 / 9.0, 9.0, 0.0, 0.0, 0.0, 5.0}},
                    {"amaxes", {0.0, 0.0}}};
          }};
}

// Sums that are added to what is there, for a product whose relative error is 2^-7.
OpCase squared_error(DType x, int64_t n) {
  const auto reference = [=] { return random_values(n, 1, x); };
  const auto value = [=] {
    Values values = reference();
    const Values errors = random_values(n, 2, x, 0x1p-7);
    for (size_t i = 0; i < values.size(); ++i) values[i] += errors[i];
    return rounded(values, x);
  };
  return {"squared_error_" + type_name(x) + "_n" + std::to_string(n),
          [=](Backend& backend) -> Outputs {
            Arrays arrays(backend);
            const Tensor out = arrays.make(DType::kFloat32, {2}, {0.25, 0.5});
            arrays.run(SquaredError{.out = out,
                                    .value = arrays.make(x, {n}, value()),
                                    .reference = arrays.make(x, {n}, reference()),
                                    .accumulate = n % 2 == 1});
            return {arrays.output("out", out)};
          },
          [=]() -> Outputs {
            const Values got = value(), wanted = reference();
            Values sums = n % 2 == 1 ? Values{0.25, 0.5} : Values{0, 0};
            for (size_t i = 0; i < got.size(); ++i) {
              sums[0] += (got[i] - wanted[i]) * (got[i] - wanted[i]);
              sums[1] += wanted[i] * wanted[i];
            }
            return {{"out", sums}};
          }};
}

}  // namespace

void add_fp8_cases(std::vector<OpCase>& cases, Sizes sizes) {
  const DType e4m3 = DType::kFloat8E4M3, e5m2 = DType::kFloat8E5M2;
  const std::vector<Shape> shapes = sizes == Sizes::kSmall
                                        ? std::vector<Shape>{{16, 32}, {80, 16}}
                                        : std::vector<Shape>{{64, 128}, {208, 400}, {1024, 784}};
  for (const Shape& s : shapes) {
    for (const DType format : {e4m3, e5m2}) {
      for (const Kind kind :
           {Kind::kPlain, Kind::kActivation, Kind::kActivationGradient, Kind::kSquaredRelu}) {
        for (const Layouts layouts : {Layouts::kBoth, Layouts::kRows, Layouts::kTransposed})
          cases.push_back(quantize(format, s, kind, layouts));
      }
    }
  }
  for (const DType format : {e4m3, e5m2}) {
    cases.push_back(quantize_beyond(format, Layouts::kBoth));
    cases.push_back(quantize_beyond(format, Layouts::kRows));
  }
  // CUDA has a kernel for each range of widths: these are the widest rows of each, in a stream of
  // bf16 or fp32, and some beyond.
  const std::vector<Shape> norms =
      sizes == Sizes::kSmall
          ? std::vector<Shape>{{16, 16}, {48, 80}}
          : std::vector<Shape>{{16, 256},   {32, 384},  {16, 512},  {272, 768},  {128, 1024},
                               {400, 2048}, {64, 2064}, {16, 8192}, {16, 16384}, {16, 16400}};
  for (const Shape& s : norms) {
    for (const DType stream : {DType::kBFloat16, DType::kFloat32}) {
      cases.push_back(norm_in_fp8(s, stream, false, true, false));
      cases.push_back(norm_in_fp8(s, stream, true, false, false));
      cases.push_back(norm_in_fp8(s, stream, false, false, true));
    }
  }
  const std::vector<ProductShape> products =
      sizes == Sizes::kSmall ? std::vector<ProductShape>{{16, 16, 32}, {48, 32, 16}}
                             : std::vector<ProductShape>{{64, 128, 256}, {1024, 768, 784}};
  for (const ProductShape& s : products) {
    cases.push_back(product(e4m3, e4m3, DType::kBFloat16, s, true, false));
    cases.push_back(product(e5m2, e4m3, DType::kBFloat16, s, false, false));
    cases.push_back(product(e5m2, e4m3, DType::kFloat32, s, false, true));
    cases.push_back(product(e4m3, e4m3, DType::kFloat32, s, false, true));
  }
  cases.push_back(update_scaling(false));
  cases.push_back(update_scaling(true));
  for (const DType x : {DType::kBFloat16, DType::kFloat32}) {
    for (const int64_t n : {1, 1000, 300001}) cases.push_back(squared_error(x, n));
  }
  if (sizes == Sizes::kDevice) cases.push_back(squared_error(DType::kBFloat16, 5000001));
}

}  // namespace weft::test
