// NumPy's legacy random stream, bit for bit: numpy.random.RandomState(seed) and its shuffle() of
// one-dimensional arrays (NEP 19 freezes this stream; numpy/random/mtrand.pyx and
// src/distributions/distributions.c, random_interval).
#pragma once

#include <cstdint>
#include <random>
#include <span>

namespace weft {

class RandomState {
 public:
  explicit RandomState(uint32_t seed) : engine_(seed) {}

  // A uniform integer in [0, max], by masking and rejection.
  uint64_t bounded(uint64_t max);

  // Fisher-Yates from the end. The permutation depends on the size only, not on the type.
  void shuffle(std::span<int32_t> values);
  void shuffle(std::span<uint32_t> values);
  void shuffle(std::span<int64_t> values);

 private:
  template <typename T>
  void shuffle_values(std::span<T> values);

  // NumPy seeds with an integer as std::mt19937 does (Knuth's initialiser); with a list it would
  // not.
  std::mt19937 engine_;
};

}  // namespace weft
