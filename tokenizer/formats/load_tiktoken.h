// Reads a tiktoken rank file: a line "base64 of the bytes, a space, the rank" for each entry. The
// rank is the id, and ranks may be left out.
#pragma once

#include <memory>
#include <string_view>

#include "tokenizer/formats/load_options.h"
#include "tokenizer/formats/named_bytes.h"
#include "tokenizer/vocabulary.h"

namespace weft {

// True if the first line is such a line.
bool is_rank_file(std::string_view bytes);

// Throws as load_tokenizer does.
std::shared_ptr<const Vocabulary> load_tiktoken(const NamedBytes& file, const LoadOptions& options);

}  // namespace weft
