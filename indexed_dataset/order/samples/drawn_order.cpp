#include "indexed_dataset/order/samples/drawn_order.h"

#include <array>
#include <stdexcept>

namespace weft {
namespace {

// splitmix64 [Steele, Lea, Flood 2014, doi:10.1145/2660193.2660195]: any seed will do, and it is
// the same on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  // Returns a number below `bound`: the upper half of the product of `bound` and 64 random bits, or
  // the remainder of these bits. As 2^64 is no multiple of `bound`, some numbers are more probable
  // than others, by less than one part in 2^64 / bound.
  uint64_t below(uint64_t bound) {
    const uint64_t x = next();
    if (bound <= UINT32_MAX) return ((x >> 32) * bound + ((x & UINT32_MAX) * bound >> 32)) >> 32;
    return x % bound;
  }

 private:
  uint64_t next() {
    state_ += 0x9E3779B97F4A7C15;
    uint64_t z = state_;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return z ^ z >> 31;
  }
  uint64_t state_;
};

template <typename T>
std::vector<T> draw(const std::vector<int64_t>& admitted, const std::vector<PoolStage>& stages,
                    uint64_t seed, int64_t num_draws) {
  Random random(seed);
  std::vector<T> draws, bag;
  draws.reserve(static_cast<size_t>(num_draws));
  int64_t pool_size = 0;
  auto stage = stages.begin();
  const auto fill = [&](int64_t from) {
    for (int64_t i = from; i < pool_size; ++i)
      bag.push_back(static_cast<T>(admitted[static_cast<size_t>(i)]));
  };
  // While nothing comes into the bag its size is known, so that several places are drawn ahead and
  // fetched into the processor's cache: the bag of a large run is far larger.
  constexpr int64_t kAhead = 64;
  std::array<size_t, kAhead> places{};
  for (int64_t i = 0; i < num_draws;) {
    for (; stage != stages.end() && stage->first_draw <= i; ++stage) {
      const int64_t before = std::exchange(pool_size, stage->pool_size);
      fill(before);
    }
    if (bag.empty()) fill(0);
    int64_t end = std::min({i + kAhead, i + std::ssize(bag), num_draws});
    if (stage != stages.end()) end = std::min(end, stage->first_draw);
    for (int64_t k = 0; k < end - i; ++k) {
      places[static_cast<size_t>(k)] = random.below(bag.size() - static_cast<size_t>(k));
      __builtin_prefetch(&bag[places[static_cast<size_t>(k)]], 1);
    }
    for (int64_t k = 0; k < end - i; ++k) {
      T& drawn = bag[places[static_cast<size_t>(k)]];
      draws.push_back(drawn);
      drawn = bag.back();
      bag.pop_back();
    }
    i = end;
  }
  return draws;
}

}  // namespace

Draws draw_samples(const std::vector<int64_t>& admitted, const std::vector<PoolStage>& stages,
                   uint64_t seed, int64_t num_draws) {
  if (stages.empty() || stages.front().first_draw != 0 || stages.front().pool_size < 1)
    throw std::logic_error("no sample can be drawn first");
  const bool is_wide =
      !admitted.empty() && *std::max_element(admitted.begin(), admitted.end()) > UINT32_MAX;
  if (is_wide) return draw<int64_t>(admitted, stages, seed, num_draws);
  return draw<uint32_t>(admitted, stages, seed, num_draws);
}

}  // namespace weft
