// LLaMA's folders.
#include "tests/trainer/model_tool/hf_folder_fixture.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

class HfLlama : public HfFolder {
 protected:
  HfLlama() : HfFolder("llama-hf") {}
};

TEST_F(HfLlama, GivesTheLogitsOfTransformers) {
  EXPECT_EQ(imported_shape().num_query_groups, 2);
  EXPECT_EQ(imported_shape().rotary_base, 500000.0);
  expect_logits_of_transformers();
}

TEST_F(HfLlama, TensorsAreByteIdenticalAfterARoundTrip) {
  const auto config = expect_round_trip(
      {"model_type", "hidden_act", "vocab_size", "max_position_embeddings", "hidden_size",
       "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
       "head_dim", "rms_norm_eps", "attention_bias", "mlp_bias", "tie_word_embeddings"});
  EXPECT_EQ(config.at("rope_theta"), 500000.0);
}

TEST_F(HfLlama, NamesWhatIsNotBuilt) {
  EXPECT_THAT(import_error({{"attention_bias", true}}), HasSubstr("attention_bias is true"));
  EXPECT_THAT(import_error({{"hidden_act", "gelu"}}), HasSubstr("hidden_act gelu is not built"));
  EXPECT_THAT(import_error({{"rope_scaling", {{"factor", 8.0}, {"rope_type", "yarn"}}}}),
              HasSubstr("rope_scaling of type yarn is not built"));
  EXPECT_THAT(import_error({{"rope_scaling", {{"factor", 8.0}, {"rope_type", "llama3"}}}}),
              HasSubstr("rope_scaling of type llama3 has no number low_freq_factor"));
  EXPECT_THAT(import_error({{"num_key_value_heads", 3}}),
              HasSubstr("num_attention_heads is not a multiple of num_key_value_heads"));
  EXPECT_THAT(import_error({{"intermediate_size", 47}}), HasSubstr("another shape than"));
  EXPECT_THAT(import_error({{"num_hidden_layers", 3}}), HasSubstr("has no tensor layers.2."));
  EXPECT_THAT(import_error({{"num_hidden_layers", 1}}),
              HasSubstr("tensor model.layers.1.input_layernorm.weight is no part of the model"));
  EXPECT_THAT(import_error({{"partial_rotary_factor", 0.5}}),
              HasSubstr("partial_rotary_factor is not 1"));
  EXPECT_EQ(import_error({{"partial_rotary_factor", 1.0}}), "");
  EXPECT_EQ(import_error({{"rope_scaling", nullptr}}), "");
}

// A base that is read wrongly gives a model that still speaks, and worse.
TEST_F(HfLlama, RotaryPositionsThatAreNotUnderstoodAreRefused) {
  const nlohmann::json by_layer = {{"full_attention", {{"rope_theta", 1e6}}}};
  EXPECT_THAT(import_error({{"rope_parameters", by_layer}}),
              HasSubstr("rope_parameters has the field full_attention, which is not understood"));
  EXPECT_THAT(import_error({{"rope_parameters", {{"rope_theta", 1e6}, {"factor", 8.0}}}}),
              HasSubstr("the field factor"));
  EXPECT_THAT(import_error({{"rope_scaling", nlohmann::json::array()}}),
              HasSubstr("rope_scaling is [], no object"));
  EXPECT_THAT(import_error({{"rope_scaling", "linear"}}), HasSubstr("rope_scaling is \"linear\""));
  for (const nlohmann::json& base : {nlohmann::json(), nlohmann::json("5"), nlohmann::json(true)}) {
    EXPECT_THAT(import_error({{"rope_theta", base}}),
                HasSubstr("rope_theta is " + base.dump() + ", no number above 1"));
  }
  EXPECT_THAT(import_error({{"layer_types", {"full_attention", "sliding_attention"}}}),
              HasSubstr("layer_types names \"sliding_attention\""));
  EXPECT_THAT(import_error({{"quantization_config", {{"bits", 4}}}}),
              HasSubstr("quantization_config"));
  EXPECT_EQ(import_error({{"partial_rotary_factor", nullptr}}), "");
  const nlohmann::json plain = {{"rope_type", nullptr}, {"rope_theta", 5e5}, {"factor", nullptr}};
  std::filesystem::remove_all(dir_ / "ckpt2");
  EXPECT_EQ(import_error({{"rope_parameters", plain}}), "");
  EXPECT_EQ(shape_from(read_checkpoint_info(dir_ / "ckpt2", 0).architecture).rotary_base, 5e5);
}

TEST_F(HfLlama, OfSeveralEndsTheFirstOneIsKept) {
  std::filesystem::remove_all(dir_ / "hf");
  std::filesystem::copy(golden_, dir_ / "hf");
  auto config = nlohmann::json::parse(read_file(golden_ / "config.json"));
  config["eos_token_id"] = {5, 7};
  std::ofstream(dir_ / "hf/config.json") << config;
  EXPECT_THAT(import_hf({dir_ / "hf", dir_ / "ckpt2", 128}),
              HasSubstr("eos_token_id lists several tokens, [5,7]; 5 ends documents here"));
  export_hf({.load = dir_ / "ckpt2", .output = dir_ / "out"});
  EXPECT_EQ(nlohmann::json::parse(read_file(dir_ / "out/config.json")).at("eos_token_id"), 5);
}

TEST_F(HfLlama, AModelOfNoFormatSaysWhatIsInTheWay) {
  EXPECT_THAT(export_error([](ModelShape& shape) { shape.rotary_interleaved = true; }),
              HasSubstr("which has --rotary-interleaved"));
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
