// A Hugging Face folder as a model of ours: its shape, its vocabulary, and its weights one
// parameter at a time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "trainer/identity/run_vocabulary.h"
#include "trainer/model_tool/hf_layout.h"

namespace weft {

class HfModelFolder {
 public:
  // Reads config.json and the headers of the weights; the vocabulary is padded to a multiple of
  // `vocabulary_divisor`. Throws as import_hf() (hf_folder.h).
  HfModelFolder(const std::filesystem::path& folder, int64_t vocabulary_divisor);
  ~HfModelFolder();
  HfModelFolder(HfModelFolder&&) noexcept;

  const ModelShape& shape() const;
  const RunVocabulary& vocabulary() const;
  // Returns what the user should know of the folder, or "".
  const std::string& note() const;
  // Writes the elements of a whole parameter to `to`, as fp32, bf16 or fp16; padding rows are left
  // alone. Thread-safe.
  void read(const Parameter& parameter, DType type, char* to) const;

 private:
  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

}  // namespace weft
