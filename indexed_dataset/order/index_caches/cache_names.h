// The names of index caches: those of the program whose order is built, so that its files and ours
// lie at the same places. Megatron-Core names them by the MD5 of a JSON text that describes the
// index [core/datasets/megatron_dataset.py, blended_dataset.py], Megatron-LM 23.x by that of a list
// of lines [megatron/data/gpt_dataset.py], bigscience's fork and GPT-NeoX by plain words.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "indexed_dataset/format/sidecars/tokenizer_files.h"
#include "indexed_dataset/order/samples/order_kind.h"
#include "indexed_dataset/order/samples/split.h"

namespace weft {

// These values decide the index of one split of one dataset, and the names of its cache files.
struct IndexDescription {
  OrderKind order = OrderKind::kCore;
  std::string dataset_path;            // as the option names it, without .bin and .idx
  std::optional<int64_t> num_samples;  // that were asked for
  Split split = Split::kTrain;
  std::string group;  // of bigscience's groups of datasets: takes the place of the split's name
  int64_t seed = 1234, sequence_length = 0;
  std::optional<std::string> split_string;  // none where each split has datasets of its own
  // Megatron-Core writes this of the tokenizer. It is null where the vocabulary is not known.
  nlohmann::ordered_json tokenizer;
  // The part of the dataset where an option names one (--train-weighted-split-paths); all of it is
  // as none.
  std::optional<std::pair<double, double>> share = {};
  // GPT-NeoX numbers the datasets of a blend.
  std::optional<size_t> place_in_blend = {};
};

// {"class": "_GPT2BPETokenizer", "tokenizer_path": [VOCAB, MERGES]}, as Megatron-Core writes up to
// 0.13 of GPT-2's files; null where one of them is not known.
nlohmann::ordered_json tokenizer_description(const TokenizerFiles& tokenizer);

nlohmann::ordered_json core_description(const IndexDescription& index);
nlohmann::ordered_json core_blend_description(const std::vector<IndexDescription>& datasets,
                                              const std::vector<double>& weights, int64_t size);

// The text of Python's json.dumps(value, indent=4). Numbers are spelled as Python's repr() does.
std::string python_json(const nlohmann::ordered_json& value);

std::string md5_hex(const std::string& text);

// The names of the files, in the folder of caches.
struct CacheNames {
  std::string description, text;  // the file of the description and what is in it; or empty
  std::string document_index, sample_index, shuffle_index;
  std::string stamp;  // ours: index_cache.h
};
CacheNames cache_names(const IndexDescription& index);

struct BlendCacheNames {
  std::string description, text, dataset_index, dataset_sample_index, stamp;
};
BlendCacheNames blend_cache_names(const nlohmann::ordered_json& description, Split split);

}  // namespace weft
