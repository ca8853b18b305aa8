// The layers of pipeline stages, against DeepSpeed's partitions of published runs.
#include "trainer/config/pipeline_partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace weft {
namespace {

using Layers = std::vector<int64_t>;

ModelShape gpt(int64_t num_layers, int64_t vocab_size = 250880, int64_t hidden_size = 14336) {
  ModelShape shape;
  shape.num_layers = num_layers;
  shape.hidden_size = hidden_size;
  shape.num_heads = 112;
  shape.head_size = hidden_size / 112;
  shape.ffn_size = 4 * hidden_size;
  shape.seq_length = shape.max_positions = 2048;
  shape.vocab_size = shape.padded_vocab_size = vocab_size;
  return shape;
}

std::string error_of(std::string_view method, int64_t num_stages, int64_t num_layers) {
  try {
    layers_of_stages(method, num_stages, gpt(num_layers));
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

// The numbers of Megatron-Core's get_num_layers_to_build.
TEST(PipelinePartition, TheEndsMayHaveFewerLayersByMegatronsFlags) {
  Config config;
  config.num_layers = 12;
  config.pipeline_model_parallel_size = 4;
  EXPECT_EQ(partition_method(config), "uniform");
  config.decoder_first_pipeline_num_layers = 2;
  config.decoder_last_pipeline_num_layers = 4;
  EXPECT_EQ(partition_method(config), "2,3,3,4");
  config.decoder_last_pipeline_num_layers.reset();
  EXPECT_THROW(partition_method(config), std::invalid_argument) << "10 layers on 3 ranks";
  config.decoder_first_pipeline_num_layers.reset();
  config.num_layers = 6;
  config.num_virtual_stages_per_pipeline_rank = 2;
  config.account_for_embedding_in_pipeline_split = true;
  config.account_for_loss_in_pipeline_split = true;
  EXPECT_EQ(partition_method(config), "0,1,1,1,1,1,1,0");
  config.account_for_loss_in_pipeline_split = false;
  EXPECT_THROW(partition_method(config), std::invalid_argument) << "7 layers on 8 stages";
}

// BLOOM: 70 layers on 12 stages, where embedding and head count as a layer each.
TEST(PipelinePartition, OfBloomIsDeepSpeeds) {
  Layers expected(12, 6);
  expected.front() = expected.back() = 5;
  EXPECT_EQ(layers_of_stages("type:transformer|embedding", 12, gpt(70)), expected);
  EXPECT_EQ(layers_of_stages("type:embedding|transformer", 12, gpt(70)), expected);
}

TEST(PipelinePartition, ByTypeDiffersByOneLayerAndGivesItToLaterStages) {
  EXPECT_EQ(layers_of_stages("type:transformer", 4, gpt(10)), (Layers{2, 2, 3, 3}));
  EXPECT_EQ(layers_of_stages("type:transformer", 4, gpt(12)), (Layers{3, 3, 3, 3}));
  EXPECT_EQ(layers_of_stages("type:transformer|embedding", 4, gpt(2)), (Layers{0, 1, 1, 0}));
}

// BLOOM's embedding has as many parameters as 1.46 layers; the head's FLOPs are those of 1.4
// layers.
TEST(PipelinePartition, ByParametersAndCostWeighsTheEnds) {
  EXPECT_EQ(layers_of_stages("parameters", 4, gpt(13)), (Layers{2, 4, 4, 3}));
  EXPECT_EQ(layers_of_stages("cost", 4, gpt(14)), (Layers{4, 4, 4, 2}));
  EXPECT_EQ(layers_of_stages("cost", 1, gpt(14)), (Layers{14}));
  // A small model's vocabulary outweighs its layers: the ends have none.
  EXPECT_EQ(layers_of_stages("parameters", 4, gpt(4, 250880, 448)), (Layers{0, 2, 2, 0}));
}

// No partition has a smaller maximum: all of them are tried.
TEST(PipelinePartition, HasTheSmallestMaximum) {
  for (const char* method : {"type:transformer|embedding", "type:transformer"}) {
    const int64_t ends = std::string_view(method).ends_with("embedding") ? 1 : 0;
    for (int64_t num_layers = 3; num_layers <= 12; ++num_layers) {
      const auto most = [&](int64_t a, int64_t b, int64_t c) {
        return std::max({a + ends, b, c + ends});
      };
      int64_t least = num_layers + 1;
      for (int64_t a = 0; a < num_layers; ++a) {
        for (int64_t b = 1; a + b <= num_layers; ++b)
          least = std::min(least, most(a, b, num_layers - a - b));
      }
      const Layers layers = layers_of_stages(method, 3, gpt(num_layers));
      EXPECT_EQ(std::accumulate(layers.begin(), layers.end(), int64_t{0}), num_layers);
      EXPECT_EQ(most(layers[0], layers[1], layers[2]), least) << method << " " << num_layers;
    }
  }
}

TEST(PipelinePartition, TakesGivenNumbers) {
  EXPECT_EQ(layers_of_stages("0,3,1,0", 4, gpt(4)), (Layers{0, 3, 1, 0}));
  EXPECT_EQ(layers_of_stages("uniform", 4, gpt(8)), (Layers{2, 2, 2, 2}));
  EXPECT_EQ(text_of_stages({0, 3, 1, 0}, 4),
            "stage=0 layers=0 (embedding)\nstage=1 layers=3 (layers 0-2)\n"
            "stage=2 layers=1 (layer 3)\nstage=3 layers=0 (head)\n");
}

TEST(PipelinePartition, WhatIsNoneSaysWhatToChange) {
  EXPECT_EQ(error_of("uniform", 4, 10),
            "--num-layers 10 is not a multiple of --pipeline-model-parallel-size 4: change one of "
            "them, or give --pp-partition-method type:transformer, whose stages differ by a layer");
  EXPECT_EQ(error_of("3,3", 2, 7),
            "--pp-partition-method 3,3: 6 layers on 2 stages are not --num-layers 7 on "
            "--pipeline-model-parallel-size 2; change one of them");
  for (const char* method :
       {"type:", "type:layernorm", "type:embedding", "even", "3,x", "3,,4", "1e1"})
    EXPECT_THAT(error_of(method, 2, 7), testing::HasSubstr("is none of uniform, ")) << method;
  EXPECT_THAT(error_of("2,0,1", 3, 3), testing::HasSubstr("stage 1 of "));
  EXPECT_THAT(error_of("type:transformer", 5, 2),
              testing::HasSubstr("needs more than --num-layers 2"));
}

}  // namespace
}  // namespace weft
