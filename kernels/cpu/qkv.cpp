// Rotary positions of queries and keys, and the way back.
#include "kernels/operations/qkv.h"

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

}  // namespace weft::cpu
