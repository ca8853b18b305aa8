// BLOOM's folders.
#include "tests/trainer/model_tool/hf_folder_fixture.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

class HfBloom : public HfFolder {
 protected:
  HfBloom() : HfFolder("bloom-hf") {}
};

TEST_F(HfBloom, GivesTheLogitsOfTransformers) {
  EXPECT_TRUE(imported_shape().has_alibi);
  EXPECT_TRUE(imported_shape().has_embedding_norm);
  EXPECT_EQ(imported_shape().max_positions, 64);
  expect_logits_of_transformers();
}

TEST_F(HfBloom, TensorsAreByteIdenticalAfterARoundTrip) {
  expect_round_trip({"model_type", "vocab_size", "hidden_size", "n_layer", "n_head", "seq_length",
                     "layer_norm_epsilon", "apply_residual_connection_post_layernorm",
                     "slow_but_exact", "tie_word_embeddings"});
}

// config.json of bigscience/bloom has the names of its first version, and was trained by 4 ranks.
TEST_F(HfBloom, OlderNamesOfSizesAreRead) {
  EXPECT_EQ(import_error({{"hidden_size", nullptr},
                          {"n_head", nullptr},
                          {"n_embed", 24},
                          {"num_attention_heads", 3},
                          {"pretraining_tp", 4},
                          {"n_inner", nullptr}}),
            "");
}

TEST_F(HfBloom, NamesWhatIsNotBuilt) {
  EXPECT_THAT(import_error({{"apply_residual_connection_post_layernorm", true}}),
              HasSubstr("apply_residual_connection_post_layernorm is true"));
  EXPECT_THAT(import_error({{"slow_but_exact", true}}), HasSubstr("slow_but_exact is true"));
  EXPECT_THAT(import_error({{"n_inner", 48}}), HasSubstr("n_inner is not four times hidden_size"));
  EXPECT_THAT(import_error({{"n_head", 5}}), HasSubstr("hidden_size is not a multiple of n_head"));
  EXPECT_THAT(import_error({{"n_layer", 3}}), HasSubstr("has no tensor h.2."));
  EXPECT_THAT(import_error({{"layer_norm_epsilon", 0}}),
              HasSubstr("layer_norm_epsilon is no positive number"));
}

TEST_F(HfBloom, AModelOfNoFormatSaysWhatIsInTheWay) {
  EXPECT_THAT(export_error([](ModelShape& shape) { shape.has_embedding_norm = false; }),
              HasSubstr("BLOOM cannot hold this model, which has no --embed-layernorm"));
  EXPECT_THAT(export_error([](ModelShape& shape) {
                shape.has_alibi = false;
                shape.has_position_table = true;
              }),
              HasSubstr("which has no --position-embedding-type alibi"));
  EXPECT_THAT(
      export_error([](ModelShape& shape) {
        shape.activation = Activation::kGeluErf;
        shape.ffn_size = 80;
      }),
      HasSubstr("which has GELU by erf (--no-bias-gelu-fusion), a feed-forward size that is "
                "not 4 * hidden size"));
}

}  // namespace
}  // namespace weft
