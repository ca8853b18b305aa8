// Rotary positions and norms of queries and keys: B samples of T tokens, G groups of R queries.
#include <algorithm>
#include <cmath>
#include <functional>

#include "tests/kernels/op_case.h"
#include "tests/kernels/reference.h"

namespace weft::test {

namespace {

struct Shape {
  int64_t B, T, G, R, D;
  int64_t grouped() const { return B * T * G * (R + 2) * D; }
};

struct Rotation {
  int64_t num_pairs = 0;
  bool interleaved = false, inverse = false;
  Documents documents = {};
  int64_t first_position = 0;
  int64_t offset = 0;  // the part of first_position that is on the device
};

std::string name_of(const char* operation, DType x, const Shape& s) {
  return std::string(operation) + "_" + type_name(x) + "_B" + std::to_string(s.B) + "_T" +
         std::to_string(s.T) + "_G" + std::to_string(s.G) + "_R" + std::to_string(s.R) + "_D" +
         std::to_string(s.D);
}

size_t index(int64_t i) { return static_cast<size_t>(i); }

// (S,2,P) with a position more than there are tokens.
Values angles_of(const Shape& s, const Rotation& r) {
  Values angles;
  for (int64_t position = 0; position <= r.first_position + s.T; ++position) {
    for (const bool is_sine : {false, true}) {
      for (int64_t pair = 0; pair < r.num_pairs; ++pair) {
        const double angle = static_cast<double>(position) * std::pow(0.7, pair);
        angles.push_back(is_sine ? std::sin(angle) : std::cos(angle));
      }
    }
  }
  return rounded(angles, DType::kFloat32);
}

Values documents_of(const Shape& s, const Rotation& r) {
  return document_bounds(r.documents, s.B, r.first_position + s.T);
}

Values rotated(Values qkv, const Shape& s, const Rotation& r) {
  const Values angles = angles_of(s, r), bounds = documents_of(s, r);
  const int64_t num_tokens = r.first_position + s.T;
  for (int64_t head = 0; head < s.grouped() / s.D; ++head) {
    if (head % (s.R + 2) == s.R + 1) continue;
    const int64_t row = head / (s.G * (s.R + 2));
    const int64_t token = r.first_position + row % s.T;
    const int64_t in_bounds = 2 * (row / s.T * num_tokens + token);
    const int64_t begin = bounds.empty() ? 0 : static_cast<int64_t>(bounds[index(in_bounds)]);
    for (int64_t pair = 0; pair < r.num_pairs; ++pair) {
      const int64_t at = (token - begin) * 2 * r.num_pairs + pair;
      const double cosine = angles[index(at)];
      const double sine = angles[index(at + r.num_pairs)] * (r.inverse ? -1 : 1);
      double& a = qkv[index(head * s.D + (r.interleaved ? 2 * pair : pair))];
      double& b = qkv[index(head * s.D + (r.interleaved ? 2 * pair + 1 : r.num_pairs + pair))];
      const double old_a = a;
      a = old_a * cosine - b * sine;
      b = b * cosine + old_a * sine;
    }
  }
  return qkv;
}

OpCase rotate(DType x, Shape s, Rotation r) {
  const std::string name = name_of("rotate", x, s) + "_P" + std::to_string(r.num_pairs) +
                           r.documents.name() + (r.interleaved ? "_interleaved" : "") +
                           (r.inverse ? "_inverse" : "") +
                           (r.first_position > 0 ? "_at" + std::to_string(r.first_position) : "") +
                           (r.offset > 0 ? "_offset" + std::to_string(r.offset) : "");
  return {name,
          [=](Backend& backend) -> Outputs {
            Arrays arrays(backend);
            const Values bounds = documents_of(s, r);
            const int64_t num_tokens = r.first_position + s.T;
            const Tensor qkv =
                arrays.make(x, {s.B, s.T, s.G, s.R + 2, s.D}, random_values(s.grouped(), 1, x));
            arrays.run(Rotary{
                .qkv = qkv,
                .angles =
                    arrays.make(DType::kFloat32, {num_tokens + 1, 2, r.num_pairs}, angles_of(s, r)),
                .first_position = r.first_position - r.offset,
                .offset = arrays.offset(r.offset),
                .document_bounds = bounds.empty()
                                       ? Tensor()
                                       : arrays.make(DType::kInt32, {s.B, num_tokens, 2}, bounds),
                .interleaved = r.interleaved,
                .inverse = r.inverse});
            return {arrays.output("qkv", qkv)};
          },
          [=]() -> Outputs {
            return {{"qkv", rotated(random_values(s.grouped(), 1, x), s, r)}};
          }};
}

struct NormParts {
  bool rms = false, accumulate = true, keeps = true;
  float weight_offset = 0;
};

constexpr float kEpsilon = 1e-3F;

struct NormInputs {
  Values qkv, dqkv, weights[4], gradients[4];  // q, k, q_bias, k_bias
  NormInputs(DType x, const Shape& s)
      : qkv(random_values(s.grouped(), 1, x, 2.0)), dqkv(random_values(s.grouped(), 2, x)) {
    for (uint64_t i = 0; i < 4; ++i) {
      weights[i] = random_values(s.D, 3 + i, x);
      gradients[i] = random_values(s.D, 7 + i, DType::kFloat32);
    }
  }
};

// Calls body(first element, whether it is a key) for each query and key.
void for_each_head(const Shape& s, const std::function<void(size_t, bool)>& body) {
  for (int64_t head = 0; head < s.grouped() / s.D; ++head) {
    const int64_t part = head % (s.R + 2);
    if (part <= s.R) body(index(head * s.D), part == s.R);
  }
}

Values head_at(const Values& values, size_t first, const Shape& s) {
  const auto begin = values.begin() + static_cast<int64_t>(first);
  return {begin, begin + s.D};
}

Values norm_of(const Values& head, Values weight, const Values& bias, const NormParts& o) {
  for (double& w : weight) w += o.weight_offset;
  return o.rms ? reference::rms_norm(head, weight, kEpsilon).normed
               : reference::layernorm(head, weight, bias, kEpsilon).normed;
}

std::string norm_name(const char* direction, DType x, const Shape& s, const NormParts& o) {
  return name_of(direction, x, s) + (o.rms ? "_rms" : "") + (o.accumulate ? "" : "_assign") +
         (o.keeps ? "" : "_alone") + (o.weight_offset > 0 ? "_offset" : "");
}

QkNormWeights weights_on(Arrays& arrays, DType dtype, const Values (&values)[4], const Shape& s,
                         const NormParts& o) {
  const auto make = [&](size_t i) { return arrays.make(dtype, {s.D}, values[i]); };
  QkNormWeights weights{.q = make(0), .k = make(1)};
  if (!o.rms) weights.q_bias = make(2), weights.k_bias = make(3);
  return weights;
}

OpCase qk_norm_forward(DType x, Shape s, NormParts o) {
  return {norm_name("qk_norm_forward", x, s, o),
          [=](Backend& backend) -> Outputs {
            const NormInputs in(x, s);
            Arrays arrays(backend);
            const Tensor qkv = arrays.make(x, {s.B, s.T, s.G, s.R + 2, s.D}, in.qkv);
            const Tensor kept = arrays.make(x, {s.B, s.T, s.G, s.R + 1, s.D});
            arrays.run(QkNormForward{.qkv = qkv,
                                     .kept = o.keeps ? kept : Tensor(),
                                     .weights = weights_on(arrays, x, in.weights, s, o),
                                     .weight_offset = o.weight_offset,
                                     .epsilon = kEpsilon});
            return {arrays.output("qkv", qkv), arrays.output("kept", kept)};
          },
          [=]() -> Outputs {
            const NormInputs in(x, s);
            Values qkv = in.qkv, kept;
            for_each_head(s, [&](size_t first, bool is_key) {
              const Values head = head_at(in.qkv, first, s);
              kept.insert(kept.end(), head.begin(), head.end());
              const Values normed =
                  norm_of(head, in.weights[is_key ? 1 : 0], in.weights[is_key ? 3 : 2], o);
              std::copy(normed.begin(), normed.end(), qkv.begin() + static_cast<int64_t>(first));
            });
            if (!o.keeps) kept.assign(kept.size(), 0.0);
            return {{"qkv", qkv}, {"kept", kept}};
          }};
}

OpCase qk_norm_backward(DType x, Shape s, NormParts o) {
  return {norm_name("qk_norm_backward", x, s, o),
          [=](Backend& backend) -> Outputs {
            const NormInputs in(x, s);
            Values kept_values;
            for_each_head(s, [&](size_t first, bool) {
              const Values head = head_at(in.qkv, first, s);
              kept_values.insert(kept_values.end(), head.begin(), head.end());
            });
            Arrays arrays(backend);
            const Tensor dqkv = arrays.make(x, {s.B, s.T, s.G, s.R + 2, s.D}, in.dqkv);
            const QkNormWeights gradients = weights_on(arrays, DType::kFloat32, in.gradients, s, o);
            arrays.run(
                QkNormBackward{.dqkv = dqkv,
                               .kept = arrays.make(x, {s.B, s.T, s.G, s.R + 1, s.D}, kept_values),
                               .gradients = gradients,
                               .weights = weights_on(arrays, x, in.weights, s, o),
                               .weight_offset = o.weight_offset,
                               .epsilon = kEpsilon,
                               .accumulate = o.accumulate});
            Outputs outputs{arrays.output("dqkv", dqkv), arrays.output("dq", gradients.q),
                            arrays.output("dk", gradients.k)};
            if (!o.rms) {
              outputs.push_back(arrays.output("dq_bias", gradients.q_bias));
              outputs.push_back(arrays.output("dk_bias", gradients.k_bias));
            }
            return outputs;
          },
          [=]() -> Outputs {
            const NormInputs in(x, s);
            Values dqkv = in.dqkv, sums[4];
            for (size_t i = 0; i < 4; ++i)
              sums[i] = o.accumulate ? in.gradients[i] : Values(index(s.D), 0.0);
            for_each_head(s, [&](size_t first, bool is_key) {
              const size_t w = is_key ? 1 : 0, b = is_key ? 3 : 2;
              const Values head = head_at(in.qkv, first, s), dout = head_at(in.dqkv, first, s);
              const auto of_inp = [&](const Values& v) {
                return norm_of(v, in.weights[w], in.weights[b], o);
              };
              const auto of_weight = [&](const Values& v) {
                return norm_of(head, v, in.weights[b], o);
              };
              const Values dinp = reference::gradient(of_inp, head, dout);
              std::copy(dinp.begin(), dinp.end(), dqkv.begin() + static_cast<int64_t>(first));
              sums[w] =
                  reference::add(sums[w], reference::gradient(of_weight, in.weights[w], dout));
              sums[b] = reference::add(sums[b], dout);
            });
            Outputs outputs{{"dqkv", dqkv}, {"dq", sums[0]}, {"dk", sums[1]}};
            if (!o.rms) {
              outputs.push_back({"dq_bias", sums[2]});
              outputs.push_back({"dk_bias", sums[3]});
            }
            return outputs;
          }};
}

void add_norm_cases(std::vector<OpCase>& cases, DType x, Sizes sizes) {
  // On CUDA groups of 8, 16 and 32 threads have a head, or a warp reads it number by number; the
  // last shapes give a thread several heads.
  const std::vector<Shape> shapes =
      sizes == Sizes::kSmall
          ? std::vector<Shape>{{2, 3, 1, 1, 8}, {1, 5, 2, 3, 12}}
          : std::vector<Shape>{{2, 37, 3, 1, 64},   {1, 130, 2, 4, 128}, {2, 9, 1, 2, 256},
                               {2, 37, 3, 2, 145},  {1, 13, 2, 4, 20},   {1, 3, 1, 1, 512},
                               {4, 601, 8, 2, 128}, {2, 1201, 4, 4, 80}};
  for (const Shape& s : shapes) {
    for (const bool rms : {false, true}) {
      cases.push_back(qk_norm_forward(x, s, {.rms = rms}));
      cases.push_back(qk_norm_backward(x, s, {.rms = rms}));
    }
    cases.push_back(qk_norm_forward(x, s, {.rms = true, .keeps = false}));
    cases.push_back(qk_norm_forward(x, s, {.weight_offset = 1}));
    cases.push_back(qk_norm_backward(x, s, {.accumulate = false, .weight_offset = 1}));
  }
}

}  // namespace

void add_qkv_cases(std::vector<OpCase>& cases, DType x, Sizes sizes) {
  const std::vector<Shape> shapes =
      sizes == Sizes::kSmall
          ? std::vector<Shape>{{2, 5, 1, 1, 8}, {1, 7, 2, 3, 16}}
          : std::vector<Shape>{
                {2, 37, 3, 1, 64}, {1, 130, 2, 4, 128}, {2, 37, 3, 2, 145}, {1, 130, 2, 4, 20}};
  for (const Shape& s : shapes) {
    for (const int64_t num_pairs : {s.D / 2, sizes == Sizes::kSmall ? int64_t{3} : s.D / 4}) {
      for (const bool interleaved : {false, true}) {
        cases.push_back(rotate(x, s, {.num_pairs = num_pairs, .interleaved = interleaved}));
        cases.push_back(rotate(x, s,
                               {.num_pairs = num_pairs,
                                .interleaved = interleaved,
                                .inverse = true,
                                .documents = {.length = 4, .is_random = true}}));
        cases.push_back(rotate(x, s,
                               {.num_pairs = num_pairs,
                                .interleaved = interleaved,
                                .documents = {.length = interleaved ? 6 : 0, .is_random = true},
                                .first_position = 11,
                                .offset = interleaved ? 11 : 0}));
      }
    }
  }
  add_norm_cases(cases, x, sizes);
}

}  // namespace weft::test
