// LLaMA's folders, as transformers writes them (tests/golden/trainer/make_hf_llama.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "indexed_dataset/storage/file_io.h"
#include "tests/trainer/model_fixture.h"
#include "trainer/checkpoint/architecture.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/model_tool/hf_gpt2.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

fs::path golden_folder() {
  const char* source_dir = std::getenv("WEFT_SOURCE_DIR");
  return fs::path(source_dir ? source_dir : ".") / "tests/golden/trainer/llama-hf";
}

class HfLlama : public ::testing::Test {
 protected:
  void SetUp() override { import_hf_gpt2({golden_folder(), dir_ / "ckpt", 128}); }
  void TearDown() override { fs::remove_all(dir_); }

  // Trains nothing: the architecture of the imported checkpoint, changed, is exported.
  std::string export_error(const std::function<void(ModelShape&)>& change) {
    ModelShape shape = shape_from(read_checkpoint_info(dir_ / "ckpt", 0).architecture);
    change(shape);
    CheckpointInfo info;
    info.architecture = architecture_of(shape);
    info.lr_decay_style = "none";
    fs::remove_all(dir_ / "other");
    save_checkpoint(dir_ / "other", info, {}, *create_cpu_backend(1));
    try {
      export_hf_gpt2({.load = dir_ / "other", .output = dir_ / "out"});
    } catch (const std::runtime_error& error) {
      EXPECT_FALSE(fs::exists(dir_ / "out"));
      return error.what();
    }
    return "";
  }
  std::string import_error(const nlohmann::json& overrides) {
    fs::remove_all(dir_ / "hf");
    fs::create_directories(dir_ / "hf");
    auto config = nlohmann::json::parse(read_file(golden_folder() / "config.json"));
    config.update(overrides);
    std::ofstream(dir_ / "hf/config.json") << config;
    fs::copy(golden_folder() / "model.safetensors", dir_ / "hf");
    try {
      import_hf_gpt2({dir_ / "hf", dir_ / "ckpt2", 128});
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  }

  const fs::path dir_ = fs::temp_directory_path() / ("weft-hf-llama-" + std::to_string(getpid()));
};

TEST_F(HfLlama, GivesTheLogitsOfTransformers) {
  const CheckpointInfo info = read_checkpoint_info(dir_ / "ckpt", 0);
  TrainerOptions options;
  options.shape = shape_from(info.architecture);
  EXPECT_EQ(options.shape.num_query_groups, 2);
  EXPECT_EQ(options.shape.rotary_base, 500000.0);
  options.shape.seq_length = 12;
  options.shape.micro_batch_size = 2;
  TrainerOnDevice model(options, create_cpu_backend(1));
  load_checkpoint(dir_ / "ckpt", 0, model->state_tensors(false), *model.backend);
  model->parameters_loaded();
  HostBatch batch(options.shape, 2);
  for (int32_t i = 0; i < 24; ++i)
    batch.tokens()[static_cast<size_t>(i)] = (7 * i * i + 3 * i) % 60;
  model->evaluate(batch.view());
  model->result();
  const std::vector<float> logits = to_host(*model.backend, model->model().logits());
  const std::string golden = read_file(golden_folder() / "logits.f32");
  ASSERT_EQ(golden.size(), 24 * 60 * sizeof(float));
  for (size_t row = 0; row < 24; ++row) {
    for (size_t word = 0; word < 60; ++word) {
      float expected = 0;
      std::memcpy(&expected, golden.data() + (row * 60 + word) * sizeof expected, sizeof expected);
      ASSERT_NEAR(logits[row * 128 + word], expected, 1e-4) << "row " << row << " word " << word;
    }
  }
}

TEST_F(HfLlama, TensorsAreByteIdenticalAfterARoundTrip) {
  export_hf_gpt2({.load = dir_ / "ckpt", .output = dir_ / "out"});
  const SafetensorsFile before(golden_folder() / "model.safetensors");
  const SafetensorsFile after(dir_ / "out/model.safetensors");
  ASSERT_EQ(before.entries().size(), after.entries().size());
  for (const SafetensorsEntry& entry : before.entries()) {
    const SafetensorsEntry* same = after.find(entry.name);
    ASSERT_NE(same, nullptr) << entry.name;
    EXPECT_EQ(same->shape, entry.shape) << entry.name;
    const auto a = before.bytes(entry), b = after.bytes(*same);
    EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end())) << entry.name;
  }
  const auto config = nlohmann::json::parse(read_file(dir_ / "out/config.json"));
  const auto theirs = nlohmann::json::parse(read_file(golden_folder() / "config.json"));
  for (const char* name :
       {"model_type", "hidden_act", "vocab_size", "max_position_embeddings", "hidden_size",
        "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
        "head_dim", "rms_norm_eps", "attention_bias", "mlp_bias", "tie_word_embeddings"}) {
    EXPECT_EQ(config.at(name), theirs.at(name)) << name;
  }
  EXPECT_EQ(config.at("rope_theta"), 500000.0);
}

TEST_F(HfLlama, NamesWhatIsNotBuilt) {
  EXPECT_THAT(import_error({{"attention_bias", true}}), HasSubstr("attention_bias is true"));
  EXPECT_THAT(import_error({{"hidden_act", "gelu"}}), HasSubstr("hidden_act gelu is not built"));
  EXPECT_THAT(import_error({{"rope_scaling", {{"rope_type", "llama3"}}}}),
              HasSubstr("rope_scaling of type llama3 is not built"));
  EXPECT_THAT(import_error({{"num_key_value_heads", 3}}),
              HasSubstr("num_attention_heads is not a multiple of num_key_value_heads"));
  EXPECT_THAT(import_error({{"intermediate_size", 47}}), HasSubstr("another shape than"));
  EXPECT_THAT(import_error({{"num_hidden_layers", 3}}), HasSubstr("has no tensor layers.2."));
  EXPECT_EQ(import_error({{"rope_scaling", nullptr}}), "");
}

TEST_F(HfLlama, AModelOfNoFormatSaysWhatIsInTheWay) {
  EXPECT_THAT(export_error([](ModelShape& shape) { shape.glu = Glu::kGeglu; }),
              HasSubstr("LLaMA cannot hold this model, which has no --swiglu"));
  EXPECT_THAT(export_error([](ModelShape& shape) { shape.rotary_size = 8; }),
              HasSubstr("which has no --position-embedding-type rope of whole heads"));
  EXPECT_THAT(export_error([](ModelShape& shape) { shape.uses_rms_norm = false; }),
              HasSubstr("which has LayerNorms"));
  const auto gpt2_without_biases = [](ModelShape& shape) {
    const ModelShape sizes = shape;
    shape = ModelShape{};
    shape.num_layers = sizes.num_layers, shape.hidden_size = sizes.hidden_size;
    shape.num_heads = sizes.num_heads, shape.head_size = sizes.head_size;
    shape.ffn_size = sizes.ffn_size, shape.vocab_size = sizes.vocab_size;
    shape.max_positions = shape.seq_length = 12;
    shape.has_biases = false;
  };
  EXPECT_THAT(
      export_error(gpt2_without_biases),
      HasSubstr("GPT-2 cannot hold this model, which has no biases (--disable-bias-linear), "
                "a head size of its own"));
}

}  // namespace
}  // namespace weft
