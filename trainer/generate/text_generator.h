// Continues prompts batch by batch, until each text ends.
#pragma once

#include <functional>

#include "trainer/generate/decoder.h"
#include "trainer/generate/prompts.h"

namespace weft {

struct GenerateOptions {
  int64_t num_tokens = 100;  // of each text, at most
  int64_t batch_size = 16;
  Sampling sampling = {.temperature = 0.8F};
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

class TextGenerator {
 public:
  // Allocates all memory. The backend, the vocabulary and what a Decoder refers to must outlive
  // this.
  TextGenerator(Backend& backend, const InferenceWeights& weights, const Vocabulary& vocabulary,
                std::vector<Prompt> prompts, const GenerateOptions& options);

  // Writes a text behind each prompt with the present weights. The texts depend on the seed and on
  // the place of their prompt among all, and not on the other prompts.
  void generate(const TextListener& listener);

  int64_t device_bytes() { return decoder_.device_bytes(); }

 private:
  void generate_batch(size_t first, size_t end, const TextListener& listener);

  const Vocabulary& vocabulary_;
  const ModelShape shape_;
  const int64_t end_of_document_;
  const std::vector<Prompt> prompts_;
  const GenerateOptions options_;
  const DecoderSizes sizes_;
  const int64_t ahead_;  // steps that are enqueued before their tokens are read
  Decoder decoder_;
};

}  // namespace weft
