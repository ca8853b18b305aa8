// NumPy's legacy random stream, bit for bit: numpy.random.RandomState(seed) and its shuffle() of
// one-dimensional arrays (NEP 19 freezes this stream; numpy/random/mtrand.pyx and
// src/distributions/distributions.c, random_interval).
#pragma once

#include <cstdint>
#include <span>

#include "indexed_dataset/order/samples/mt19937.h"

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
  void shuffle(std::span<uint64_t> values);

  // Draws what shuffle() of so many values draws. How much that is depends on the numbers drawn, so
  // a thread that needs the stream behind a shuffle cannot jump there, but it need not wait for the
  // shuffle either.
  void skip_shuffle(size_t num_values);
  // Draws with which values the values at last, last - 1, ... change places: partners[k] is uniform
  // in [0, last - k]. There are `last` partners at most.
  void draw_partners(uint64_t last, std::span<uint64_t> partners);

 private:
  // The same for the first of them, as many as have the same mask, and returns how many these are.
  size_t draw_of_one_mask(uint32_t last, std::span<uint64_t> partners);
  template <typename T>
  void shuffle_values(std::span<T> values);

  // NumPy seeds with an integer as std::mt19937 does; with a list it would not.
  Mt19937 engine_;
};

}  // namespace weft
