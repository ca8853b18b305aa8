// The options of commands that run a model: where it lies, its tokenizer, the device and the type.
#pragma once

#include <memory>
#include <string>

#include "indexed_dataset/base/terminal/option_set.h"
#include "trainer/generate/inference_model.h"
#include "trainer/generate/text_tokenizer.h"

namespace weft {

struct ModelOptions {
  CheckpointOption load;
  TokenizerOptions tokenizer;
  std::string device = "auto", dtype = "auto";

  void declare(OptionSet& options);
  void validate(OptionSet& options) const;
  // Throws UsageError for --device cuda without a usable GPU.
  std::unique_ptr<Backend> create_backend() const;
  DType type_on(const Backend& backend) const;
};

// Returns the number that `text` is, or NaN.
double number_of(const std::string& text);
// Notes a problem where an option's text is no number between `low` and `high`.
void check_number(OptionSet& options, const std::string& name, const std::string& text, double low,
                  double high);

}  // namespace weft
