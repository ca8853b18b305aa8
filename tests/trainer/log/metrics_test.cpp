#include <gtest/gtest.h>

#include <cmath>

#include "indexed_dataset/base/storage/file_io.h"
#include "tests/indexed_dataset/nested_json.h"
#include "tests/trainer/tiny_dataset.h"
#include "trainer/log/metrics_jsonl.h"
#include "trainer/log/run_log.h"

namespace weft {
namespace {

TEST(Metrics, AStepIsOneJsonObjectWithStableKeys) {
  EXPECT_EQ(to_json_line({.iteration = 3,
                          .consumed_samples = 24,
                          .consumed_tokens = 768,
                          .learning_rate = 0.5,
                          .global_batch_size = 8,
                          .lm_loss = 4.25,
                          .grad_norm = std::nan(""),
                          .elapsed_ms = 1.5,
                          .forward_ms = 1,
                          .backward_ms = 2,
                          .optimizer_ms = 3}),
            "{\"iteration\":3,\"consumed_samples\":24,\"consumed_tokens\":768,\"learning_rate\":0."
            "5,\"global_batch_size\":8,"
            "\"lm_loss\":4.25,\"grad_norm\":null,\"elapsed_ms\":1.5,\"forward_ms\":1.0,\"backward_"
            "ms\":2.0,"
            "\"optimizer_ms\":3.0}\n");
}

TEST(Metrics, ErrorsOfFp8ProductsLieByLayer) {
  const std::string line = to_json_line(
      {.iteration = 3, .fp8_errors = {0.5F, 0.25F, std::nanf(""), 1, 0.125F, 0.25F, 0.5F, 2}});
  EXPECT_NE(line.find("\"fp8_errors\":{\"qkv\":[0.5,0.125],\"proj\":[0.25,0.25],"
                      "\"fc1\":[null,0.5],\"fc2\":[1.0,2.0]}"),
            std::string::npos)
      << line;
}

TEST(Metrics, ResumingDropsLaterAndTornLines) {
  const TemporaryFolder folder;
  const auto path = folder / "metrics.jsonl";
  {
    MetricsFile file(path, 0);
    for (int64_t i = 1; i <= 5; ++i) file.add(to_json_line({.iteration = i}));
    file.add(to_json_line(4, "validation", 2.0, /*at_end=*/false));
    file.add(to_json_line(3, "test", 2.5, /*at_end=*/true));
    for (const std::string& strange :
         {nested_json(200'000), std::string("{\"iteration\":\"1\"}")}) {
      file.add(strange + "\n");
    }
    file.add("{\"iteration\":1,\"lm_l");
  }
  MetricsFile file(path, 4);
  std::string expected;
  for (int64_t i = 1; i <= 4; ++i) expected += to_json_line({.iteration = i});
  expected += "{\"iteration\":4,\"validation_loss\":2.0}\n";
  EXPECT_EQ(read_file(path), expected);
  file.add("{\"iteration\":5}\n");
  EXPECT_EQ(read_file(path), expected + "{\"iteration\":5}\n");
}

// A kill meanwhile leaves no other file, and a full disk does not hinder it.
TEST(Metrics, LaterLinesAreCutOffInPlace) {
  const TemporaryFolder folder;
  const auto path = folder / "metrics.jsonl";
  std::string logged, kept;
  for (int64_t i = 1; i <= 5; ++i) {
    logged += to_json_line({.iteration = i});
    if (i <= 3) kept = logged;
  }
  write_file_atomically(path, logged);
  std::filesystem::create_hard_link(path, folder / "link");
  const MetricsFile file(path, 3);
  EXPECT_EQ(file.num_dropped_lines(), 2);
  EXPECT_EQ(read_file(folder / "link"), kept);
}

TEST(Metrics, AnEvaluationDropsNothingButATornLine) {
  const TemporaryFolder folder;
  const auto path = folder / "metrics.jsonl";
  const std::string logged =
      to_json_line({.iteration = 5}) + to_json_line(5, "test", 2.5, /*at_end=*/true) + "not ours\n";
  write_file_atomically(path, logged + "{\"iteration\":6,");
  const MetricsFile file(path, std::nullopt);
  EXPECT_EQ(read_file(path), logged);
  EXPECT_EQ(file.num_dropped_lines(), 0);
}

// 72 L C^2 (1 + T/(6C) + Vp/(12 L C)) per token [Narayanan et al. 2021], GPT 1.7B.
TEST(Metrics, ModelFlopsFollowMegatronsFormula) {
  const ModelShape shape{.num_layers = 24,
                         .hidden_size = 2304,
                         .num_heads = 24,
                         .head_size = 96,
                         .ffn_size = 9216,
                         .seq_length = 2048,
                         .max_positions = 2048,
                         .vocab_size = 50257,
                         .padded_vocab_size = 51200,
                         .micro_batch_size = 1};
  const double L = 24, C = 2304, T = 2048, V = 51200;
  const double expected = 72 * L * C * C * (1 + T / (6 * C) + V / (12 * L * C));
  EXPECT_NEAR(model_flops(shape, 1.0) / expected, 1.0, 1e-12);
  // With every layer recomputed it is 96 L C^2 (1 + T/(6C) + Vp/(16 L C)), as Megatron-DeepSpeed
  // counts.
  const double recomputed = 96 * L * C * C * (1 + T / (6 * C) + V / (16 * L * C));
  const double hardware = model_flops(shape, 1.0) + recomputed_flops(shape, 1.0, shape.num_layers);
  EXPECT_NEAR(hardware / recomputed, 1.0, 1e-12);
  EXPECT_EQ(recomputed_flops(shape, 1.0, 0), 0);
}

TEST(Metrics, PeaksAreKnownForTheUsualDevices) {
  EXPECT_EQ(peak_tflops("NVIDIA H200 (sm_90, 139 GiB)"), 989.4);
  EXPECT_EQ(peak_tflops("NVIDIA A100-SXM4-80GB"), 312.0);
  EXPECT_FALSE(peak_tflops("CPU (2 threads)"));
}

}  // namespace
}  // namespace weft
