// Every kind of pattern, for tests that go over all.
#pragma once

#include <ostream>
#include <string>

#include "tokenizer/pieces/split_kind.h"

namespace weft::test {

inline constexpr SplitKind kSplitKinds[] = {SplitKind::kGpt2,      SplitKind::kBloom,
                                            SplitKind::kCl100k,    SplitKind::kCl100kOniguruma,
                                            SplitKind::kLlama3,    SplitKind::kQwen2,
                                            SplitKind::kQwen35,    SplitKind::kO200k,
                                            SplitKind::kTekken,    SplitKind::kDeepSeekV3,
                                            SplitKind::kStarCoder, SplitKind::kFalcon,
                                            SplitKind::kMegatronV1};

// A new kind without a name does not compile.
inline std::string name_of(SplitKind kind) {
  switch (kind) {
    case SplitKind::kGpt2:
      return "Gpt2";
    case SplitKind::kBloom:
      return "Bloom";
    case SplitKind::kCl100k:
      return "Cl100k";
    case SplitKind::kCl100kOniguruma:
      return "Cl100kOniguruma";
    case SplitKind::kLlama3:
      return "Llama3";
    case SplitKind::kQwen2:
      return "Qwen2";
    case SplitKind::kMegatronV1:
      return "MegatronV1";
    case SplitKind::kQwen35:
      return "Qwen35";
    case SplitKind::kO200k:
      return "O200k";
    case SplitKind::kTekken:
      return "Tekken";
    case SplitKind::kDeepSeekV3:
      return "DeepSeekV3";
    case SplitKind::kStarCoder:
      return "StarCoder";
    case SplitKind::kFalcon:
      return "Falcon";
  }
  return "";
}

}  // namespace weft::test

namespace weft {

// GoogleTest prints parameters by this.
inline void PrintTo(SplitKind kind, std::ostream* out) { *out << test::name_of(kind); }

}  // namespace weft
