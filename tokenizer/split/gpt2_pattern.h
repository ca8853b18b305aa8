// The pattern of GPT-2 (Radford et al. 2019, encoder.py of the release)
//
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// without a regular expression engine. Every character is a letter, a number, white space or
// "other"; a byte that is not part of valid UTF-8 counts as one character of class "other". The
// README goes through the cases.
#pragma once

#include "tokenizer/split/simd.h"
#include "tokenizer/split/split_pattern.h"

namespace weft {

class Gpt2Pattern final : public SplitPattern {
 public:
  // This processor must have the instructions.
  explicit Gpt2Pattern(Simd simd = chosen_simd());

  size_t split(std::string_view text, size_t begin, size_t* ends, size_t max_pieces) const override;
  bool is_safe_cut(std::string_view text, size_t at) const override;

 private:
  size_t (*split_batch_)(std::string_view text, size_t begin, size_t* ends, size_t max_pieces);
};

}  // namespace weft
