// Continues prompts batch by batch, until each text ends.
#pragma once

#include <functional>

#include "trainer/generate/decoder.h"
#include "trainer/generate/prompts.h"

namespace weft {

struct GenerateOptions {
  int64_t num_tokens = 100;  // of each text, at most
  int64_t batch_size = 16;
  Sampling sampling = {};
  std::string stop;  // texts end before it; or empty
};

// What was generated. The token that ends documents, which ends a text, is no part of it.
struct GeneratedText {
  std::string text;
  std::vector<int32_t> ids = {};
  bool lacks_positions = false;  // it ended because the model has no more
};

struct TextListener {
  // Gets pieces of a text as they come: whole characters, as far as its bytes are UTF-8.
  std::function<void(size_t prompt, const std::string& piece)> on_piece = [](size_t,
                                                                             const std::string&) {};
  // Gets each text when it and those of its batch are complete, in the order of the prompts.
  std::function<void(size_t prompt, const GeneratedText& text)> on_text;
};

// Throws as Decoder. The texts depend on the seed and on the place of their prompt among all, and
// not on the other prompts.
void generate_texts(Backend& backend, StoredModel& model, DType dtype, const Vocabulary& vocabulary,
                    const std::vector<Prompt>& prompts, const GenerateOptions& options,
                    const TextListener& listener);

}  // namespace weft
