// What becomes of queries, keys and values before attention: rotary positions, and keys and values
// that a group of queries shares; and the backward of both.
#include "kernels/operations/qkv.h"

#include <algorithm>

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

// Copies n elements between tensors of one type.
void copy_elements(const Tensor& out, int64_t to, const Tensor& inp, int64_t from, int64_t n) {
  const int64_t size = size_bytes(out.dtype());
  std::copy_n(inp.as<const char>() + from * size, n * size, out.as<char>() + to * size);
}

}  // namespace

int64_t scratch_floats(const Rotary& op) { return op.qkv.shape(4); }
int64_t scratch_floats(const SumGroups& op) { return 4 * op.grouped.shape(4); }

void run(const Context& context, const Rotary& op) {
  const Tensor& qkv = op.qkv;
  const int64_t T = qkv.shape(1), G = qkv.shape(2), parts = qkv.shape(3), D = qkv.shape(4);
  const int64_t num_pairs = op.angles.shape(2);
  context.need_scratch("rotate", scratch_floats(op));
  context.for_each_range(qkv.shape(0) * T, kGrain, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t document = op.document_bounds ? op.document_bounds.as<int32_t>()[2 * row] : 0;
      const float* cosines = op.angles.as<float>() + (row % T - document) * 2 * num_pairs;
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

void run(const Context& context, const ExpandGroups& op) {
  const Tensor &expanded = op.expanded, &grouped = op.grouped;
  const int64_t parts = grouped.shape(3), D = grouped.shape(4), queries = parts - 2;
  const int64_t num_groups = grouped.num_elements() / (parts * D);
  context.for_each_range(num_groups, kGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t group = begin; group < end; ++group) {
      const int64_t from = group * parts * D;
      for (int64_t query = 0; query < queries; ++query) {
        const int64_t to = (group * queries + query) * 3 * D;
        copy_elements(expanded, to, grouped, from + query * D, D);
        copy_elements(expanded, to + D, grouped, from + queries * D, 2 * D);
      }
    }
  });
}

void run(const Context& context, const SumGroups& op) {
  const Tensor &grouped = op.grouped, &expanded = op.expanded;
  const int64_t parts = grouped.shape(3), D = grouped.shape(4), queries = parts - 2;
  const int64_t num_groups = grouped.num_elements() / (parts * D);
  context.need_scratch("sum_groups", scratch_floats(op));
  context.for_each_range(num_groups, kGrain, [&](int64_t begin, int64_t end, int thread) {
    float *sums = context.scratch(thread), *buffer = sums + 2 * D;
    for (int64_t group = begin; group < end; ++group) {
      const int64_t to = group * parts * D;
      std::fill_n(sums, 2 * D, 0.0F);
      for (int64_t query = 0; query < queries; ++query) {
        const int64_t from = (group * queries + query) * 3 * D;
        copy_elements(grouped, to + query * D, expanded, from, D);
        add_rows(sums, sums, read_row(expanded, from + D, 2 * D, buffer), 2 * D);
      }
      store_row(grouped, to + queries * D, 2 * D, sums);
    }
  });
}

}  // namespace weft::cpu
