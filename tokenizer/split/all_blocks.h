// The patterns that have an algebra of masks, by kind.
//
// Included by one .cpp per instruction set, as split_blocks.h is.
#pragma once

#include "tokenizer/pieces/split_kind.h"
#include "tokenizer/split/bloom_blocks.h"
#include "tokenizer/split/gpt2_blocks.h"
#include "tokenizer/split/llama3_blocks.h"
#include "tokenizer/split/o200k_blocks.h"

namespace weft {
namespace {

// `Instructions` has kHasPunctuation: its masks of punctuation and symbols hold ASCII, too.
template <typename Instructions>
SplitBatch split_batch_of(SplitKind kind) {
  switch (kind) {
    case SplitKind::kGpt2:
      return split_blocks<Instructions, Gpt2Blocks>;
    case SplitKind::kLlama3:
      return split_blocks<Instructions, Llama3Blocks<kLlama3Rules>>;
    case SplitKind::kQwen2:
      return split_blocks<Instructions, Llama3Blocks<kQwen2Rules>>;
    case SplitKind::kQwen35:
      return split_blocks<Instructions, Llama3Blocks<kQwen35Rules>>;
    case SplitKind::kCl100k:
      return split_blocks<Instructions, Llama3Blocks<kCl100kRules>>;
    case SplitKind::kCl100kOniguruma:
      return split_blocks<Instructions, Llama3Blocks<kCl100kOnigurumaRules>>;
    case SplitKind::kO200k:
      return split_blocks<Instructions, O200kBlocks<kO200kRules>>;
    case SplitKind::kTekken:
      return split_blocks<Instructions, O200kBlocks<kTekkenRules>>;
    case SplitKind::kBloom:
      if constexpr (Instructions::kHasPunctuation) return split_blocks<Instructions, BloomBlocks>;
      break;
    default:
      break;
  }
  return nullptr;
}

}  // namespace
}  // namespace weft
