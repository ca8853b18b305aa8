// Reads a tokenizer that is one file: Hugging Face's tokenizer.json, a tiktoken rank file, or
// Mistral's tekken.json. The content tells which one it is, not the name.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "tokenizer/formats/load_options.h"
#include "tokenizer/formats/named_bytes.h"
#include "tokenizer/vocabulary.h"

namespace weft {

// No tokenizer in use is so large (GLM-4's tokenizer.json has 20 MB): callers may refuse a file
// before they read it.
inline constexpr size_t kMaxTokenizerBytes = size_t{256} << 20;

enum class TokenizerFormat { kUnknown, kHuggingFace, kTiktoken, kTekken };

// Tells the format of a file by its first bytes; a few kB of them are enough.
TokenizerFormat tokenizer_format_of(std::string_view beginning);

// Throws std::runtime_error, which names the file, the place in it, the reason and what to do, for
// anything that is damaged, hostile or not supported: the pattern of a tokenizer is printed if it
// is not known, and a kind of model that is no byte-level BPE is named. Time and memory are linear
// in the file.
std::shared_ptr<const Vocabulary> load_tokenizer(const NamedBytes& file,
                                                 const LoadOptions& options = {});

}  // namespace weft
