#include "tokenizer/formats/end_of_document.h"

#include <string_view>

namespace weft {
namespace {

// In the order in which they are tried. A family that has several ends documents with the first.
constexpr std::string_view kEndsOfDocuments[] = {
    kEndOfText,         // GPT-2, NeoX, cl100k, o200k, Qwen, Falcon, GLM-4, ...
    "<|end_of_text|>",  // Llama-3
    "<\uFF5Cend\u2581of\u2581sentence\uFF5C>",  // DeepSeek
    "<end_of_document>",                        // MiniMax
    "</s>",                                     // BLOOM, RoBERTa, Mistral
};

}  // namespace

int32_t find_end_of_document(const Vocabulary::Parts& parts) {
  for (const std::string_view text : kEndsOfDocuments) {
    for (const int32_t id : parts.special_tokens) {
      if (parts.entries[static_cast<size_t>(id)] == text) return id;
    }
  }
  return -1;
}

}  // namespace weft
