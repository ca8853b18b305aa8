#include "trainer/model_tool/hf_model_folder.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "kernels/numbers/elements.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/identity/json_file.h"
#include "trainer/model_tool/hf_config.h"

namespace weft {

namespace fs = std::filesystem;

namespace {

using Json = nlohmann::json;

// The weights of a folder, which are one file or shards with an index.
class HfWeights {
 public:
  HfWeights(const fs::path& folder, std::string prefix)
      : folder_(folder), prefix_(std::move(prefix)) {
    const fs::path index = folder / "model.safetensors.index.json";
    if (fs::exists(folder / "model.safetensors")) {
      files_.push_back(std::make_unique<SafetensorsFile>(folder / "model.safetensors"));
    } else if (fs::exists(index)) {
      open_shards(read_json_file(index).at("weight_map"), index);
    } else {
      throw std::runtime_error(folder.string() +
                               " holds neither model.safetensors nor its index; save the model "
                               "with safe_serialization=True");
    }
  }

  // Throws for a tensor that is none of `names`, with or without the prefix. Such a folder holds
  // another model than its config.json describes, and would be read as a part of it. Older versions
  // of transformers stored constants, too.
  void refuse_others_than(const std::set<std::string>& names) const {
    for (const auto& file : files_) {
      for (const SafetensorsEntry& entry : file->entries()) {
        const std::string& full = entry.name;
        const bool is_constant = full.ends_with(".attn.bias") ||
                                 full.ends_with(".attn.masked_bias") ||
                                 full.ends_with(".rotary_emb.inv_freq");
        const std::string name = full.starts_with(prefix_) ? full.substr(prefix_.size()) : full;
        if (is_constant || names.contains(name)) continue;
        throw std::runtime_error(file->path().string() + ": tensor " + full +
                                 " is no part of the model that config.json describes");
      }
    }
  }

  bool has(const std::string& name) const {
    return std::any_of(files_.begin(), files_.end(),
                       [&](const auto& file) { return file->find(name) != nullptr; });
  }

  // A tensor as it lies in its file.
  struct Values {
    const std::byte* data = nullptr;
    DType dtype = DType::kFloat32;
    int64_t count = 0;
  };
  // Returns the tensor `name`, with or without the prefix.
  Values find(const std::string& name, const std::vector<int64_t>& shape) const {
    for (const std::string& full : {prefix_ + name, name}) {
      for (const auto& file : files_) {
        const SafetensorsEntry* entry = file->find(full);
        if (entry == nullptr) continue;
        if (entry->shape != shape)
          throw std::runtime_error(file->path().string() + ": tensor " + full +
                                   " has another shape than config.json says");
        return values_of(*entry, *file);
      }
    }
    throw std::runtime_error(folder_.string() + " has no tensor " + name);
  }

 private:
  static Values values_of(const SafetensorsEntry& entry, const SafetensorsFile& file) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      if (entry.dtype == safetensors_dtype(dtype))
        return {file.bytes(entry).data(), dtype, (entry.end - entry.begin) / size_bytes(dtype)};
    }
    throw std::runtime_error(file.path().string() + ": tensor " + entry.name + " has type " +
                             entry.dtype + "; F32, BF16 and F16 can be imported");
  }

  // The index must name the file of each tensor, or it is another model's.
  void open_shards(const Json& weight_map, const fs::path& index) {
    std::set<std::string> names;
    for (const auto& file : weight_map) names.insert(file.get<std::string>());
    size_t num_tensors = 0;
    for (const std::string& name : names) {
      files_.push_back(std::make_unique<SafetensorsFile>(folder_ / fs::path(name).filename()));
      for (const SafetensorsEntry& entry : files_.back()->entries()) {
        ++num_tensors;
        const auto found = weight_map.find(entry.name);
        if (found != weight_map.end() && *found == name) continue;
        throw std::runtime_error(index.string() + " says that tensor " + entry.name + " lies in " +
                                 (found == weight_map.end() ? "no file" : found->dump()) +
                                 ", and it is in " + name);
      }
    }
    if (num_tensors != weight_map.size()) {
      throw std::runtime_error(index.string() + " names " + std::to_string(weight_map.size()) +
                               " tensors, and the files hold " + std::to_string(num_tensors));
    }
  }

  fs::path folder_;
  std::string prefix_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
};

constexpr const char* kHead = "lm_head.weight";

// Many folders hold the head although it is the word embedding. One that differs would be lost.
void check_tied_head(const HfWeights& weights, const ModelShape& shape, const fs::path& config) {
  if (shape.unties_head || !weights.has(kHead)) return;
  const std::string word_embedding = hf_tensors(shape).front().hf_name;
  const std::vector<int64_t> whole = {shape.vocab_size, shape.hidden_size};
  const HfWeights::Values head = weights.find(kHead, whole),
                          words = weights.find(word_embedding, whole);
  if (head.dtype == words.dtype &&
      std::memcmp(head.data, words.data,
                  static_cast<size_t>(head.count * size_bytes(head.dtype))) == 0)
    return;
  int64_t num_different = 0;
  for (int64_t i = 0; i < head.count; ++i) {
    num_different += std::bit_cast<uint32_t>(load_element(head.data, head.dtype, i)) !=
                             std::bit_cast<uint32_t>(load_element(words.data, words.dtype, i))
                         ? 1
                         : 0;
  }
  if (num_different == 0) return;
  throw std::runtime_error(
      config.string() +
      " ties the head to the word embedding (tie_word_embeddings, which is true by " +
      "default), but " + std::to_string(num_different) + " of " + std::to_string(head.count) +
      " numbers of lm_head.weight differ from " + word_embedding +
      ": set it to false there to import the head, or " + "take lm_head.weight out of the weights");
}

// The tokenizer's files are part of most folders.
RunVocabulary vocabulary_of(const fs::path& folder, const Json& config, int64_t num_tokens) {
  RunVocabulary vocabulary;
  vocabulary.num_tokens = num_tokens;
  vocabulary.source = folder.string();
  const auto take_end = [&](const Json& id, const std::string& source) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= static_cast<uint64_t>(num_tokens)) return;
    vocabulary.end_of_document = id.get<int64_t>();
    vocabulary.end_of_document_source = source;
  };
  // A number, a list of them, or null; transformers writes no defaults of its classes.
  const std::string type = config.value("model_type", "");
  const Json fallback = type.starts_with("qwen") ? Json() : Json(type == "gpt2" ? 50256U : 2U);
  Json end = config.value("eos_token_id", fallback);
  if (end.is_array() && !end.empty()) end = Json(end.front());
  take_end(end, "eos_token_id of " + (folder / "config.json").string());
  if (!fs::exists(folder / "vocab.json") || !fs::exists(folder / "merges.txt")) {
    const fs::path file = folder / "tokenizer.json";
    if (fs::exists(file))
      vocabulary.tokenizer = with_checksums(tokenizer_file(kHuggingFaceKind, file.string()));
    return vocabulary;
  }
  if (vocabulary.end_of_document < 0) {
    const fs::path file = folder / "vocab.json";
    take_end(read_json_file(file).value(kGpt2EndOfDocument, Json()),
             std::string(kGpt2EndOfDocument) + " of " + file.string());
  }
  vocabulary.tokenizer = with_checksums(gpt2_files(folder / "vocab.json", folder / "merges.txt"));
  return vocabulary;
}

Json config_of(const fs::path& folder) {
  const fs::path path = folder / "config.json";
  if (fs::exists(path)) return read_json_file(path);
  throw std::runtime_error(folder.string() + " holds no config.json: is it a Hugging Face folder?");
}

std::string note_of(const Json& config, const RunVocabulary& vocabulary) {
  const Json end = config.value("eos_token_id", Json());
  if (!end.is_array() || end.size() < 2) return "";
  return "eos_token_id lists several tokens, " + end.dump() + "; " +
         (vocabulary.end_of_document < 0
              ? "none of them ends documents here"
              : std::to_string(vocabulary.end_of_document) + " ends documents here");
}

}  // namespace

struct HfModelFolder::Impl {
  Impl(const fs::path& folder, const Json& config, int64_t vocabulary_divisor)
      : shape(shape_from_hf_config(config, folder / "config.json", vocabulary_divisor)),
        tensors(hf_tensors(shape)),
        weights(folder, hf_prefix(shape)) {
    check_tied_head(weights, shape, folder / "config.json");
    std::set<std::string> names = {kHead};
    for (const HfTensor& tensor : tensors) names.insert(tensor.hf_name);
    weights.refuse_others_than(names);
    vocabulary = vocabulary_of(folder, config, shape.vocab_size);
    note = note_of(config, vocabulary);
  }

  ModelShape shape;
  std::vector<HfTensor> tensors;
  HfWeights weights;
  RunVocabulary vocabulary;
  std::string note;
};

HfModelFolder::HfModelFolder(const fs::path& folder, int64_t vocabulary_divisor) {
  try {
    impl_ = std::make_unique<const Impl>(folder, config_of(folder), vocabulary_divisor);
  } catch (const Json::exception& error) {
    throw std::runtime_error(
        folder.string() +
        ": config.json or the index is not as transformers writes them: " + error.what());
  }
}

HfModelFolder::~HfModelFolder() = default;
HfModelFolder::HfModelFolder(HfModelFolder&&) noexcept = default;

const ModelShape& HfModelFolder::shape() const { return impl_->shape; }
const RunVocabulary& HfModelFolder::vocabulary() const { return impl_->vocabulary; }
const std::string& HfModelFolder::note() const { return impl_->note; }

namespace {

// Columns of theirs that are our rows are read some at a time, because they share cache lines.
void copy_runs(char* to, DType type, const HfWeights::Values& from,
               const std::vector<HfRun>& runs) {
  constexpr size_t kTogether = 32;
  constexpr int64_t kBlock = 256;
  for (size_t first = 0; first < runs.size(); first += kTogether) {
    const size_t end = std::min(runs.size(), first + kTogether);
    const bool is_gathered = runs[first].their_stride > 1;
    const int64_t count = runs[first].count, step = is_gathered ? kBlock : count;
    for (int64_t begin = 0; begin < count; begin += step) {
      for (size_t i = first; i < end; ++i) {
        const HfRun& run = runs[i];
        const int64_t n = is_gathered ? std::min(step, run.count - begin) : run.count;
        convert_elements(
            to + (run.ours + begin) * size_bytes(type), type,
            from.data + (run.theirs + begin * run.their_stride) * size_bytes(from.dtype),
            from.dtype, run.their_stride, n);
      }
    }
  }
}

}  // namespace

void HfModelFolder::read(const Parameter& parameter, DType type, char* to) const {
  const ModelShape& shape = impl_->shape;
  for (const HfTensor& tensor : impl_->tensors) {
    if (tensor.parameter != parameter.name) continue;
    copy_runs(to, type, impl_->weights.find(tensor.hf_name, hf_shape(tensor, parameter, shape)),
              hf_runs(tensor, parameter, shape));
  }
}

}  // namespace weft
