// Keys that are kept, and the choice of tokens.
#include "kernels/operations/generation.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "kernels/cpu/loops/rows.h"
#include "kernels/cpu/operations.h"
#include "kernels/numbers/sampling.h"

namespace weft::cpu {

namespace {

constexpr int64_t kTokenGrain = 16;  // tokens per task

// Returns the smallest ordered_bits() of the logits that stay.
uint32_t lowest_kept(const SampleTokens& op, const std::vector<uint32_t>& keys,
                     const std::vector<uint64_t>& weights) {
  uint32_t lowest = 0;
  if (op.top_k > 0 && op.top_k < static_cast<int64_t>(keys.size())) {
    std::vector<uint32_t> sorted = keys;
    std::nth_element(sorted.begin(), sorted.begin() + (op.top_k - 1), sorted.end(),
                     std::greater<>());
    lowest = sorted[static_cast<size_t>(op.top_k - 1)];
  }
  if (op.top_p >= 1.0F) return lowest;
  std::vector<std::pair<uint32_t, uint64_t>> by_key;
  uint64_t total = 0;
  for (size_t v = 0; v < keys.size(); ++v) {
    if (keys[v] < lowest || weights[v] == 0) continue;
    by_key.emplace_back(keys[v], weights[v]);
    total += weights[v];
  }
  std::sort(by_key.begin(), by_key.end(), std::greater<>());
  const uint64_t wanted = nucleus_weight(op.top_p, total);
  uint64_t sum = 0;
  for (const auto& [key, weight] : by_key) {
    sum += weight;
    if (sum >= wanted) return key;
  }
  return lowest;
}

int32_t sample(const SampleTokens& op, int64_t row, const float* logits) {
  const auto V = static_cast<size_t>(op.vocabulary_size);
  std::vector<uint32_t> keys(V);
  for (size_t v = 0; v < V; ++v) keys[v] = ordered_bits(logits[v]);
  const auto largest =
      static_cast<size_t>(std::max_element(keys.begin(), keys.end()) - keys.begin());
  if (op.temperature == 0.0F) return static_cast<int32_t>(largest);
  std::vector<uint64_t> weights(V);
  for (size_t v = 0; v < V; ++v)
    weights[v] = sampling_weight(logits[v], logits[largest], op.temperature);
  const uint32_t lowest = lowest_kept(op, keys, weights);
  uint64_t total = 0;
  for (size_t v = 0; v < V; ++v) {
    if (keys[v] < lowest) weights[v] = 0;
    total += weights[v];
  }
  const uint64_t target = sampling_target(total, op.seed, op.streams.as<int32_t>()[row],
                                          op.counter + value_of(op.offset));
  uint64_t sum = 0;
  for (size_t v = 0; v < V; ++v) {
    sum += weights[v];
    if (sum > target) return static_cast<int32_t>(v);
  }
  return static_cast<int32_t>(largest);  // where all logits are NaN
}

}  // namespace

void run(const Context& context, const KeepKeys& op) {
  const Tensor& qkv = op.qkv;
  const int64_t T = qkv.shape(1), G = qkv.shape(2), rows = qkv.shape(3), S = op.keys.shape(1);
  const int64_t vector_bytes = qkv.shape(4) * size_bytes(qkv.dtype());
  const int64_t first_position = op.first_position + value_of(op.offset);
  context.for_each_range(qkv.shape(0) * T, kTokenGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t token = begin; token < end; ++token) {
      const int64_t kept = token / T * S + first_position + token % T;
      for (int64_t g = 0; g < G; ++g) {
        const char* key = qkv.as<char>() + ((token * G + g) * rows + rows - 2) * vector_bytes;
        const int64_t to = (kept * G + g) * vector_bytes;
        std::memcpy(op.keys.as<char>() + to, key, static_cast<size_t>(vector_bytes));
        std::memcpy(op.values.as<char>() + to, key + vector_bytes,
                    static_cast<size_t>(vector_bytes));
      }
    }
  });
}

int64_t scratch_floats(const SampleTokens& op) { return op.vocabulary_size; }

void run(const Context& context, const SampleTokens& op) {
  context.need_scratch("sample_tokens", scratch_floats(op));
  const int64_t N = num_rows(op.logits), columns = num_columns(op.logits);
  context.for_each_range(N, 1, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t row = begin; row < end; ++row) {
      op.tokens.as<int32_t>()[row] = sample(
          op, row, read_row(op.logits, row * columns, op.vocabulary_size, context.scratch(thread)));
    }
  });
}

}  // namespace weft::cpu
