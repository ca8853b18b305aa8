// Folders of the families that share LLaMA's shape: Llama-3.1, Mistral, Qwen2 and Qwen3.
#include "tests/trainer/model_tool/hf_folder_fixture.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

class HfLlama31 : public HfFolder {
 protected:
  HfLlama31() : HfFolder("llama31-hf") {}
  // The scaling of the golden folder, changed.
  nlohmann::json scaling(const nlohmann::json& changes) const {
    auto scaling = nlohmann::json::parse(read_file(golden_ / "config.json")).at("rope_parameters");
    scaling.update(changes);
    return {{"rope_parameters", scaling}};
  }
};

TEST_F(HfLlama31, GivesTheLogitsOfTransformers) {
  EXPECT_EQ(imported_shape().rope_scaling_factor, 8.0);
  EXPECT_EQ(imported_shape().rotary_base, 500000.0);
  expect_logits_of_transformers();
}

TEST_F(HfLlama31, KeepsItsScalingInARoundTrip) {
  const auto config = expect_round_trip({"model_type", "head_dim", "tie_word_embeddings"});
  EXPECT_EQ(config.at("rope_theta"), 500000.0);
  const nlohmann::json expected = {{"rope_type", "llama3"},
                                   {"factor", 8.0},
                                   {"low_freq_factor", 1.0},
                                   {"high_freq_factor", 4.0},
                                   {"original_max_position_embeddings", 8192}};
  EXPECT_EQ(config.at("rope_scaling"), expected);
}

TEST_F(HfLlama31, NamesWhatIsNotBuilt) {
  EXPECT_EQ(import_error(scaling({{"factor", 32.0}})), "");
  EXPECT_THAT(import_error(scaling({{"high_freq_factor", 8.0}})),
              HasSubstr("rope_parameters has high_freq_factor 8.0, only 4.0 is built"));
  EXPECT_THAT(import_error(scaling({{"original_max_position_embeddings", 4096}})),
              HasSubstr("has original_max_position_embeddings 4096, only 8192.0 is built"));
  EXPECT_THAT(import_error(scaling({{"factor", 0.5}})), HasSubstr("has a factor below 1"));
  EXPECT_THAT(import_error(scaling({{"mscale", 2.0}})), HasSubstr("has the field mscale"));
}

class HfMistral : public HfFolder {
 protected:
  HfMistral() : HfFolder("mistral-hf") {}
};

TEST_F(HfMistral, GivesTheLogitsOfTransformers) { expect_logits_of_transformers(); }

// A Mistral without a window is a LLaMA.
TEST_F(HfMistral, IsALlamaAfterARoundTrip) {
  const auto config = expect_round_trip({"num_key_value_heads", "head_dim", "rms_norm_eps"});
  EXPECT_EQ(config.at("model_type"), "llama");
}

TEST_F(HfMistral, AWindowThatCutsAttentionIsRefused) {
  EXPECT_THAT(import_error({{"sliding_window", 63}}),
              HasSubstr("sliding_window is 63 of 64 positions"));
  EXPECT_EQ(import_error({{"sliding_window", 64}}), "");
}

class HfQwen2 : public HfFolder {
 protected:
  HfQwen2() : HfFolder("qwen2-hf") {}
};

TEST_F(HfQwen2, GivesTheLogitsOfTransformers) {
  EXPECT_TRUE(imported_shape().has_qkv_bias);
  EXPECT_FALSE(imported_shape().has_biases);
  expect_logits_of_transformers();
}

TEST_F(HfQwen2, TensorsAreByteIdenticalAfterARoundTrip) {
  expect_round_trip({"architectures", "model_type", "num_key_value_heads", "rms_norm_eps",
                     "tie_word_embeddings", "use_sliding_window", "eos_token_id"});
}

TEST_F(HfQwen2, NamesWhatIsNotBuilt) {
  EXPECT_THAT(import_error({{"use_sliding_window", true}}),
              HasSubstr("use_sliding_window is true: windows are not built"));
  EXPECT_EQ(import_error({{"sliding_window", 8}}), "") << "which is not used";
}

class HfQwen3 : public HfFolder {
 protected:
  HfQwen3() : HfFolder("qwen3-hf") {}
};

TEST_F(HfQwen3, GivesTheLogitsOfTransformers) {
  EXPECT_TRUE(imported_shape().has_qk_norm);
  expect_logits_of_transformers();
}

TEST_F(HfQwen3, TensorsAreByteIdenticalAfterARoundTrip) {
  expect_round_trip({"architectures", "model_type", "num_key_value_heads", "head_dim",
                     "attention_bias", "tie_word_embeddings", "use_sliding_window"});
}

TEST_F(HfQwen3, NamesWhatIsNotBuilt) {
  EXPECT_THAT(import_error({{"attention_bias", true}}), HasSubstr("attention_bias is true"));
  EXPECT_THAT(import_error({{"model_type", "qwen3_moe"}}),
              HasSubstr("only gpt2, bloom, llama, mistral, qwen2 and qwen3 can be imported"));
  EXPECT_THAT(export_error([](ModelShape& shape) { shape.has_qkv_bias = true; }),
              HasSubstr("both --add-qkv-bias and --qk-layernorm"));
  EXPECT_THAT(export_error([](ModelShape& shape) { shape.stores_norms_less_one = true; }),
              HasSubstr("which has --apply-layernorm-1p"));
}

}  // namespace
}  // namespace weft
