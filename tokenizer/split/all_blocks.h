// The patterns that have an algebra of masks, by kind.
//
// Included by one .cpp per instruction set, as split_blocks.h is.
#pragma once

#include "tokenizer/pieces/split_kind.h"
#include "tokenizer/split/bloom_blocks.h"
#include "tokenizer/split/deepseek_blocks.h"
#include "tokenizer/split/gpt2_blocks.h"
#include "tokenizer/split/llama3_blocks.h"
#include "tokenizer/split/o200k_blocks.h"

namespace weft {
namespace {

template <typename Instructions>
SplitBatch split_batch_of(SplitKind kind) {
  switch (kind) {
    case SplitKind::kGpt2:
      return split_blocks<Instructions, Gpt2Blocks<SplitKind::kGpt2>>;
    case SplitKind::kStarCoder:
      return split_blocks<Instructions, Gpt2Blocks<SplitKind::kStarCoder>>;
    case SplitKind::kFalcon:
      return split_blocks<Instructions, Gpt2Blocks<SplitKind::kFalcon>>;
    case SplitKind::kLlama3:
      return split_blocks<Instructions, Llama3Blocks<kLlama3Rules>>;
    case SplitKind::kQwen2:
      return split_blocks<Instructions, Llama3Blocks<kQwen2Rules>>;
    case SplitKind::kMegatronV1:
      return split_blocks<Instructions, Llama3Blocks<kMegatronV1Rules>>;
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
      return split_blocks<Instructions, BloomBlocks>;
    case SplitKind::kDeepSeekV3:
      return split_blocks<Instructions, DeepSeekBlocks>;
  }
  return nullptr;
}

}  // namespace
}  // namespace weft
