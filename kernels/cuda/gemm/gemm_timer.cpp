#include "kernels/cuda/gemm/gemm_timer.h"

#include <algorithm>

#include "kernels/cuda/memory_bound/kernels.h"

namespace weft::cuda {
namespace {

// The launch of a place in a turn or round: every other one goes backwards.
size_t launch_at(size_t place, size_t turn, size_t num_launches) {
  return turn % 2 == 0 ? place : num_launches - 1 - place;
}

}  // namespace

GemmTimer::GemmTimer(cudaStream_t stream) : stream_(stream), memory_(kPassBytes) {}

GemmTimer::~GemmTimer() {
  for (const cudaEvent_t event : events_) cudaEventDestroy(event);
}

void GemmTimer::pass_over_memory(cudaStream_t stream) {
  fill_random(stream, memory_.data(), DType::kFloat32, kPassBytes / 4);
}

void GemmTimer::enqueue(const std::function<void()>& launch, size_t call) {
  while (events_.size() <= 2 * call + 1) CUDA_CHECK(cudaEventCreate(&events_.emplace_back()));
  pass_over_memory(stream_);
  CUDA_CHECK(cudaEventRecord(events_[2 * call], stream_));
  launch();
  CUDA_CHECK(cudaEventRecord(events_[2 * call + 1], stream_));
}

float GemmTimer::elapsed_ms(size_t call) {
  float ms = 0;
  CUDA_CHECK(cudaEventElapsedTime(&ms, events_[2 * call], events_[2 * call + 1]));
  return ms;
}

std::vector<float> GemmTimer::in_turns(const Launches& launches, int turns) {
  const size_t n = launches.size();
  for (size_t call = 0; call < n * static_cast<size_t>(turns); ++call)
    enqueue(launches[launch_at(call % n, call / n, n)], call);
  CUDA_CHECK(cudaStreamSynchronize(stream_));
  std::vector<std::vector<float>> times(n);
  for (size_t call = 0; call < n * static_cast<size_t>(turns); ++call)
    times[launch_at(call % n, call / n, n)].push_back(elapsed_ms(call));
  std::vector<float> medians;
  for (std::vector<float>& samples : times) {
    const auto middle = samples.begin() + (turns - 1) / 2;
    std::nth_element(samples.begin(), middle, samples.end());
    medians.push_back(*middle);
  }
  return medians;
}

std::vector<float> GemmTimer::in_blocks(const Launches& launches, float call_ms) {
  constexpr size_t kRounds = 2;
  constexpr float kPassMs = 0.1F;
  const size_t calls = std::max<size_t>(6, static_cast<size_t>(kBlockMs / (call_ms + kPassMs)));
  const size_t settling = calls / 2;
  std::vector<float> ms(launches.size());
  for (size_t round = 0; round < kRounds; ++round) {
    for (size_t place = 0; place < launches.size(); ++place) {
      const size_t i = launch_at(place, round, launches.size());
      for (size_t call = 0; call < calls; ++call) enqueue(launches[i], call);
      CUDA_CHECK(cudaStreamSynchronize(stream_));
      float sum = 0;
      for (size_t call = settling; call < calls; ++call) sum += elapsed_ms(call);
      ms[i] += sum / static_cast<float>((calls - settling) * kRounds);
    }
  }
  return ms;
}

std::vector<float> GemmTimer::in_turns_or_blocks(const Launches& launches, int turns) {
  const std::vector<float> ms = in_turns(launches, turns);
  const float shortest = *std::min_element(ms.begin(), ms.end());
  return shortest < kShortMs ? ms : in_blocks(launches, shortest);
}

}  // namespace weft::cuda
