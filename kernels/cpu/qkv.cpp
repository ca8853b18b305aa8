// Rotary positions of queries and keys, and the way back; norms of queries and keys.
#include "kernels/operations/qkv.h"

#include <cmath>
#include <vector>

#include "kernels/cpu/loops/norm.h"
#include "kernels/cpu/loops/rows.h"
#include "kernels/cpu/operations.h"

namespace weft::cpu {

namespace {

constexpr int64_t kGrain = 16;  // rows per task

// Turns the pairs of one query or key. The elements of pair i are `stride` apart.
void turn(float* head, const float* cosines, const float* sines, float sign, int64_t num_pairs,
          bool interleaved) {
  const int64_t step = interleaved ? 2 : 1, stride = interleaved ? 1 : num_pairs;
  for (int64_t i = 0; i < num_pairs; ++i) {
    float &a = head[i * step], &b = head[i * step + stride];
    const float cosine = cosines[i], sine = sign * sines[i], old_a = a;
    a = old_a * cosine - b * sine;
    b = b * cosine + old_a * sine;
  }
}

// The place of one query or key.
struct HeadPlace {
  int64_t packed, kept;  // its first element in (B,T,G,R+2,D) and in (B,T,G,R+1,D)
  bool is_key;
};

// Calls body(place) for the queries and keys of the groups [begin, end) of all tokens.
template <typename Body>
void for_each_head(const Tensor& qkv, int64_t begin, int64_t end, const Body& body) {
  const int64_t parts = qkv.shape(3), D = qkv.shape(4);
  for (int64_t group = begin; group < end; ++group) {
    for (int64_t part = 0; part + 1 < parts; ++part) {
      body(HeadPlace{.packed = (group * parts + part) * D,
                     .kept = (group * (parts - 1) + part) * D,
                     .is_key = part + 2 == parts});
    }
  }
}

int64_t num_groups_of(const Tensor& qkv) { return qkv.shape(0) * qkv.shape(1) * qkv.shape(2); }

struct Statistics {
  float mean, rstd;
};
Statistics statistics_of(const float* head, int64_t D, bool has_mean, float epsilon) {
  const float mean = has_mean ? mean_of(head, D) : 0.0F;
  return {mean, 1.0F / std::sqrt(variance_of(head, mean, D) + epsilon)};
}

// The sums over heads that are the gradients of a norm's weight and bias, in fixed pieces of the
// groups: the order of the sums does not depend on threads.
constexpr int64_t kSumPieces = 64;

}  // namespace

int64_t scratch_floats(const Rotary& op) { return op.qkv.shape(4); }

void run(const Context& context, const Rotary& op) {
  const Tensor &qkv = op.qkv, &bounds = op.document_bounds;
  const int64_t T = qkv.shape(1), G = qkv.shape(2), parts = qkv.shape(3), D = qkv.shape(4);
  const int64_t num_pairs = op.angles.shape(2);
  const int64_t first_position = op.first_position + value_of(op.offset);
  context.need_scratch("rotate", scratch_floats(op));
  context.for_each_range(qkv.shape(0) * T, kGrain, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t token = first_position + row % T;
      const int64_t document =
          bounds ? bounds.as<int32_t>()[2 * (row / T * bounds.shape(1) + token)] : 0;
      const float* cosines = op.angles.as<float>() + (token - document) * 2 * num_pairs;
      for (int64_t i = 0; i < G * parts; ++i) {
        if (i % parts == parts - 1) continue;  // the value
        const int64_t first = (row * G * parts + i) * D;
        float* buffer = context.scratch(thread);
        // fp32 rows are turned in their own memory.
        read_row(qkv, first, D, buffer);
        float* head = row_target(qkv, first, buffer);
        turn(head, cosines, cosines + num_pairs, op.inverse ? -1.0F : 1.0F, num_pairs,
             op.interleaved);
        store_row(qkv, first, D, head);
      }
    }
  });
}

int64_t scratch_floats(const QkNormForward& op) { return 4 * op.qkv.shape(4); }
int64_t scratch_floats(const QkNormBackward& op) { return 4 * op.dqkv.shape(4); }

void run(const Context& context, const QkNormForward& op) {
  const QkNormWeights& w = op.weights;
  const int64_t D = op.qkv.shape(4);
  const bool has_bias = !w.q_bias.empty();
  context.need_scratch("qk_norm_forward", scratch_floats(op));
  context.for_each_range(
      num_groups_of(op.qkv), kGrain, [&](int64_t begin, int64_t end, int thread) {
        float *buffer = context.scratch(thread), *bias = buffer + D, *inp = bias + D,
              *out = inp + D;
        for_each_head(op.qkv, begin, end, [&](const HeadPlace& head) {
          const float* x = read_row(op.qkv, head.packed, D, inp);
          if (op.kept) store_row(op.kept, head.kept, D, x);
          const Statistics s = statistics_of(x, D, has_bias, op.epsilon);
          const float* weight =
              read_norm_weight(head.is_key ? w.k : w.q, op.weight_offset, D, buffer);
          if (has_bias) {
            normalise(out, x, s.mean, s.rstd, weight,
                      read_row(head.is_key ? w.k_bias : w.q_bias, 0, D, bias), D);
          } else {
            normalise_by_rms(out, x, s.rstd, weight, D);
          }
          store_row(op.qkv, head.packed, D, out);
        });
      });
}

void run(const Context& context, const QkNormBackward& op) {
  const QkNormWeights &w = op.weights, &dw = op.gradients;
  const int64_t D = op.dqkv.shape(4), num_groups = num_groups_of(op.dqkv);
  const bool has_bias = !w.q_bias.empty();
  context.need_scratch("qk_norm_backward", scratch_floats(op));
  // By piece: the sums for q, q_bias, k and k_bias.
  std::vector<double> sums(static_cast<size_t>(kSumPieces * 4 * D), 0.0);
  context.for_each(kSumPieces, [&](int64_t piece, int thread) {
    float *buffer = context.scratch(thread), *dout = buffer + D, *inp = dout + D, *out = inp + D;
    double* own = sums.data() + piece * 4 * D;
    for_each_head(op.dqkv, num_groups * piece / kSumPieces, num_groups * (piece + 1) / kSumPieces,
                  [&](const HeadPlace& head) {
                    const float* x = read_row(op.kept, head.kept, D, inp);
                    const float* gradient = read_row(op.dqkv, head.packed, D, dout);
                    const Statistics s = statistics_of(x, D, has_bias, op.epsilon);
                    double* sum = own + (head.is_key ? 2 * D : 0);
                    add_parameter_gradient(sum, sum + D, gradient, x, s.mean, s.rstd, D);
                    normalise_backward(
                        out, gradient, x, s.mean, s.rstd,
                        read_norm_weight(head.is_key ? w.k : w.q, op.weight_offset, D, buffer),
                        has_bias, D);
                    store_row(op.dqkv, head.packed, D, out);
                  });
  });
  const Tensor targets[] = {dw.q, dw.q_bias, dw.k, dw.k_bias};
  for (int64_t i = 0; i < 4 * D; ++i) {
    const Tensor& target = targets[i / D];
    if (!target) continue;
    double sum = 0;
    for (int64_t piece = 0; piece < kSumPieces; ++piece)
      sum += sums[static_cast<size_t>(piece * 4 * D + i)];
    float& element = target.as<float>()[i % D];
    element = static_cast<float>(sum) + (op.accumulate ? element : 0.0F);
  }
}

}  // namespace weft::cpu
