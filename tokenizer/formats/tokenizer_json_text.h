// What a tokenizer.json does to a text around its model: normalizer, added tokens, post-processor.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "tokenizer/vocabulary.h"

namespace weft {

class EntryIndex;

// All throw std::runtime_error, which names the file (parts.name) and what is not supported.

void read_normalizer(const nlohmann::json& normalizer, Vocabulary::Parts& parts);

// Sets added tokens, which are special tokens, too, and adds the entries of those that the model
// (`model_ids`) does not have.
void read_added_tokens(const nlohmann::json& added_tokens, const EntryIndex& model_ids,
                       Vocabulary::Parts& parts);

// Sets prefix_ids and suffix_ids.
void read_post_processor(const nlohmann::json& post_processor, Vocabulary::Parts& parts);

void check_decoder(const nlohmann::json& decoder, const Vocabulary::Parts& parts);

}  // namespace weft
