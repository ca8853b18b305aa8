#include "trainer/generate/prompts.h"

#include <sstream>
#include <stdexcept>

#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/base/terminal/terminal_text.h"

namespace weft {

std::vector<Prompt> read_prompts(const std::filesystem::path& file) {
  std::istringstream lines(read_file(file));
  std::vector<Prompt> prompts;
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with('\r')) line.pop_back();
    prompts.push_back({file.string() + ":" + std::to_string(prompts.size() + 1), line});
  }
  if (prompts.empty())
    throw std::runtime_error(file.string() + " is empty: write a prompt into each line");
  return prompts;
}

void tokenize_prompts(std::vector<Prompt>& prompts,
                      const std::shared_ptr<const Vocabulary>& vocabulary, int64_t max_tokens) {
  Tokenizer tokenizer(vocabulary, SpecialTokens::kToken);
  for (Prompt& prompt : prompts) {
    if (prompt.text.empty()) {
      throw std::runtime_error(prompt.name +
                               ": the prompt is empty: a model continues at least "
                               "one token, such as <|endoftext|>");
    }
    const size_t valid = num_valid_utf8_bytes(prompt.text);
    if (valid < prompt.text.size()) {
      throw std::runtime_error(prompt.name + ": byte " + std::to_string(valid) +
                               " of the prompt is no UTF-8");
    }
    tokenizer.encode(prompt.text, prompt.ids);
    const auto num_tokens = static_cast<int64_t>(prompt.ids.size());
    if (num_tokens <= max_tokens) continue;
    throw std::runtime_error(prompt.name + ": the prompt has " + std::to_string(num_tokens) +
                             " tokens, the model has positions for " + std::to_string(max_tokens));
  }
}

}  // namespace weft
