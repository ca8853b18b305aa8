// Muon: momentum, matrices out of flat memory and back, batches of products, the update of weights.
#include <cmath>

#include "kernels/numbers/split_master.h"
#include "tests/kernels/op_case.h"

namespace weft::test {

namespace {

constexpr DType kSingle = DType::kFloat32;
constexpr double kClip = 0.5;

OpCase momentum(bool nesterov, int64_t n) {
  constexpr double kBeta = 0.9;
  return {std::string("muon_momentum_") + (nesterov ? "nesterov_" : "") + "n" + std::to_string(n),
          [=](Backend& backend) -> Outputs {
            Arrays arrays(backend);
            const Tensor m = arrays.make(kSingle, {n}, random_values(n, 1, kSingle));
            const Tensor grad = arrays.make(kSingle, {n}, random_values(n, 2, kSingle));
            arrays.run(MuonMomentum{.m = m,
                                    .grad = grad,
                                    .clip = arrays.make(kSingle, {2}, {2.0, kClip}),
                                    .beta = kBeta,
                                    .nesterov = nesterov});
            return {arrays.output("m", m), arrays.output("direction", grad)};
          },
          [=]() -> Outputs {
            Values m = random_values(n, 1, kSingle), direction = random_values(n, 2, kSingle);
            for (size_t i = 0; i < m.size(); ++i) {
              const double g = direction[i] * kClip;
              m[i] = kBeta * m[i] + (1 - kBeta) * g;
              direction[i] = nesterov ? (1 - kBeta) * g + kBeta * m[i] : m[i];
            }
            return {{"m", m}, {"direction", direction}};
          }};
}

OpCase muon_update(DType x, int64_t n) {
  constexpr double kLearningRate = 0.01, kDecay = 0.1;
  return {"muon_update_" + type_name(x) + "_n" + std::to_string(n),
          [=](Backend& backend) -> Outputs {
            Arrays arrays(backend);
            const Tensor masters = arrays.make(kSingle, {n}, random_values(n, 1, kSingle));
            MuonUpdate args{.update = arrays.make(kSingle, {n}, random_values(n, 2, kSingle)),
                            .lr = kLearningRate,
                            .weight_decay = kDecay};
            args.param = x == kSingle ? masters : arrays.make(x, {n});
            if (x == DType::kBFloat16) {
              args.remainder = arrays.make(DType::kUInt8, {remainder_bytes(n)});
              arrays.run(SplitMasters{
                  .param = args.param, .remainder = args.remainder, .master = masters});
            } else {
              args.master = masters;
            }
            arrays.run(args);
            if (args.remainder)
              arrays.run(
                  JoinMasters{.master = masters, .param = args.param, .remainder = args.remainder});
            return {arrays.output("param", args.param), arrays.output("master", masters)};
          },
          [=]() -> Outputs {
            Values values = random_values(n, 1, kSingle);
            const Values update = random_values(n, 2, kSingle);
            for (size_t i = 0; i < values.size(); ++i)
              values[i] = values[i] * (1 - kLearningRate * kDecay) - kLearningRate * update[i];
            return {{"param", values}, {"master", values}};
          }};
}

// A matrix in flat memory, and the name of its cases.
struct Layout {
  std::string name;
  int64_t num_pieces, columns, num_groups, group_rows, first_row, run_rows;

  int64_t memory() const { return num_pieces * num_groups * group_rows * columns; }
  int64_t rows() const { return num_groups * run_rows; }
  int64_t all_columns() const { return num_pieces * columns; }
  MatrixView view(Tensor data) const {
    return {data, num_pieces, columns, num_groups, group_rows, first_row, run_rows};
  }
  // The place of an element in flat memory, counted out.
  size_t at(int64_t row, int64_t column) const {
    const int64_t piece = column / columns, group = row / run_rows;
    const int64_t row_of_piece = group * group_rows + first_row + row % run_rows;
    return static_cast<size_t>((piece * num_groups * group_rows + row_of_piece) * columns +
                               column % columns);
  }
};

std::string flavour(const Layout& layout, DType x, bool transposed) {
  return layout.name + "_" + type_name(x) + (transposed ? "_transposed" : "");
}

OpCase normalize(const Layout& layout, DType x, bool transposed) {
  const int64_t rows = layout.rows(), columns = layout.all_columns();
  return {"normalize_matrix_" + flavour(layout, x, transposed),
          [=](Backend& backend) -> Outputs {
            Arrays arrays(backend);
            const Tensor out =
                transposed ? arrays.make(x, {columns, rows}) : arrays.make(x, {rows, columns});
            const int64_t n = layout.memory();
            arrays.run(NormalizeMatrix{
                .out = out,
                .inp = layout.view(arrays.make(kSingle, {n}, random_values(n, 1, kSingle))),
                .transposed = transposed});
            return {arrays.output("out", out)};
          },
          [=]() -> Outputs {
            const Values data = random_values(layout.memory(), 1, kSingle);
            Values out(static_cast<size_t>(rows * columns));
            double squares = 0;
            for (int64_t r = 0; r < rows; ++r) {
              for (int64_t c = 0; c < columns; ++c) {
                const double value = data[layout.at(r, c)];
                squares += value * value;
                out[static_cast<size_t>(transposed ? c * rows + r : r * columns + c)] = value;
              }
            }
            for (double& value : out) value /= std::sqrt(squares);
            return {{"out", out}};
          }};
}

// The matrix lies in a larger one, from (3, 2) on; what flat memory holds beside it stays.
OpCase scale_matrix(const Layout& layout, DType x, bool transposed) {
  constexpr double kScale = 1.75;
  const int64_t rows = layout.rows() + 5, columns = layout.all_columns() + 4;
  return {"scale_matrix_" + flavour(layout, x, transposed),
          [=](Backend& backend) -> Outputs {
            Arrays arrays(backend);
            const int64_t n = layout.memory();
            const Tensor data = arrays.make(kSingle, {n}, random_values(n, 1, kSingle));
            const Values values = random_values(rows * columns, 2, x);
            arrays.run(ScaleMatrix{.out = layout.view(data),
                                   .inp = transposed ? arrays.make(x, {columns, rows}, values)
                                                     : arrays.make(x, {rows, columns}, values),
                                   .first_row = 3,
                                   .first_column = 2,
                                   .transposed = transposed,
                                   .scale = kScale});
            return {arrays.output("data", data)};
          },
          [=]() -> Outputs {
            Values data = random_values(layout.memory(), 1, kSingle);
            const Values values = random_values(rows * columns, 2, x);
            for (int64_t r = 0; r < layout.rows(); ++r) {
              for (int64_t c = 0; c < layout.all_columns(); ++c)
                data[layout.at(r, c)] =
                    kScale * values[static_cast<size_t>(transposed ? (c + 2) * rows + r + 3
                                                                   : (r + 3) * columns + c + 2)];
            }
            return {{"data", data}};
          }};
}

OpCase batched_product(DType x, int64_t B, int64_t M, int64_t N, int64_t K, bool transposes_b,
                       bool has_c) {
  constexpr double kAlpha = -1.5, kBeta = 0.75;
  return {"batched_product_" + type_name(x) + "_b" + std::to_string(B) + "_m" + std::to_string(M) +
              "_n" + std::to_string(N) + "_k" + std::to_string(K) + (transposes_b ? "_nt" : "") +
              (has_c ? "_c" : ""),
          [=](Backend& backend) -> Outputs {
            Arrays arrays(backend);
            const Tensor out = arrays.make(x, {B, M, N});
            const Values b = random_values(B * N * K, 2, x);
            arrays.run(BatchedProduct{
                .out = out,
                .a = arrays.make(x, {B, M, K}, random_values(B * M * K, 1, x)),
                .b = transposes_b ? arrays.make(x, {B, N, K}, b) : arrays.make(x, {B, K, N}, b),
                .c = has_c ? arrays.make(x, {B, M, N}, random_values(B * M * N, 3, x)) : Tensor(),
                .alpha = static_cast<float>(kAlpha),
                .beta = static_cast<float>(kBeta),
                .transposes_b = transposes_b});
            return {arrays.output("out", out)};
          },
          [=]() -> Outputs {
            const Values a = random_values(B * M * K, 1, x), b = random_values(B * N * K, 2, x),
                         c = random_values(B * M * N, 3, x);
            Values out;
            for (int64_t i = 0; i < B; ++i) {
              for (int64_t m = 0; m < M; ++m) {
                for (int64_t n = 0; n < N; ++n) {
                  double sum = 0;
                  for (int64_t k = 0; k < K; ++k)
                    sum += a[static_cast<size_t>((i * M + m) * K + k)] *
                           b[static_cast<size_t>(transposes_b ? (i * N + n) * K + k
                                                              : (i * K + k) * N + n)];
                  out.push_back(kAlpha * sum + (has_c ? kBeta * c[out.size()] : 0));
                }
              }
            }
            return {{"out", out}};
          }};
}

}  // namespace

void add_muon_cases(std::vector<OpCase>& cases, DType x, Sizes sizes) {
  const bool is_device = sizes == Sizes::kDevice;
  for (const int64_t n : {kOptimizerBlock, 7 * kOptimizerBlock}) cases.push_back(muon_update(x, n));
  if (x == kSingle) {
    cases.push_back(momentum(false, 3 * kOptimizerBlock));
    cases.push_back(momentum(true, 3 * kOptimizerBlock));
  }
  std::vector<Layout> layouts = {{"plain", 1, 24, 1, 40, 0, 40},
                                 {"keys_of_groups", 1, 40, 3, 32, 16, 8},
                                 {"columns_of_ranks", 2, 8, 1, 24, 0, 24},
                                 {"all", 2, 8, 5, 24, 8, 16}};
  if (is_device) layouts.push_back({"large", 2, 136, 3, 176, 24, 104});
  for (const Layout& layout : layouts) {
    for (const bool transposed : {false, true}) {
      cases.push_back(normalize(layout, x, transposed));
      cases.push_back(scale_matrix(layout, x, transposed));
    }
  }
  const int64_t size = is_device ? 136 : 24;
  for (const bool has_c : {false, true}) {
    cases.push_back(batched_product(x, 3, size, size, 40, true, has_c));
    cases.push_back(batched_product(x, 2, size, 2 * size, size, false, has_c));
    cases.push_back(batched_product(x, 1, size, size, size, false, has_c));
  }
}

}  // namespace weft::test
