#include "tokenizer/split/split_patterns.h"

#include <stdexcept>

#include "tokenizer/split/gpt2_pattern.h"

namespace weft {

std::shared_ptr<const SplitPattern> make_split_pattern(SplitKind kind, UnicodeVersion) {
  if (kind == SplitKind::kGpt2) return std::make_shared<Gpt2Pattern>();
  throw std::runtime_error("this pattern of text is not supported yet");
}

}  // namespace weft
