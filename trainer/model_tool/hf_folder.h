// Hugging Face folders of GPT-2, BLOOM, LLaMA, Mistral, Qwen2 and Qwen3: config.json,
// model.safetensors, tokenizer files. [transformers, models/gpt2/modeling_gpt2.py and those of the
// other models]
//
// GPT-2's linear layers (Conv1D) store [in, out], and the columns of qkv are all queries, then all
// keys, then all values. LLaMA's and those of its kind store [out, in], with matrices of their own
// for queries, keys, values, gate and up. Ours store [out, in] as Megatron does, and the rows of
// qkv are ordered per head or group [queries, key, value]; BLOOM's, which Megatron trained, do,
// too. Their embeddings have no padding rows.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>

#include "indexed_dataset/format/sidecars/tokenizer_files.h"
#include "kernels/backend.h"
#include "trainer/checkpoint/checkpoint_info.h"

namespace weft {

struct HfExport {
  std::filesystem::path load;  // checkpoint folder
  int64_t iteration = 0;
  std::filesystem::path output;  // folder; created
  // Copied under the names of their kind; without them no tokenizer files are written.
  TokenizerFiles tokenizer = {};
  // Replaces the files of an older export; otherwise the folder must be empty or absent.
  bool overwrite = false;
  // The type of the weights that are written. They come from the fp32 masters where the checkpoint
  // has them.
  DType dtype = DType::kFloat32;
};
// Writes the folder; every file is complete or absent. Throws std::runtime_error for a checkpoint
// that is damaged or none's, UsageError for a folder that holds files already and for
// a tokenizer that is not the one of the model's data, std::system_error where files cannot be read
// or written.
void export_hf(const HfExport& options);

// Returns the tokenizer's files that the data of a checkpoint was tokenized with: the files
// themselves where they still have their checksums, else equal ones in vocabulary_folder().
// Those of vocabulary_folder() serve any checkpoint that does not know its vocabulary. Throws
// UsageError if they are not found, with the options that name them and `other_way`.
TokenizerFiles find_tokenizer_files(const CheckpointInfo& checkpoint,
                                    const std::string& other_way = "");

struct HfImport {
  std::filesystem::path input;  // folder with config.json and model.safetensors or its shards
  std::filesystem::path save;   // checkpoint folder; iteration 0 is written, weights alone
  int64_t make_vocab_size_divisible_by = 128;  // padding rows are zero
};
// Reads names with and without the prefix "transformer." or "model." and F32, BF16 and F16 weights,
// and stores fp32. Returns what the user should know of it, or "". Throws std::runtime_error, which
// names the field of config.json or the tensor that does not fit; a tensor that the model of
// config.json does not have is none that fits.
std::string import_hf(const HfImport& options);

}  // namespace weft
