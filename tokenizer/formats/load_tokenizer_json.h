// Reads Hugging Face's tokenizer.json (format of tokenizers 0.23.3, and of those before it).
#pragma once

#include <memory>

#include "tokenizer/formats/load_options.h"
#include "tokenizer/formats/named_bytes.h"
#include "tokenizer/vocabulary.h"

namespace weft {

// Throws as load_tokenizer does.
std::shared_ptr<const Vocabulary> load_tokenizer_json(const NamedBytes& file,
                                                      const LoadOptions& options);

}  // namespace weft
