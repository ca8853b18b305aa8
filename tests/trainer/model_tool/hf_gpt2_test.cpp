#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/format/sidecars/tokenizer_files.h"
#include "kernels/numbers/elements.h"
#include "tests/indexed_dataset/nested_json.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/checkpoint_reader.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/model_tool/hf_folder.h"
#include "trainer/model_tool/hf_layout.h"
#include "trainer/resume/architecture.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class HfGpt2 : public ::testing::Test {
 protected:
  void TearDown() override { fs::remove_all(dir_); }

  // Writes a folder as transformers saves it: 2 layers, 3 heads of 4, vocabulary 50, and values
  // that name their place.
  void write_hf(const std::string& prefix,
                const nlohmann::json& overrides = nlohmann::json::object(),
                const std::vector<float>& extra_head = {},
                const std::string& extra_name = "lm_head.weight") {
    fs::create_directories(dir_ / "hf");
    nlohmann::json config = {{"model_type", "gpt2"},
                             {"n_embd", 12},
                             {"n_layer", 2},
                             {"n_head", 3},
                             {"n_positions", 8},
                             {"n_inner", nullptr},
                             {"vocab_size", 50},
                             {"activation_function", "gelu_new"},
                             {"layer_norm_epsilon", 1e-5}};
    config.update(overrides);
    std::ofstream(dir_ / "hf/config.json") << config.dump();
    ModelShape shape;
    shape.hidden_size = 12, shape.num_layers = 2, shape.num_heads = 3, shape.head_size = 4,
    shape.ffn_size = 48;
    shape.max_positions = shape.seq_length = 8, shape.vocab_size = 50,
    shape.padded_vocab_size = 128;
    shape.unties_head = !config.value("tie_word_embeddings", true);
    const ParameterTable table(shape, {});
    std::vector<SafetensorsEntry> entries;
    std::string data;
    float value = 0;
    for (const HfTensor& tensor : hf_tensors(shape)) {
      const bool is_head = tensor.hf_name == "lm_head.weight";
      entries.push_back({(is_head ? "" : prefix) + tensor.hf_name, "F32",
                         hf_shape(tensor, table.find(tensor.parameter), shape), 0, 0});
      int64_t count = 1;
      for (const int64_t size : entries.back().shape) count *= size;
      for (int64_t i = 0; i < count; ++i) {
        value += 0.25F;
        data.append(reinterpret_cast<const char*>(&value), 4);
      }
    }
    if (!extra_head.empty()) {
      entries.push_back({extra_name, "F32", {50, 12}, 0, 0});
      data.append(reinterpret_cast<const char*>(extra_head.data()), 4 * extra_head.size());
    }
    const std::string header = safetensors_header(entries, {{"format", "pt"}});
    std::ofstream(dir_ / "hf/model.safetensors", std::ios::binary) << header << data;
  }

  // Writes a vocabulary of so many entries, and no merges.
  TokenizerFiles write_tokenizer(int num_entries) {
    nlohmann::json vocabulary;
    for (int i = 0; i < num_entries; ++i) vocabulary[std::to_string(i)] = i;
    std::ofstream(dir_ / "v.json") << vocabulary;
    std::ofstream(dir_ / "m.txt") << "#version: 0.2\n";
    return gpt2_files(dir_ / "v.json", dir_ / "m.txt");
  }

  void import_model() { import_hf({dir_ / "hf", dir_ / "ckpt", 128}); }
  // Exports the imported model and returns its config.json.
  nlohmann::json export_model(const TokenizerFiles& tokenizer = {}, const char* name = "out",
                              DType dtype = DType::kFloat32) {
    export_hf(
        {.load = dir_ / "ckpt", .output = dir_ / name, .tokenizer = tokenizer, .dtype = dtype});
    return nlohmann::json::parse(read_file(dir_ / name / "config.json"));
  }

  // Writes the first tensors into one file and the others into a second one, as transformers does
  // with large models.
  void split_into_shards() {
    nlohmann::json weight_map;
    {
      const SafetensorsFile whole(dir_ / "hf/model.safetensors");
      std::vector<SafetensorsEntry> parts[2];
      std::string data[2];
      for (size_t i = 0; i < whole.entries().size(); ++i) {
        const SafetensorsEntry& entry = whole.entries()[i];
        const size_t shard = i < 9 ? 0 : 1;
        const auto bytes = whole.bytes(entry);
        parts[shard].push_back(entry);
        data[shard].append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        weight_map[entry.name] = shard == 0 ? "a.safetensors" : "b.safetensors";
      }
      for (size_t shard : {0, 1}) {
        const std::string header = safetensors_header(parts[shard], {{"format", "pt"}});
        std::ofstream(dir_ / (shard == 0 ? "hf/a.safetensors" : "hf/b.safetensors"),
                      std::ios::binary)
            << header << data[shard];
      }
    }
    fs::remove(dir_ / "hf/model.safetensors");
    std::ofstream(dir_ / "hf/model.safetensors.index.json")
        << nlohmann::json{{"weight_map", weight_map}};
  }

  std::string import_error() {
    try {
      import_model();
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  }

  fs::path dir_ = fs::temp_directory_path() / ("weft-hf-" + std::to_string(::getpid()));
};

TEST_F(HfGpt2, TensorsAreByteIdenticalAfterARoundTrip) {
  for (const auto& [prefix, is_tied] :
       {std::pair<std::string, bool>{"", true}, {"transformer.", true}, {"transformer.", false}}) {
    fs::remove_all(dir_);
    write_hf(prefix, {{"tie_word_embeddings", is_tied}});
    import_model();
    EXPECT_EQ(latest_iteration(dir_ / "ckpt"), 0);
    EXPECT_EQ(export_model()["tie_word_embeddings"], is_tied);
    const SafetensorsFile before(dir_ / "hf/model.safetensors"),
        after(dir_ / "out/model.safetensors");
    ASSERT_EQ(before.entries().size(), after.entries().size());
    for (const SafetensorsEntry& entry : before.entries()) {
      const SafetensorsEntry* same =
          after.find((prefix.empty() ? "transformer." : "") + entry.name);
      ASSERT_NE(same, nullptr) << entry.name;
      EXPECT_EQ(same->shape, entry.shape) << entry.name;
      const auto a = before.bytes(entry), b = after.bytes(*same);
      EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end())) << entry.name;
    }
  }
}

TEST_F(HfGpt2, QkvRowsAreOrderedPerHead) {
  write_hf("");
  import_model();
  std::vector<float> ours(36 * 12);
  const std::string name = "model/decoder.layers.1.self_attention.linear_qkv.weight";
  load_checkpoint(dir_ / "ckpt", 0,
                  {{name, {36, 12}, -1, 0, 0, Tensor(ours.data(), DType::kFloat32, {36 * 12})}},
                  *create_cpu_backend(1));
  const SafetensorsFile hf(dir_ / "hf/model.safetensors");
  const auto bytes = hf.bytes(*hf.find("h.1.attn.c_attn.weight"));
  const auto* theirs = reinterpret_cast<const float*>(bytes.data());
  for (int64_t s = 0; s < 3; ++s) {  // query, key, value
    for (int64_t head = 0; head < 3; ++head) {
      for (int64_t d = 0; d < 4; ++d) {
        for (int64_t in = 0; in < 12; ++in) {
          EXPECT_EQ(ours[static_cast<size_t>((head * 12 + s * 4 + d) * 12 + in)],
                    theirs[in * 36 + s * 12 + head * 4 + d]);
        }
      }
    }
  }
}

TEST_F(HfGpt2, PaddingIsNoPartOfACheckpoint) {
  write_hf("");
  import_model();
  std::vector<float> word(50 * 12, 1.0F);
  load_checkpoint(dir_ / "ckpt", 0,
                  {{"model/embedding.word_embeddings.weight",
                    {50, 12},
                    -1,
                    0,
                    0,
                    Tensor(word.data(), DType::kFloat32, {50 * 12})}},
                  *create_cpu_backend(1));
  EXPECT_EQ(word[49 * 12 + 11], 150.0F);
  const CheckpointInfo info = read_checkpoint_info(dir_ / "ckpt", 0);
  EXPECT_FALSE(info.architecture.contains("padded_vocab_size"));
  EXPECT_FALSE(info.has_optimizer);
}

TEST_F(HfGpt2, ConfigSaysWhatTheModelIs) {
  write_hf("", {{"activation_function", "gelu"}, {"n_inner", 48}});
  import_model();
  const auto config = export_model(write_tokenizer(50), "out", DType::kBFloat16);
  EXPECT_EQ(config["activation_function"], "gelu");
  EXPECT_EQ(config["vocab_size"], 50);
  EXPECT_EQ(config["n_inner"], 48);
  EXPECT_EQ(config["layer_norm_epsilon"], 1e-5);
  EXPECT_EQ(SafetensorsFile(dir_ / "out/model.safetensors").find("transformer.wpe.weight")->dtype,
            "BF16");
  EXPECT_EQ(read_file(dir_ / "out/merges.txt"), "#version: 0.2\n");
  EXPECT_TRUE(fs::exists(dir_ / "out/tokenizer_config.json"));
}

TEST_F(HfGpt2, Float16WeightsAreTheRoundedOnesAndComeBack) {
  write_hf("");
  import_model();
  export_model({}, "whole");
  EXPECT_EQ(export_model({}, "half", DType::kFloat16)["torch_dtype"], "float16");
  const SafetensorsFile whole(dir_ / "whole/model.safetensors"),
      half(dir_ / "half/model.safetensors");
  const SafetensorsEntry* entry = half.find("transformer.wpe.weight");
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry->dtype, "F16");
  const auto halves = half.bytes(*entry);
  const auto floats = whole.bytes(*whole.find("transformer.wpe.weight"));
  for (int64_t i = 0; i < static_cast<int64_t>(halves.size() / 2); ++i) {
    const float rounded =
        static_cast<float>(Float16(load_element(floats.data(), DType::kFloat32, i)));
    ASSERT_EQ(load_element(halves.data(), DType::kFloat16, i), rounded) << i;
  }
  import_hf({dir_ / "half", dir_ / "again", 128});
}

TEST_F(HfGpt2, TheTokenThatEndsDocumentsIsTheModelsOwn) {
  write_hf("", {{"eos_token_id", 2}});
  import_model();
  EXPECT_EQ(read_checkpoint_info(dir_ / "ckpt", 0).data.vocabulary.end_of_document, 2);
  const auto config = export_model(write_tokenizer(50));
  EXPECT_EQ(config["eos_token_id"], 2);
  EXPECT_EQ(config["bos_token_id"], 2);
  const auto tokenizer = nlohmann::json::parse(read_file(dir_ / "out/tokenizer_config.json"));
  EXPECT_EQ(tokenizer["eos_token"], "2") << "the entry with that id";
  EXPECT_EQ(tokenizer["bos_token"], "2");
  // A folder that names none gives none.
  fs::remove_all(dir_ / "ckpt");
  write_hf("", {{"eos_token_id", nullptr}});
  import_model();
  EXPECT_EQ(export_model({}, "last")["eos_token_id"], nullptr);
}

// Those who train on with transformers get the dropout that the run had.
TEST_F(HfGpt2, AnExportSaysHowTheRunHasTrained) {
  write_hf("");
  import_model();
  CheckpointInfo info = read_checkpoint_info(dir_ / "ckpt", 0);
  info.arguments_json =
      R"({"hidden_dropout": 0.0, "attention_dropout": 0.3, "init_method_std": 0.006})";
  CheckpointReader reader(dir_ / "ckpt", 0);
  const ParameterTable table(shape_from(info.architecture), {});
  std::vector<std::vector<float>> storage;
  std::vector<StateTensor> tensors;
  for (const Parameter& parameter : table.all()) {
    storage.emplace_back(static_cast<size_t>(parameter.num_elements));
    reader.read({.name = "model/" + parameter.name,
                 .global_shape = parameter.global_shape,
                 .count = parameter.num_own},
                DType::kFloat32, reinterpret_cast<char*>(storage.back().data()));
    tensors.push_back({"model/" + parameter.name, parameter.global_shape, -1, 0, 0,
                       Tensor(storage.back().data(), DType::kFloat32, {parameter.num_own})});
  }
  save_checkpoint(dir_ / "trained", info, tensors, *create_cpu_backend(1));
  export_hf({.load = dir_ / "trained", .output = dir_ / "out"});
  const auto config = nlohmann::json::parse(read_file(dir_ / "out/config.json"));
  EXPECT_EQ(config.at("resid_pdrop"), 0.0);
  EXPECT_EQ(config.at("embd_pdrop"), 0.0);
  EXPECT_EQ(config.at("attn_pdrop"), 0.3);
  EXPECT_EQ(config.at("initializer_range"), 0.006);
}

// nanoGPT's embedding has 50,304 rows for the 50,257 words of its tokenizer.
TEST_F(HfGpt2, AModelMayHaveMoreRowsThanItsTokenizerHasWords) {
  write_hf("");
  const TokenizerFiles tokenizer = write_tokenizer(47);
  fs::copy(dir_ / "v.json", dir_ / "hf/vocab.json");
  fs::copy(dir_ / "m.txt", dir_ / "hf/merges.txt");
  import_model();
  EXPECT_EQ(export_model(tokenizer).at("vocab_size"), 50);
}

TEST_F(HfGpt2, ShardsThatTheIndexDoesNotNameRightlyAreRefused) {
  for (const bool is_missing : {false, true}) {
    write_hf("");
    split_into_shards();
    const fs::path path = dir_ / "hf/model.safetensors.index.json";
    auto index = nlohmann::json::parse(read_file(path));
    auto& map = index["weight_map"];
    if (is_missing) {
      map.erase("wte.weight");
    } else {
      map["wte.weight"] = map["wte.weight"] == "a.safetensors" ? "b.safetensors" : "a.safetensors";
    }
    std::ofstream(path) << index;
    EXPECT_THAT(import_error(), HasSubstr("says that tensor wte.weight lies in"));
  }
}

TEST_F(HfGpt2, AFolderWithoutAConfigIsBadInputAsOneWithoutWeights) {
  write_hf("");
  fs::remove(dir_ / "hf/config.json");
  EXPECT_THAT(import_error(), HasSubstr("holds no config.json"));
}

TEST_F(HfGpt2, ATiedHeadThatDiffersIsNotDropped) {
  std::vector<float> head;  // equal to the embedding, as write_hf() counts
  for (int i = 1; i <= 50 * 12; ++i) head.push_back(0.25F * static_cast<float>(i));
  write_hf("transformer.", nlohmann::json::object(), head);
  EXPECT_EQ(import_error(), "");
  fs::remove_all(dir_ / "ckpt");
  head[7] += 1;
  write_hf("transformer.", nlohmann::json::object(), head);
  EXPECT_THAT(import_error(),
              HasSubstr("1 of 600 numbers of lm_head.weight differ from wte.weight"));
  EXPECT_EQ(latest_iteration(dir_ / "ckpt"), std::nullopt);
}

// A part of another model would be imported otherwise, and nothing would tell.
TEST_F(HfGpt2, WeightsThatTheModelDoesNotHaveAreRefused) {
  const std::string no_part = " is no part of the model that config.json describes";
  write_hf("transformer.", {{"n_layer", 1}});
  EXPECT_THAT(import_error(), HasSubstr("tensor transformer.h.1.ln_1.weight" + no_part));
  const std::vector<float> extra(50 * 12, 1.0F);
  write_hf("", nlohmann::json::object(), extra, "h.0.attn.q_norm.weight");
  EXPECT_THAT(import_error(), HasSubstr("tensor h.0.attn.q_norm.weight" + no_part));
  EXPECT_EQ(latest_iteration(dir_ / "ckpt"), std::nullopt);
  // Older versions of transformers stored attention's mask.
  write_hf("", nlohmann::json::object(), extra, "h.0.attn.bias");
  EXPECT_EQ(import_error(), "");
}

TEST_F(HfGpt2, ReadsShards) {
  write_hf("");
  import_model();
  const std::string whole = read_file(dir_ / "ckpt/iter_0000000/state_00000.safetensors");
  fs::remove_all(dir_ / "ckpt");
  split_into_shards();
  import_model();
  EXPECT_EQ(read_file(dir_ / "ckpt/iter_0000000/state_00000.safetensors"), whole);
}

TEST_F(HfGpt2, JsonOfAnotherKindIsBadInput) {
  const std::string deep = nested_json(200'000);
  for (const char* text : {deep.c_str(), "[]", "null", R"({"model_type": 3})",
                           R"({"model_type": "gpt2", "tie_word_embeddings": "yes"})",
                           R"({"model_type": "gpt2", "n_embd": 12, "n_layer": 1000000000000})"}) {
    write_hf("");
    std::ofstream(dir_ / "hf/config.json") << text;
    EXPECT_THROW(import_hf({dir_ / "hf", dir_ / "ckpt", 128}), std::runtime_error) << text;
  }
  write_hf("", {{"layer_norm_epsilon", -1}});
  EXPECT_THAT(import_error(), HasSubstr("layer_norm_epsilon is no positive number"));
  write_hf("", {{"layer_norm_epsilon", 1e300}});
  EXPECT_THAT(import_error(), HasSubstr("layer_norm_epsilon is no positive number"));
  write_hf("", {{"scale_attn_weights", 1}});
  EXPECT_THAT(import_error(), HasSubstr("scale_attn_weights is neither true nor false"));
  write_hf("", {{"activation_function", nullptr}});
  EXPECT_THAT(import_error(), HasSubstr("activation_function is no text"));
  for (const char* text : {deep.c_str(), "[1]", "{}", R"({"weight_map": {"wte.weight": 3}})"}) {
    write_hf("");
    split_into_shards();
    std::ofstream(dir_ / "hf/model.safetensors.index.json") << text;
    EXPECT_THROW(import_hf({dir_ / "hf", dir_ / "ckpt", 128}), std::runtime_error) << text;
  }
}

TEST_F(HfGpt2, AnotherModelsTokenizerIsRefused) {
  write_hf("");
  import_model();
  EXPECT_THROW(export_model(write_tokenizer(49)), std::invalid_argument);
  EXPECT_FALSE(fs::exists(dir_ / "out"));
}

TEST_F(HfGpt2, TheTokenizerIsThatOfTheModelsData) {
  write_hf("");
  const TokenizerFiles tokenizer = write_tokenizer(50);
  fs::copy(dir_ / "v.json", dir_ / "hf/vocab.json");
  fs::copy(dir_ / "m.txt", dir_ / "hf/merges.txt");
  import_model();
  const CheckpointInfo info = read_checkpoint_info(dir_ / "ckpt", 0);
  EXPECT_EQ(find_tokenizer_files(info).files[0].path, fs::absolute(dir_ / "hf/vocab.json"));

  // An equal copy elsewhere serves; a file of as many other entries does not.
  fs::remove_all(dir_ / "hf");
  EXPECT_THROW(find_tokenizer_files(info), std::invalid_argument);
  export_model(tokenizer);
  std::ofstream(dir_ / "m.txt", std::ios::app) << "a b\n";
  EXPECT_THROW(export_model(tokenizer, "out2"), std::invalid_argument);
  EXPECT_FALSE(fs::exists(dir_ / "out2"));
}

TEST_F(HfGpt2, ATokenizerJsonTravelsWithTheModel) {
  write_hf("");
  const std::string content = R"({"added_tokens":[{"id":3,"content":"</s>"}]})";
  std::ofstream(dir_ / "hf/tokenizer.json") << content;
  auto config = nlohmann::json::parse(read_file(dir_ / "hf/config.json"));
  config["eos_token_id"] = 3;
  std::ofstream(dir_ / "hf/config.json") << config;
  import_model();
  const TokenizerFiles found = find_tokenizer_files(read_checkpoint_info(dir_ / "ckpt", 0));
  EXPECT_EQ(found.kind, kHuggingFaceKind);
  export_model(found);
  EXPECT_EQ(read_file(dir_ / "out/tokenizer.json"), content);
  EXPECT_FALSE(fs::exists(dir_ / "out/vocab.json"));
  const auto written = nlohmann::json::parse(read_file(dir_ / "out/tokenizer_config.json"));
  EXPECT_EQ(written.at("tokenizer_class"), "PreTrainedTokenizerFast");
  EXPECT_EQ(written.at("eos_token"), "</s>");

  EXPECT_THROW(export_model(write_tokenizer(50), "out2"), std::invalid_argument) << "of GPT-2";
  std::ofstream(dir_ / "hf/tokenizer.json", std::ios::app) << " ";
  EXPECT_THROW(export_model(found, "out2"), std::invalid_argument) << "it has changed";
  EXPECT_FALSE(fs::exists(dir_ / "out2"));
}

TEST_F(HfGpt2, NothingIsReplacedWithoutBeingAsked) {
  write_hf("");
  import_model();
  fs::create_directories(dir_ / "out");
  std::ofstream(dir_ / "out/tokenizer.json") << "mine";
  HfExport options{.load = dir_ / "ckpt", .output = dir_ / "out"};
  EXPECT_THROW(export_hf(options), std::invalid_argument);
  EXPECT_EQ(read_file(dir_ / "out/tokenizer.json"), "mine");
  EXPECT_FALSE(fs::exists(dir_ / "out/config.json"));
  options.overwrite = true;
  export_hf(options);
  EXPECT_TRUE(fs::exists(dir_ / "out/config.json"));
  EXPECT_FALSE(fs::exists(dir_ / "out/tokenizer.json")) << "it would be another model's";
}

// Each I/O call fails in turn. The same command works once there is room.
TEST_F(HfGpt2, AnExportThatFailsLeavesNothing) {
  write_hf("");
  ASSERT_EQ(import_error(), "");
  bool finished = false;
  int num_failures = 0;
  for (int64_t n = 1; !finished && n < 100; ++n) {
    set_io_fault(n, ENOSPC);
    try {
      export_hf({.load = dir_ / "ckpt", .output = dir_ / "out"});
      finished = true;
    } catch (const std::system_error& error) {
      ++num_failures;
      const bool has_files = fs::exists(dir_ / "out") && !fs::is_empty(dir_ / "out");
      EXPECT_FALSE(has_files) << error.what();
    }
    set_io_fault(0, 0);
  }
  EXPECT_TRUE(finished);
  EXPECT_GT(num_failures, 3);
  EXPECT_TRUE(fs::exists(dir_ / "out/config.json"));
}

TEST_F(HfGpt2, RefusesModelsThatAreNotBuilt) {
  write_hf("", {{"model_type", "t5"}});
  EXPECT_THAT(import_error(),
              HasSubstr("model_type is t5, only gpt2, bloom, llama, mistral, qwen2 and qwen3"));
  write_hf("", {{"n_head", 5}});
  EXPECT_THAT(import_error(), HasSubstr("n_embd is not a multiple of n_head"));
  write_hf("", {{"n_layer", 3}});
  EXPECT_THAT(import_error(), HasSubstr("has no tensor h.2."));
  write_hf("", {{"vocab_size", 51}});
  EXPECT_THAT(import_error(), HasSubstr("another shape than config.json says"));
  write_hf("", {{"activation_function", "relu"}});
  EXPECT_THAT(import_error(), HasSubstr("activation_function relu"));
  EXPECT_EQ(latest_iteration(dir_ / "ckpt"), std::nullopt);
}

}  // namespace
}  // namespace weft
