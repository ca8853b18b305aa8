// Hugging Face GPT-2 folders: config.json, model.safetensors, tokenizer files. [transformers,
// models/gpt2/modeling_gpt2.py]
//
// Their linear layers (Conv1D) store [in, out] and order qkv's columns all queries, all keys, all
// values; ours store [out, in] as Megatron does, with qkv's rows ordered per head [query, key,
// value]. Embeddings have no padding rows there.
#pragma once

#include <cstdint>
#include <filesystem>

#include "kernels/backend.h"

namespace weft {

struct HfExport {
  std::filesystem::path load;  // checkpoint folder
  int64_t iteration = 0;
  std::filesystem::path output;  // folder; created
  std::filesystem::path vocab_file,
      merge_file;                 // copied as vocab.json and merges.txt; empty: no tokenizer files
  DType dtype = DType::kFloat32;  // of the weights that are written; fp32 masters are used where
                                  // the checkpoint has them
};
// Writes the folder; every file is complete or absent. Throws std::runtime_error for a checkpoint
// that is no GPT-2 or is damaged, std::system_error.
void export_hf_gpt2(const HfExport& options);

struct HfImport {
  std::filesystem::path input;  // folder with config.json and model.safetensors or its shards
  std::filesystem::path save;   // checkpoint folder; iteration 0 is written, weights alone
  int64_t make_vocab_size_divisible_by = 128;  // padding rows are zero
};
// Reads names with and without the prefix "transformer.", F32, BF16 and F16 weights; stores fp32.
// Throws std::runtime_error naming the field of config.json or the tensor that does not fit.
void import_hf_gpt2(const HfImport& options);

}  // namespace weft
