#include "indexed_dataset/order/index_caches/cache_names.h"

#include <openssl/evp.h>

#include <array>
#include <charconv>
#include <filesystem>
#include <new>

#include "indexed_dataset/format/sidecars/tokenizer_files.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

// Python's repr(): the shortest digits that read back, with an exponent below 1e-4 and from 1e16
// on.
std::string python_float(double value) {
  std::array<char, 400> buffer{};
  const auto write = [&](std::chars_format format) {
    const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, format).ptr;
    return std::string(buffer.data(), end);
  };
  const std::string scientific = write(std::chars_format::scientific);
  const int exponent = std::atoi(scientific.c_str() + scientific.find('e') + 1);
  if (exponent < -4 || exponent >= 16) return scientific;
  const std::string fixed = write(std::chars_format::fixed);
  return fixed.find('.') == std::string::npos ? fixed + ".0" : fixed;
}

void append_json(const Json& value, const std::string& indent, std::string& text) {
  if (value.is_number_float()) {
    text += python_float(value.get<double>());
  } else if (!value.is_structured() || value.empty()) {
    text += value.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
  } else {
    const std::string deeper = indent + "    ";
    text += value.is_array() ? "[" : "{";
    bool is_first = true;
    for (const auto& [key, item] : value.items()) {
      text += (is_first ? "\n" : ",\n") + deeper;
      if (value.is_object())
        text += Json(key).dump(-1, ' ', true, Json::error_handler_t::replace) + ": ";
      append_json(item, deeper, text);
      is_first = false;
    }
    text += "\n" + indent + (value.is_array() ? "]" : "}");
  }
}

// The shares as Megatron-Core has them: the first bound is the integer 0.
Json split_matrix(const std::string& split) {
  Json matrix = Json::array();
  for (const auto& share : split_shares(split)) {
    if (!share) {
      matrix.push_back(nullptr);
    } else if (share->first == 0) {
      matrix.push_back({0, share->second});
    } else {
      matrix.push_back({share->first, share->second});
    }
  }
  return matrix;
}

Json nullable(const auto& value) { return value ? Json(*value) : Json(); }

std::string name_of_split(const IndexDescription& index) {
  const std::string name =
      index.group.empty() ? std::string(short_split_name(index.split)) : index.group;
  if (index.order != OrderKind::kNeox || !index.place_in_blend) return name;
  return name + "_" + std::to_string(*index.place_in_blend);
}

// No program that names its caches so reads parts: the names of these are ours.
bool is_part(const IndexDescription& index) {
  return index.share && *index.share != std::pair(0.0, 1.0);
}

CacheNames core_names(const IndexDescription& index) {
  CacheNames names;
  const Json description = core_description(index);
  names.text = python_json(description);
  const std::string base = md5_hex(names.text) + "-" + description["class"].get<std::string>() +
                           "-" + std::string(short_split_name(index.split)) + "-";
  names.description = base + "description.txt";
  names.document_index = base + "document_index.npy";
  names.sample_index = base + "sample_index.npy";
  names.shuffle_index = base + "shuffle_index.npy";
  names.stamp = base + "weft.json";
  return names;
}

std::string legacy_text(const IndexDescription& index) {
  return "GPT Dataset\n\nData prefix " + index.dataset_path + "\nDataset name " +
         name_of_split(index) + "\nNumber of samples " +
         (index.num_samples ? std::to_string(*index.num_samples) : "None") + "\nSequence length " +
         std::to_string(index.sequence_length) + "\nRandom seed " + std::to_string(index.seed) +
         "\nSplit " + index.split_string.value_or("None") + "\n" +
         (is_part(index) ? "Share " + python_float(index.share->first) + " " +
                               python_float(index.share->second) + "\n"
                         : "");
}

CacheNames old_names(const IndexDescription& index) {
  CacheNames names;
  std::string base;
  if (index.order == OrderKind::kLegacy) {
    names.text = legacy_text(index);
    base = md5_hex(names.text);
    names.description = base + ".dsc";
  } else {
    base = std::filesystem::path(index.dataset_path).filename().string() + "_" +
           name_of_split(index) + "_indexmap_" +
           (index.num_samples ? std::to_string(*index.num_samples) : "None") + "ns_" +
           std::to_string(index.sequence_length) + "sl_" + std::to_string(index.seed) + "s";
    if (index.order == OrderKind::kNeox) base += "_packedpi_ac";
  }
  names.document_index = base + "_doc_idx.npy";
  names.sample_index = base + "_sample_idx.npy";
  names.shuffle_index = base + "_shuffle_idx.npy";
  names.stamp = base + "_weft.json";
  return names;
}

}  // namespace

Json tokenizer_description(const TokenizerFiles& tokenizer) {
  Json paths = Json::array();
  for (const TokenizerFile& file : tokenizer.files) {
    if (file.path.empty()) return nullptr;
    paths.push_back(file.path);
  }
  if (paths.empty()) return nullptr;
  const char* const of_kind = is_gpt2(tokenizer)                   ? "_GPT2BPETokenizer"
                              : tokenizer.kind == kHuggingFaceKind ? "_HuggingFaceTokenizer"
                                                                   : "CustomTikTokenizer";
  return {{"class", of_kind}, {"tokenizer_path", std::move(paths)}};
}

Json core_description(const IndexDescription& index) {
  Json description = {
      {"class", index.order == OrderKind::kSequential ? "SequentialGPTDataset" : "GPTDataset"},
      {"dataset_path", index.dataset_path},
      {"num_samples", nullable(index.num_samples)},
      {"index_split", short_split_name(index.split)},
      {"random_seed", index.seed},
      {"sequence_length", index.sequence_length},
      {"split", nullable(index.split_string)},
      {"split_matrix", index.split_string ? split_matrix(*index.split_string) : Json()},
      {"tokenizer", index.tokenizer}};
  if (is_part(index)) description["share"] = {index.share->first, index.share->second};
  return description;
}

Json core_blend_description(const std::vector<IndexDescription>& datasets,
                            const std::vector<double>& weights, int64_t size) {
  Json all = Json::array();
  for (const IndexDescription& dataset : datasets) all.push_back(core_description(dataset));
  Json description = {{"class", "BlendedDataset"},
                      {"datasets", std::move(all)},
                      {"split", short_split_name(datasets.front().split)},
                      {"weights", weights},
                      {"size", size}};
  // Versions 0.9 and 0.10 write this option of theirs.
  if (datasets.front().order == OrderKind::kCore010)
    description["renormalize_blend_weights"] = false;
  return description;
}

std::string python_json(const Json& value) {
  std::string text;
  append_json(value, "", text);
  return text;
}

std::string md5_hex(const std::string& text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size_bytes = 0;
  if (EVP_Digest(text.data(), text.size(), digest.data(), &size_bytes, EVP_md5(), nullptr) != 1)
    throw std::bad_alloc();
  std::string hex;
  for (unsigned i = 0; i < size_bytes; ++i) {
    hex += "0123456789abcdef"[digest[i] >> 4];
    hex += "0123456789abcdef"[digest[i] & 15];
  }
  return hex;
}

CacheNames cache_names(const IndexDescription& index) {
  return rules_of(index.order).precedes_core ? old_names(index) : core_names(index);
}

BlendCacheNames blend_cache_names(const Json& description, Split split) {
  BlendCacheNames names;
  names.text = python_json(description);
  const std::string base =
      md5_hex(names.text) + "-BlendedDataset-" + std::string(short_split_name(split)) + "-";
  names.description = base + "description.txt";
  names.dataset_index = base + "dataset_index.npy";
  names.dataset_sample_index = base + "dataset_sample_index.npy";
  names.stamp = base + "weft.json";
  return names;
}

}  // namespace weft
