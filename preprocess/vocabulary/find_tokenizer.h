// Leads from what a user names to the files of a tokenizer: a file, a folder, or a model in the
// local cache of the Hugging Face hub.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "indexed_dataset/format/sidecars/tokenizer_files.h"

namespace weft {

// Returns the files, without checksums, of
//
//   FILE      by its content: a tokenizer.json, a tekken.json, or else a tiktoken rank file
//   FOLDER    tokenizer.json; vocab.json and merges.txt; tekken.json; its only *.tiktoken;
//             tokenizer.model: the first of these that it has
//   OWNER/MODEL, MODEL   the folder of the model's main revision in a cache of hub_caches()
//
// Throws UsageError that says where it looked, and std::system_error if a file cannot be
// read.
TokenizerFiles find_tokenizer(const std::string& name);

// $HF_HUB_CACHE; else $HF_HOME/hub; else $XDG_CACHE_HOME/huggingface/hub and
// ~/.cache/huggingface/hub.
std::vector<std::filesystem::path> hub_caches();

}  // namespace weft
