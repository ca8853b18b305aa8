// NumPy's legacy random stream, bit for bit: numpy.random.RandomState(seed) and its shuffle() of
// one-dimensional arrays (NEP 19 freezes this stream; numpy/random/mtrand.pyx and
// src/distributions/distributions.c, random_interval).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace weft {

// The Mersenne Twister MT19937 (Matsumoto and Nishimura 1998), the generator of std::mt19937, whose
// words are made 624 at a time by vector instructions and handed out as a block.
class Mt19937 {
 public:
  static constexpr size_t kStateWords = 624;

  // Knuth's initialiser, as in std::mt19937 and numpy.random.RandomState(seed).
  explicit Mt19937(uint32_t seed);

  uint32_t operator()() {
    const uint32_t word = ahead()[0];
    ++num_used_;
    return word;
  }
  // The next words of the stream, one at least. They stay the next ones until advance() is called.
  std::span<const uint32_t> ahead() {
    if (num_used_ == kStateWords) refill();
    return std::span(words_).subspan(num_used_);
  }
  void advance(size_t num_words) { num_used_ += num_words; }  // at most ahead().size()

 private:
  void refill();

  std::array<uint32_t, kStateWords> state_;
  std::array<uint32_t, kStateWords> words_;  // tempered
  size_t num_used_ = kStateWords;
};

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
