// An order that draws samples from a pool which grows during the run, so that no sample comes twice
// before all of the pool have come once.
//
// The samples of the pool that have not come yet lie in a bag, and each draw takes one of them at
// random. Samples that are admitted later go into the bag when they are. An empty bag is filled
// with the whole pool again. All draws of a run are made at once, as an array that is a pure
// function of the stages and of the seed: whoever knows how many samples a run has consumed knows
// which one is next. README.md of the room curriculum has an example.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <variant>
#include <vector>

namespace weft {

// From this draw on the pool is the first `pool_size` samples in the order of admission.
struct PoolStage {
  int64_t first_draw = 0, pool_size = 0;
  bool operator==(const PoolStage&) const = default;
};

// The draws are of 32 bits where the samples' numbers fit.
using Draws = std::variant<std::vector<uint32_t>, std::vector<int64_t>>;
using DrawsView = std::variant<std::span<const uint32_t>, std::span<const int64_t>>;

// Makes `num_draws` draws. Stages begin with draw 0 and a pool that is not empty; pools never
// shrink. More draws begin with the same ones. Takes the memory of the draws and of the largest
// pool.
Draws draw_samples(const std::vector<int64_t>& admitted, const std::vector<PoolStage>& stages,
                   uint64_t seed, int64_t num_draws);

// The draws, in memory or in a mapped file. Thread-safe.
class DrawnOrder {
 public:
  DrawnOrder(DrawsView draws, std::shared_ptr<const void> memory)
      : draws_(draws), memory_(std::move(memory)) {}

  int64_t size() const {
    return std::visit([](auto draws) { return std::ssize(draws); }, draws_);
  }
  // Returns the sample of the dataset that stands at `position` of the run, in [0, size()).
  int64_t sample_at(int64_t position) const {
    return std::visit(
        [&](auto draws) { return static_cast<int64_t>(draws[static_cast<size_t>(position)]); },
        draws_);
  }
  // The inverse: calls use(position, sample) for each position in [first, last) at which one of
  // `samples` (ascending) stands.
  template <typename Use>
  void for_each_position(const std::vector<int64_t>& samples, int64_t first, int64_t last,
                         const Use& use) const {
    if (samples.empty()) return;
    for (int64_t position = first; position < std::min(last, size()); ++position) {
      const int64_t sample = sample_at(position);
      if (std::binary_search(samples.begin(), samples.end(), sample)) use(position, sample);
    }
  }

 private:
  DrawsView draws_;
  std::shared_ptr<const void> memory_;
};

}  // namespace weft
