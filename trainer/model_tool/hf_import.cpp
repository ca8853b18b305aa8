#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "indexed_dataset/storage/file_io.h"
#include "indexed_dataset/storage/sha256.h"
#include "kernels/bfloat16.h"
#include "kernels/float16.h"
#include "trainer/checkpoint/architecture.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/data/json_file.h"
#include "trainer/model_tool/hf_gpt2.h"
#include "trainer/model_tool/hf_layout.h"

namespace weft {

namespace fs = std::filesystem;

namespace {

using Json = nlohmann::json;

// Reads what no other part of config.json contradicts: the frequencies of rotary positions, unscaled.
// Newer versions of transformers write them as an object.
template <typename Fail>
double rotary_base_of(const Json& config, const Fail& fail) {
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    const auto found = config.find(name);
    if (found == config.end() || found->is_null()) continue;
    const std::string type = found->value("rope_type", found->value("type", "default"));
    if (type != "default") fail(std::string(name) + " of type " + type + " is not built");
    if (found->contains("rope_theta")) return found->at("rope_theta").get<double>();
  }
  return config.value("rope_theta", 10000.0);
}

// [transformers, models/llama/configuration_llama.py]
template <typename Fail, typename Integer>
ModelShape shape_of_llama(const Json& config, const Fail& fail, const Integer& integer,
                          int64_t divisor) {
  for (const char* unsupported : {"attention_bias", "mlp_bias"}) {
    if (config.value(unsupported, false))
      fail(std::string(unsupported) + " is true: LLaMA's biases are not built");
  }
  const std::string activation = config.value("hidden_act", "silu");
  if (activation != "silu") fail("hidden_act " + activation + " is not built");
  ModelShape shape;
  shape.unties_head = !config.value("tie_word_embeddings", false);
  shape.uses_rms_norm = true;
  shape.has_biases = shape.has_qkv_bias = shape.has_position_table = false;
  shape.glu = Glu::kSwiglu;
  shape.hidden_size = integer("hidden_size", 0);
  shape.num_layers = integer("num_hidden_layers", 0);
  if (shape.num_layers > 1 << 16) fail("num_hidden_layers is above 65536");
  shape.num_heads = integer("num_attention_heads", 0);
  const int64_t groups = integer("num_key_value_heads", shape.num_heads);
  if (shape.num_heads % groups != 0)
    fail("num_attention_heads is not a multiple of num_key_value_heads");
  if (groups != shape.num_heads) shape.num_query_groups = groups;
  if (!config.contains("head_dim") && shape.hidden_size % shape.num_heads != 0)
    fail("hidden_size is not a multiple of num_attention_heads");
  shape.head_size = integer("head_dim", std::max<int64_t>(1, shape.hidden_size / shape.num_heads));
  if (shape.head_size % 2 != 0) fail("head_dim is odd, and rotary positions turn pairs");
  shape.rotary_size = shape.head_size;
  shape.rotary_base = rotary_base_of(config, fail);
  if (!(shape.rotary_base > 1)) fail("rope_theta is not above 1");
  shape.ffn_size = integer("intermediate_size", 0);
  shape.max_positions = shape.seq_length = integer("max_position_embeddings", 2048);
  shape.vocab_size = integer("vocab_size", 0);
  shape.padded_vocab_size = (shape.vocab_size + divisor - 1) / divisor * divisor;
  shape.layernorm_epsilon = config.value("rms_norm_eps", 1e-6F);
  if (!(shape.layernorm_epsilon > 0)) fail("rms_norm_eps is not positive");
  return shape;
}

ModelShape shape_of(const Json& config, const fs::path& path, int64_t divisor) {
  const auto fail = [&](const std::string& why) {
    throw std::runtime_error(path.string() + ": " + why);
  };
  const auto integer = [&](const char* name, int64_t fallback) {
    const auto found = config.find(name);
    if (found == config.end() || found->is_null()) {
      if (fallback <= 0) fail(std::string("has no field ") + name);
      return fallback;
    }
    // No model has more, and products of such numbers do not overflow.
    constexpr int64_t kLimit = 1 << 24;
    if (!found->is_number_integer() || found->get<int64_t>() <= 0 ||
        found->get<int64_t>() > kLimit) {
      fail(std::string(name) + " is no integer from 1 to " + std::to_string(kLimit));
    }
    return found->get<int64_t>();
  };
  const std::string type = config.value("model_type", "not given");
  if (type == "llama") return shape_of_llama(config, fail, integer, divisor);
  if (type != "gpt2") fail("model_type is " + type + ", only gpt2 and llama can be imported");
  for (const char* unsupported :
       {"scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn", "add_cross_attention"}) {
    if (config.value(unsupported, false))
      fail(std::string(unsupported) + " is true: this variant is not GPT-2 as Weft trains it");
  }
  if (!config.value("scale_attn_weights", true))
    fail("scale_attn_weights is false: this variant is not GPT-2 as Weft trains it");
  ModelShape shape;
  shape.unties_head = !config.value("tie_word_embeddings", true);
  shape.hidden_size = integer("n_embd", 0);
  shape.num_layers = integer("n_layer", 0);
  if (shape.num_layers > 1 << 16) fail("n_layer is above 65536");
  shape.num_heads = integer("n_head", 0);
  if (shape.hidden_size % shape.num_heads != 0) fail("n_embd is not a multiple of n_head");
  shape.head_size = shape.hidden_size / shape.num_heads;
  shape.ffn_size = integer("n_inner", 4 * shape.hidden_size);
  shape.max_positions = shape.seq_length = integer("n_positions", 0);
  shape.vocab_size = integer("vocab_size", 0);
  shape.padded_vocab_size = (shape.vocab_size + divisor - 1) / divisor * divisor;
  shape.layernorm_epsilon = config.value("layer_norm_epsilon", 1e-5F);
  if (!(shape.layernorm_epsilon > 0)) fail("layer_norm_epsilon is not positive");
  const std::string activation = config.value("activation_function", "gelu_new");
  if (activation == "gelu_new" || activation == "gelu_fast" || activation == "gelu_pytorch_tanh") {
    shape.gelu = Gelu::kTanh;
  } else if (activation == "gelu") {
    shape.gelu = Gelu::kErf;
  } else {
    fail("activation_function " + activation + " is not built");
  }
  return shape;
}

// The weights of a folder, which are one file or shards with an index.
class HfWeights {
 public:
  HfWeights(const fs::path& folder, std::string prefix)
      : folder_(folder), prefix_(std::move(prefix)) {
    const fs::path index = folder / "model.safetensors.index.json";
    if (fs::exists(folder / "model.safetensors")) {
      files_.push_back(std::make_unique<SafetensorsFile>(folder / "model.safetensors"));
    } else if (fs::exists(index)) {
      const Json json = read_json_file(index);
      std::set<std::string> names;
      for (const auto& file : json.at("weight_map")) names.insert(file.get<std::string>());
      for (const std::string& name : names) {
        files_.push_back(std::make_unique<SafetensorsFile>(folder / fs::path(name).filename()));
      }
    } else {
      throw std::runtime_error(folder.string() +
                               " holds neither model.safetensors nor its index; save the model "
                               "with safe_serialization=True");
    }
  }

  bool has(const std::string& name) const {
    return std::any_of(files_.begin(), files_.end(),
                       [&](const auto& file) { return file->find(name) != nullptr; });
  }

  // Returns the values of the tensor `name`, with or without the prefix, as fp32.
  std::vector<float> read(const std::string& name, const std::vector<int64_t>& shape) const {
    for (const std::string& full : {prefix_ + name, name}) {
      for (const auto& file : files_) {
        const SafetensorsEntry* entry = file->find(full);
        if (entry == nullptr) continue;
        if (entry->shape != shape)
          throw std::runtime_error(file->path().string() + ": tensor " + full +
                                   " has another shape than config.json says");
        return widen(file->bytes(*entry), *entry, *file);
      }
    }
    throw std::runtime_error(folder_.string() + " has no tensor " + name);
  }

 private:
  static std::vector<float> widen(std::span<const std::byte> bytes, const SafetensorsEntry& entry,
                                  const SafetensorsFile& file) {
    const size_t element = entry.dtype == "F32" ? 4 : 2;
    if (entry.dtype != "F32" && entry.dtype != "BF16" && entry.dtype != "F16") {
      throw std::runtime_error(file.path().string() + ": tensor " + entry.name + " has type " +
                               entry.dtype + "; F32, BF16 and F16 can be imported");
    }
    std::vector<float> values(bytes.size() / element);
    if (element == 4) {
      std::memcpy(values.data(), bytes.data(), bytes.size());
      return values;
    }
    for (size_t i = 0; i < values.size(); ++i) {
      uint16_t bits;
      std::memcpy(&bits, bytes.data() + 2 * i, 2);
      values[i] = entry.dtype == "BF16" ? static_cast<float>(std::bit_cast<BFloat16>(bits))
                                        : static_cast<float>(std::bit_cast<Float16>(bits));
    }
    return values;
  }

  fs::path folder_;
  std::string prefix_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
};

// Many folders hold the head although it is the word embedding. One that differs would be lost.
void check_tied_head(const HfWeights& weights, const ModelShape& shape, const fs::path& config) {
  constexpr const char* kHead = "lm_head.weight";
  if (shape.unties_head || !weights.has(kHead)) return;
  const std::string word_embedding = hf_tensors(shape).front().hf_name;
  const std::vector<int64_t> whole = {shape.vocab_size, shape.hidden_size};
  const std::vector<float> head = weights.read(kHead, whole),
                           words = weights.read(word_embedding, whole);
  size_t num_different = 0;
  for (size_t i = 0; i < head.size(); ++i)
    num_different += std::bit_cast<uint32_t>(head[i]) != std::bit_cast<uint32_t>(words[i]) ? 1 : 0;
  if (num_different == 0) return;
  throw std::runtime_error(
      config.string() +
      " ties the head to the word embedding (tie_word_embeddings, which is true by " +
      "default), but " + std::to_string(num_different) + " of " + std::to_string(head.size()) +
      " numbers of lm_head.weight differ from " + word_embedding +
      ": set it to false there to import the head, or " + "take lm_head.weight out of the weights");
}

// The tokenizer's files are part of most folders.
RunVocabulary vocabulary_of(const fs::path& folder, const Json& config, int64_t num_tokens) {
  RunVocabulary vocabulary;
  vocabulary.num_tokens = num_tokens;
  vocabulary.source = folder.string();
  const auto end = config.find("eos_token_id");  // a number, or null
  if (end != config.end() && end->is_number_unsigned() &&
      end->get<uint64_t>() < static_cast<uint64_t>(num_tokens)) {
    vocabulary.end_of_document = end->get<int64_t>();
    vocabulary.end_of_document_source = "eos_token_id of " + (folder / "config.json").string();
  }
  if (!fs::exists(folder / "vocab.json") || !fs::exists(folder / "merges.txt")) return vocabulary;
  vocabulary.vocab_file = fs::absolute(folder / "vocab.json").string();
  vocabulary.vocab_sha256 = sha256_of_file(folder / "vocab.json");
  vocabulary.merge_file = fs::absolute(folder / "merges.txt").string();
  vocabulary.merge_sha256 = sha256_of_file(folder / "merges.txt");
  return vocabulary;
}

void import_folder(const HfImport& options) {
  const fs::path config_path = options.input / "config.json";
  const Json config = read_json_file(config_path);
  const ModelShape shape = shape_of(config, config_path, options.make_vocab_size_divisible_by);
  const HfWeights weights(options.input, hf_prefix(shape));
  check_tied_head(weights, shape, config_path);
  const ParameterTable table(shape, {});
  std::map<std::string, std::vector<float>> storage;  // by parameter, with zeros as padding
  std::vector<StateTensor> tensors;
  for (const HfTensor& tensor : hf_tensors(shape)) {
    const Parameter& parameter = table.find(tensor.parameter);
    const std::vector<float> theirs =
        weights.read(tensor.hf_name, hf_shape(tensor, parameter, shape));
    std::vector<float>& ours = storage[parameter.name];
    if (ours.empty()) {
      ours.resize(static_cast<size_t>(parameter.num_elements));
      tensors.push_back({"model/" + parameter.name, parameter.global_shape, -1, 0, 0,
                         Tensor(ours.data(), DType::kFloat32, {parameter.num_own})});
    }
    from_hf(ours.data(), theirs.data(), tensor, parameter, shape);
  }
  CheckpointInfo info;
  info.architecture = architecture_of(shape);
  info.data.vocabulary = vocabulary_of(options.input, config, shape.vocab_size);
  info.lr_decay_style = "none";
  const auto cpu = create_cpu_backend();
  save_checkpoint(options.save, info, tensors, *cpu);
}

}  // namespace

void import_hf_gpt2(const HfImport& options) {
  try {
    import_folder(options);
  } catch (const Json::exception& error) {
    throw std::runtime_error(
        options.input.string() +
        ": config.json or the index is not as transformers writes them: " + error.what());
  }
}

}  // namespace weft
