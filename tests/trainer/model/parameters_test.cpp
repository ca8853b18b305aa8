#include "trainer/model/parameters.h"

#include <gtest/gtest.h>

#include <cmath>

#include "trainer/checkpoint/tensor_piece.h"

namespace weft {
namespace {

ModelShape gpt(int64_t layers, int64_t hidden, int64_t heads, int64_t positions, int64_t vocab) {
  ModelShape shape;
  shape.num_layers = layers;
  shape.hidden_size = hidden;
  shape.num_heads = heads;
  shape.head_size = hidden / heads;
  shape.ffn_size = 4 * hidden;
  shape.seq_length = shape.max_positions = positions;
  shape.vocab_size = shape.padded_vocab_size = vocab;
  shape.micro_batch_size = 1;
  return shape;
}

ParallelLayout layout_of(int tp_size, int pp_size, int tp_rank = 0, int pp_rank = 0) {
  ParallelLayout layout;
  layout.tp_size = tp_size;
  layout.pp_size = pp_size;
  layout.tp_rank = tp_rank;
  layout.pp_rank = pp_rank;
  return layout;
}

// Megatron-LM's " > number of parameters on (tensor, pipeline) model parallel rank (0, 0):
// 941594624" of a 7.5B model.
TEST(Parameters, TensorParallelRankHoldsWhatMegatronCounts) {
  const ParameterTable table(gpt(36, 4096, 32, 2048, 51200), layout_of(8, 1));
  EXPECT_EQ(table.num_parameters(), 941594624);
}

// bigscience experiments/gpt2-meg/meg_gpt2_perf_n16.out: 64 layers of 8192, TP 4, PP 16.
TEST(Parameters, PipelineStagesHoldWhatMegatronCounts) {
  const ModelShape shape = gpt(64, 8192, 64, 1024, 50688);
  EXPECT_EQ(ParameterTable(shape, layout_of(4, 16, 0, 0)).num_parameters(), 917757952);
  EXPECT_EQ(ParameterTable(shape, layout_of(4, 16, 3, 7)).num_parameters(), 805560320);
  EXPECT_EQ(ParameterTable(shape, layout_of(4, 16, 0, 15)).num_parameters(), 909385728);
}

// Backward ends with the last chunk first: a bucket of the arena may hold layers of two chunks.
TEST(Parameters, ChunksOfARankLieInTheOrderOfBackward) {
  ParallelLayout layout = layout_of(1, 2, 0, 1);
  layout.num_chunks = 2;
  const ParameterTable table(gpt(8, 64, 4, 16, 128), layout);
  int64_t last = -1;
  for (const char* layer : {"7", "6", "3", "2"}) {
    const Parameter& p =
        table.find(std::string("decoder.layers.") + layer + ".mlp.linear_fc1.weight");
    EXPECT_GT(p.arena_offset, last);
    last = p.arena_offset;
  }
  EXPECT_GT(table.find("embedding.word_embeddings.weight").arena_offset, last);
  EXPECT_EQ(table.try_find("decoder.layers.0.mlp.linear_fc1.weight"), nullptr);
  EXPECT_EQ(table.try_find("embedding.position_embeddings.weight"), nullptr);
}

// Those of transformers' models.
TEST(Parameters, ModelsOfHuggingFaceHaveAsManyParameters) {
  ModelShape qwen3 = gpt(28, 1024, 16, 40960, 151936);
  qwen3.head_size = 128;
  qwen3.ffn_size = 3072;
  qwen3.num_query_groups = 8;
  qwen3.glu = Glu::kSwiglu;
  qwen3.uses_rms_norm = qwen3.has_qk_norm = true;
  qwen3.has_biases = qwen3.has_qkv_bias = qwen3.has_position_table = false;
  ModelShape qwen2 = qwen3;
  qwen2.num_layers = 24, qwen2.hidden_size = 896, qwen2.num_heads = 14, qwen2.head_size = 64;
  qwen2.ffn_size = 4864, qwen2.num_query_groups = 2;
  qwen2.has_qk_norm = false;
  qwen2.has_qkv_bias = true;
  for (const auto& [shape, number] : {std::pair{qwen3, 596'049'920}, {qwen2, 494'032'768}}) {
    EXPECT_EQ(shape.num_parameters(), number);
    EXPECT_EQ(ParameterTable(shape, {}).num_parameters(), number);
  }
}

TEST(Parameters, NormsWhoseWeightsAreStoredLessOneBeginWithZero) {
  ModelShape shape = gpt(1, 64, 4, 16, 128);
  shape.stores_norms_less_one = shape.has_qk_norm = true;
  const ParameterTable table(shape, {});
  for (const Parameter& parameter : table.all()) {
    if (!parameter.name.ends_with("layernorm.weight")) continue;
    EXPECT_EQ(parameter.init_value, 0) << parameter.name;
  }
}

// Table 1 of Narayanan et al. 2021 (arXiv:2104.04473), in billions with three decimals.
TEST(Parameters, PublishedModelSizes) {
  const struct {
    int64_t heads, hidden, layers;
    double billions;
  } models[] = {{24, 2304, 24, 1.652},      {32, 3072, 30, 3.562},     {32, 4096, 36, 7.468},
                {48, 6144, 40, 18.450},     {64, 8192, 48, 39.096},    {80, 10240, 60, 76.051},
                {96, 12288, 80, 145.622},   {128, 16384, 96, 310.131}, {128, 20480, 105, 529.601},
                {160, 25600, 128, 1008.039}};
  for (const auto& m : models) {
    const ModelShape shape = gpt(m.layers, m.hidden, m.heads, 2048, 51200);
    EXPECT_NEAR(static_cast<double>(shape.num_parameters()) * 1e-9, m.billions, 5.1e-4);
    EXPECT_EQ(ParameterTable(shape, {}).num_parameters(), shape.num_parameters());
  }
}

TEST(Parameters, Gpt2Sizes) {
  EXPECT_EQ(gpt(12, 768, 12, 1024, 50257).num_parameters(), 124439808);
  EXPECT_EQ(gpt(24, 1024, 16, 1024, 50257).num_parameters(), 354823168);
  EXPECT_EQ(gpt(36, 1280, 20, 1024, 50257).num_parameters(), 774030080);
  EXPECT_EQ(gpt(48, 1600, 25, 1024, 50257).num_parameters(), 1557611200);
}

TEST(Parameters, AnRmsNormHasWeightsAlone) {
  ModelShape shape = gpt(2, 64, 4, 24, 100);
  const int64_t with_layernorm = shape.num_parameters();
  shape.uses_rms_norm = true;
  EXPECT_EQ(shape.num_parameters(), with_layernorm - 5 * 64);
  EXPECT_EQ(ParameterTable(shape, {}).num_parameters(), shape.num_parameters());
}

// The LayerNorm of the embedding is whole on each tensor-parallel rank of the first stage, and
// nowhere else.
TEST(Parameters, ALayerNormOfTheEmbeddingIsOnTheFirstStage) {
  ModelShape shape = gpt(2, 64, 4, 24, 128);
  const int64_t without = shape.num_parameters(),
                decaying = ParameterTable(shape, {}).num_decaying();
  shape.has_embedding_norm = true;
  EXPECT_EQ(shape.num_parameters(), without + 2 * 64);
  EXPECT_EQ(ParameterTable(shape, {}).num_parameters(), shape.num_parameters());
  EXPECT_EQ(ParameterTable(shape, {}).num_decaying(), decaying);
  for (const char* name :
       {"embedding.word_embeddings_layernorm.weight", "embedding.word_embeddings_layernorm.bias"}) {
    const ParameterTable first(shape, layout_of(4, 2, 3, 0));
    EXPECT_EQ(first.find(name).num_own, 64);
    EXPECT_GE(first.find(name).arena_offset, first.replicated_begin());
    EXPECT_EQ(ParameterTable(shape, layout_of(4, 2, 3, 1)).try_find(name), nullptr);
  }
}

// The model card of huggingface.co/bigscience/bloom counts them.
TEST(Parameters, SizeOfBloom) {
  ModelShape shape = gpt(70, 14336, 112, 2048, 250880);
  shape.has_position_table = false;
  shape.has_alibi = shape.has_embedding_norm = true;
  EXPECT_EQ(shape.num_parameters(), 176247271424);
}

// LLaMA-2 7B and LLaMA-3 8B have 6,738,415,616 and 8,030,261,248 parameters.
TEST(Parameters, SizesOfLlama) {
  ModelShape shape = gpt(32, 4096, 32, 4096, 32000);
  shape.uses_rms_norm = shape.unties_head = true;
  shape.has_biases = shape.has_qkv_bias = shape.has_position_table = false;
  shape.rotary_size = 128;
  shape.glu = Glu::kSwiglu;
  shape.ffn_size = 11008;
  EXPECT_EQ(shape.num_parameters(), 6738415616);
  shape.ffn_size = 14336;
  shape.num_query_groups = 8;
  shape.vocab_size = shape.padded_vocab_size = 128256;
  EXPECT_EQ(shape.num_parameters(), 8030261248);
  shape.num_layers = 1;
  EXPECT_EQ(ParameterTable(shape, {}).num_parameters(), shape.num_parameters());
  const ParameterTable half(shape, layout_of(2, 1));
  EXPECT_EQ(half.find("decoder.layers.0.mlp.linear_fc1.weight").shape,
            (std::vector<int64_t>{14336, 4096}));
  EXPECT_EQ(half.find("decoder.layers.0.self_attention.linear_qkv.weight").shape,
            (std::vector<int64_t>{6144 / 2, 4096}));
}

TEST(Parameters, ModelFlopsAreMegatronsFormula) {
  const ModelShape shape = gpt(24, 2304, 24, 2048, 51200);
  const double N = 16384, L = 24, h = 2304, s = 2048, V = 51200;
  const double expected = 72 * N * L * h * h * (1 + s / (6 * h) + V / (12 * L * h));
  EXPECT_NEAR(model_flops(shape, N) / expected, 1, 1e-12);
}

TEST(Parameters, ArenaHoldsEachOnceInBackwardOrder) {
  const ParameterTable table(gpt(3, 64, 4, 24, 100), {});
  int64_t end = 0;
  for (const Parameter& p : table.all()) {
    EXPECT_EQ(p.arena_offset % kOptimizerBlock, 0) << p.name;
    EXPECT_GE(p.arena_offset, end) << p.name;
    EXPECT_LT(p.arena_offset - end, kOptimizerBlock) << p.name;
    end = p.arena_offset + p.num_elements;
  }
  EXPECT_LE(end, table.arena_elements());
  EXPECT_LT(table.find("decoder.layers.2.mlp.linear_fc1.weight").arena_offset,
            table.find("decoder.layers.1.mlp.linear_fc1.weight").arena_offset);
}

// One reduction over the region serves all of them, and the region is the same for every size.
TEST(Parameters, ReplicatedOnesLieInOneRegionAtTheEnd) {
  for (const int tp_size : {1, 4}) {
    const ParameterTable table(gpt(3, 64, 4, 24, 128), layout_of(tp_size, 1));
    for (const Parameter& p : table.all()) {
      const bool replicated = p.name.find("layernorm") != std::string::npos ||
                              p.name.find("linear_proj.bias") != std::string::npos ||
                              p.name.find("linear_fc2.bias") != std::string::npos ||
                              p.name.find("position") != std::string::npos;
      EXPECT_EQ(p.arena_offset >= table.replicated_begin(), replicated) << p.name;
    }
    EXPECT_EQ(table.replicated_begin() % kOptimizerBlock, 0);
    EXPECT_EQ(table.all().front().name, "decoder.layers.2.mlp.linear_fc2.weight");
    EXPECT_EQ(table.all().back().name, "embedding.position_embeddings.weight");
  }
}

// 100 words over four ranks of 32 rows: the last rank has four of them, and 28 rows of padding.
TEST(Parameters, PaddingOfTheVocabularyIsNoPartOfTheModel) {
  ModelShape shape = gpt(2, 64, 4, 24, 100);
  shape.padded_vocab_size = 128;
  for (int tp_rank = 0; tp_rank < 4; ++tp_rank) {
    const ParameterTable table(shape, layout_of(4, 1, tp_rank));
    const Parameter& word = table.find("embedding.word_embeddings.weight");
    EXPECT_EQ(word.global_shape, (std::vector<int64_t>{100, 64}));
    EXPECT_EQ(word.shape, (std::vector<int64_t>{32, 64}));
    EXPECT_EQ(word.begin, 32 * tp_rank);
    EXPECT_EQ(word.end, std::min(100, 32 * tp_rank + 32));
    EXPECT_EQ(word.num_own, (word.end - word.begin) * 64);
  }
  EXPECT_EQ(ParameterTable(shape, {}).find("embedding.word_embeddings.weight").num_own, 100 * 64);
  shape.train_padded_vocabulary = true;
  const ParameterTable trained(shape, {});
  EXPECT_EQ(trained.find("embedding.word_embeddings.weight").num_own, 128 * 64);
}

TEST(Parameters, OnlyMatricesDecay) {
  const ModelShape shape = gpt(2, 64, 4, 24, 100);
  const ParameterTable table(shape, {});
  const std::vector<uint8_t> flags = table.decay_flags();
  ASSERT_EQ(static_cast<int64_t>(flags.size()) * kOptimizerBlock, table.arena_elements());
  for (const Parameter& p : table.all()) {
    const auto first = static_cast<size_t>(p.arena_offset / kOptimizerBlock);
    const auto last = static_cast<size_t>((p.arena_offset + p.num_elements - 1) / kOptimizerBlock);
    for (size_t block = first; block <= last; ++block) {
      EXPECT_EQ(flags[block], p.global_shape.size() > 1 ? 1 : 0) << p.name;
    }
  }
  // Per layer 12 C^2 of 12 C^2 + 13 C, and both embeddings.
  EXPECT_EQ(table.num_decaying(), 2 * 12 * 64 * 64 + (100 + 24) * 64);
}

TEST(Parameters, RefuseSizesThatDoNotDivide) {
  EXPECT_THROW(ParameterTable(gpt(3, 64, 4, 24, 100), layout_of(1, 2)), std::invalid_argument);
  EXPECT_THROW(ParameterTable(gpt(2, 64, 4, 24, 100), layout_of(8, 1)), std::invalid_argument);
  EXPECT_THROW(ParameterTable({gpt(2, 64, 4, 24, 101)}, layout_of(2, 1)), std::invalid_argument);
}

std::vector<float> values_of(const Parameter& parameter, uint64_t seed = 1234) {
  std::vector<float> values(static_cast<size_t>(parameter.num_elements));
  initial_values(parameter, seed, values.data());
  return values;
}

TEST(InitialValues, DoNotDependOnTensorParallelism) {
  ModelShape shape = gpt(2, 48, 4, 24, 104);
  for (const Glu glu : {Glu::kNone, Glu::kSwiglu}) {
    shape.glu = glu;
    const ParameterTable whole(shape, {});
    for (int tp_rank = 0; tp_rank < 4; ++tp_rank) {
      const ParameterTable shard(shape, layout_of(4, 1, tp_rank));
      for (const Parameter& part : shard.all()) {
        const std::vector<float> expected = values_of(whole.find(part.name));
        const std::vector<float> values = values_of(part);
        const TensorPiece slice{part.name, part.global_shape, part.split_dim, part.begin, part.end,
                                0,         part.num_own};
        const TensorPiece all{.name = part.name,
                              .global_shape = part.global_shape,
                              .count = static_cast<int64_t>(expected.size())};
        int64_t num_compared = 0;
        for_each_common_run(slice, all, [&](int64_t at, int64_t global, int64_t count) {
          for (int64_t i = 0; i < count; ++i) {
            ASSERT_EQ(values[static_cast<size_t>(at + i)],
                      expected[static_cast<size_t>(global + i)])
                << part.name << " element " << at + i << " of rank " << tp_rank;
          }
          num_compared += count;
        });
        EXPECT_EQ(num_compared, part.num_own) << part.name;
      }
    }
  }
}

TEST(InitialValues, AreNormalWithMegatronsDeviations) {
  ModelShape shape = gpt(8, 256, 4, 64, 512);
  shape.init_method_std = 0.02;
  const ParameterTable table(shape, {});
  for (const Parameter& p : table.all()) {
    const std::vector<float> values = values_of(p);
    double sum = 0, squares = 0, fourth = 0;
    for (const float value : values) {
      const double v = static_cast<double>(value);
      sum += v;
      squares += v * v;
      fourth += v * v * v * v;
    }
    const double n = static_cast<double>(values.size());
    if (p.global_shape.size() == 1) {
      const bool is_scale = p.name.find("layernorm.weight") != std::string::npos;
      EXPECT_EQ(sum, is_scale ? n : 0) << p.name;
      continue;
    }
    const bool branch = p.name.find("linear_proj") != std::string::npos ||
                        p.name.find("linear_fc2") != std::string::npos;
    const double std = branch ? 0.02 / std::sqrt(16.0) : 0.02;
    // Five standard errors of each estimate.
    EXPECT_NEAR(sum / n, 0, 5 * std / std::sqrt(n)) << p.name;
    EXPECT_NEAR(squares / n / (std * std), 1, 5 * std::sqrt(2 / n)) << p.name;
    EXPECT_NEAR(fourth / n / (std * std * std * std), 3, 5 * std::sqrt(96 / n)) << p.name;
  }
}

TEST(InitialValues, DifferBySeedAndByName) {
  const ParameterTable table(gpt(2, 64, 4, 24, 100), {});
  const Parameter& a = table.find("decoder.layers.0.self_attention.linear_qkv.weight");
  const Parameter& b = table.find("decoder.layers.1.self_attention.linear_qkv.weight");
  EXPECT_NE(values_of(a), values_of(b));
  EXPECT_NE(values_of(a, 1), values_of(a, 2));
  EXPECT_EQ(values_of(a), values_of(a));
}

// Values that an independent implementation of the same formula gives (Python: Philox by hand,
// math.log, math.cos).
TEST(InitialValues, AreTheDocumentedFunctionOfSeedNameAndElement) {
  Parameter p;
  p.name = "embedding.word_embeddings.weight";
  p.global_shape = p.shape = {2, 4};
  p.num_elements = p.num_own = 8;
  p.init_std = 1;
  const std::vector<float> expected = {-1.52515982F, -0.618353915F, -0.593667959F, -1.28666634F,
                                       0.454125455F, -1.56704161F,  0.107580369F,  0.497588783F};
  const std::vector<float> values = values_of(p);
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_FLOAT_EQ(values[i], expected[i]) << i;
}

}  // namespace
}  // namespace weft
