// Prompts as text and as tokens.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace weft {

constexpr int64_t kMostPromptTokens = 1 << 20;  // where the model has positions for more

struct Prompt {
  std::string name;  // for messages: "--prompt", or file and line
  std::string text;
  std::vector<int32_t> ids = {};
};

// Returns a prompt for each line of the file. Throws std::runtime_error for a file without lines,
// std::system_error if it cannot be read.
std::vector<Prompt> read_prompts(const std::filesystem::path& file);

// Makes their tokens, special ones included. Throws std::runtime_error for a prompt that is empty
// or no UTF-8, or that has more tokens than `max_tokens`.
void tokenize_prompts(std::vector<Prompt>& prompts,
                      const std::shared_ptr<const Vocabulary>& vocabulary, int64_t max_tokens);

}  // namespace weft
