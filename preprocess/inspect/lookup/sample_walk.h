// Walks over samples on several threads, and hands on what was found in their order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "indexed_dataset/base/process/parallel_for.h"
#include "preprocess/inspect/lookup/taken_samples.h"

namespace weft {

// Calls use(sample_idx, look(sample_idx)) for each sample in [first, last), in order. look() runs
// on several threads, use() on this one, soon after: results of at most a few thousand samples wait
// for it.
template <typename Look, typename Use>
void walk_samples(int64_t first, int64_t last, int num_threads, const Look& look, const Use& use) {
  constexpr int64_t kSamplesPerTask = 16, kTasksPerThread = 32;
  using Result = decltype(look(first));
  const int64_t num_at_once = kSamplesPerTask * kTasksPerThread * std::max(num_threads, 1);
  std::vector<Result> results;
  for (int64_t begin = first; begin < last; begin += num_at_once) {
    const int64_t count = std::min(num_at_once, last - begin);
    results.clear();
    results.resize(static_cast<size_t>(count));
    parallel_for((count - 1) / kSamplesPerTask + 1, num_threads, [&](int64_t task) {
      const int64_t end = std::min(count, (task + 1) * kSamplesPerTask);
      for (int64_t i = task * kSamplesPerTask; i < end; ++i)
        results[static_cast<size_t>(i)] = look(begin + i);
    });
    for (int64_t i = 0; i < count; ++i) use(begin + i, std::move(results[static_cast<size_t>(i)]));
  }
}

// Calls use(part, ids) for each document's piece of a sample.
template <typename Use>
void for_each_piece_of(const TakenSamples& samples, int64_t sample_idx, const Use& use) {
  const std::vector<int32_t> ids = samples.tokens(sample_idx);
  std::span<const int32_t> rest(ids);
  for (const SamplePart& part : samples.parts(sample_idx)) {
    const auto count = static_cast<size_t>(part.num_tokens);
    use(part, rest.first(count));
    rest = rest.subspan(count);
  }
}

}  // namespace weft
