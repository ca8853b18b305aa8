// The Mersenne Twister MT19937 (Matsumoto and Nishimura 1998), the generator of std::mt19937, whose
// words are made 624 at a time by vector instructions and handed out as a block.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace weft {

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

}  // namespace weft
