#include "trainer/config/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/trainer/counting_backend.h"
#include "tests/trainer/model_fixture.h"
#include "trainer/plan/memory_advice.h"

namespace weft {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

TrainerOptions gpt2_124m() {
  TrainerOptions options;
  ModelShape& shape = options.shape;
  shape.num_layers = 12;
  shape.hidden_size = 768;
  shape.num_heads = 12;
  shape.head_size = 64;
  shape.ffn_size = 3072;
  shape.seq_length = shape.max_positions = 1024;
  shape.vocab_size = 50257;
  shape.padded_vocab_size = 50304;
  shape.micro_batch_size = 64;
  shape.dtype = DType::kBFloat16;
  shape.hidden_dropout = shape.attention_dropout = 0.1F;
  return options;
}

TEST(MemoryPlan, EqualsWhatIsAllocated) {
  for (const auto& [dtype, has_fp32_residual] :
       {std::pair{DType::kFloat32, false}, {DType::kBFloat16, false}, {DType::kBFloat16, true}}) {
    TrainerOptions options = small_options();
    options.shape.dtype = dtype;
    options.shape.has_fp32_residual = has_fp32_residual;
    options.has_loss_mask = true;
    if (dtype == DType::kBFloat16) {
      options.shape.glu = Glu::kSwiglu;
      options.shape.num_query_groups = 1;
      options.shape.has_position_table = false;
      options.shape.rotary_size = options.shape.head_size;
      options.shape.uses_rms_norm = options.shape.has_qk_norm = true;
    }
    CountingBackend backend(create_cpu_backend());
    Trainer trainer(backend, options);
    EXPECT_EQ(backend.num_allocations, 0) << "planning allocates nothing";
    trainer.allocate();
    EXPECT_EQ(backend.device_bytes, trainer.plan().device_bytes());
    EXPECT_EQ(backend.pinned_bytes, trainer.plan().class_bytes(MemoryClass::kPinnedHost));
    EXPECT_LE(backend.num_allocations, kNumMemoryClasses) << "one per class";
  }
}

TEST(MemoryPlan, BuffersOfAClassDoNotOverlap) {
  const auto backend = create_cpu_backend();
  const Trainer trainer(*backend, small_options());
  std::map<MemoryClass, int64_t> end;
  for (const MemoryPlan::Buffer& buffer : trainer.plan().buffers()) {
    EXPECT_GE(buffer.offset_bytes, end[buffer.memory_class]) << buffer.name;
    EXPECT_EQ(buffer.offset_bytes % 256, 0) << buffer.name;
    EXPECT_GT(buffer.num_bytes, 0) << buffer.name;
    end[buffer.memory_class] = buffer.offset_bytes + buffer.num_bytes;
    EXPECT_LE(end[buffer.memory_class], trainer.plan().class_bytes(buffer.memory_class));
  }
}

// 32 bytes per hidden unit, token and layer in bf16, plus statistics, dropout's bits in attention
// and the final LayerNorm.
TEST(MemoryPlan, KeepsOnlyWhatBackwardNeeds) {
  const auto backend = create_cpu_backend();
  const TrainerOptions options = gpt2_124m();
  const Trainer trainer(*backend, options);
  const ModelShape& s = options.shape;
  const int64_t tokens = s.micro_batch_size * s.seq_length;
  const int64_t statistics = 4 * 4 + 4 * s.num_heads;  // two means, two rstds, log-sum-exp
  EXPECT_EQ(trainer.plan().class_bytes(MemoryClass::kActivations),
            tokens * (s.num_layers * (32 * s.hidden_size + statistics) + 4 * s.hidden_size + 8) +
                s.num_layers * s.micro_batch_size * s.num_heads * 4 * attention_mask_words(1024));
}

// Both residuals of a layer, the final one and the gradient along the stream have 4 bytes instead
// of 2. The gradient of a branch is another type's, so it has a place without dropout, too.
TEST(MemoryPlan, AnFp32ResidualStreamTakesTwiceItsBytes) {
  const auto backend = create_cpu_backend();
  for (const bool has_dropout : {false, true}) {
    TrainerOptions options = gpt2_124m();
    if (!has_dropout) options.shape.hidden_dropout = 0;
    const Trainer narrow(*backend, options);
    options.shape.has_fp32_residual = true;
    const Trainer wide(*backend, options);
    const ModelShape& s = options.shape;
    const int64_t of_rows = s.micro_batch_size * s.seq_length * s.hidden_size * 2;
    const auto more = [&](MemoryClass c) {
      return wide.plan().class_bytes(c) - narrow.plan().class_bytes(c);
    };
    EXPECT_EQ(more(MemoryClass::kActivations), (2 * s.num_layers + 1) * of_rows);
    EXPECT_EQ(more(MemoryClass::kScratch), (has_dropout ? 1 : 2) * of_rows);
    EXPECT_EQ(more(MemoryClass::kLogits), 0);
    EXPECT_EQ(more(MemoryClass::kParameters), 0);
  }
}

// GELU's output is not kept in bf16, and both norms' are not, but all four inputs of products in
// fp8, and a layer has 64 bytes for their scales; of a weight in fp8 there are two copies, by rows
// and transposed.
TEST(MemoryPlan, Fp8KeepsLessOfALayerAndCopiesOfItsWeights) {
  const auto backend = create_cpu_backend();
  TrainerOptions options = gpt2_124m();
  const Trainer bf16(*backend, options);
  options.shape.fp8 = Fp8Options{.amax_history_len = 16};
  const Trainer fp8(*backend, options);
  const ModelShape& s = options.shape;
  const int64_t tokens = s.micro_batch_size * s.seq_length, C = s.hidden_size, L = s.num_layers;
  const auto more = [&](MemoryClass c) {
    return fp8.plan().class_bytes(c) - bf16.plan().class_bytes(c);
  };
  EXPECT_EQ(more(MemoryClass::kActivations), L * (256 - tokens * (8 + 4 - 7) * C))
      << "a buffer is 256 bytes at least";
  EXPECT_EQ(more(MemoryClass::kParameters), L * (2 * 12 * C * C + 4 * 16));
  EXPECT_EQ(more(MemoryClass::kOptimizer), L * (8 + 4) * 20 * 4 + 768) << "histories, and amaxes";
  EXPECT_EQ(more(MemoryClass::kScratch), 2 * tokens * 4 * C + 256)
      << "rows, and a gradient transposed";
  options.shape.fp8->measures_errors = true;
  const Trainer shadowed(*backend, options);
  EXPECT_EQ(shadowed.plan().class_bytes(MemoryClass::kScratch) -
                fp8.plan().class_bytes(MemoryClass::kScratch),
            2 * 2 * tokens * 4 * C)
      << "a product of bf16, and GELU's output for it";
}

// Where an input is made again in backward, or is made of the rows of several ranks, its copy is
// not kept; where the bf16 tensor is needed by nothing else, the copy takes its place.
TEST(MemoryPlan, Fp8InputsAreKeptWhereTheBf16TensorsAreNot) {
  const auto backend = create_cpu_backend();
  // Returns the bytes of what a layer keeps for each hidden unit and token, without statistics.
  const auto kept = [&](const RecomputeOptions& recompute, Glu glu = Glu::kNone,
                        const Topology& topology = {}) {
    TrainerOptions options = gpt2_124m();
    options.shape.glu = glu;
    options.shape.attention_dropout = 0;
    options.shape.fp8 = Fp8Options{};
    options.recompute = recompute;
    ProcessGroups groups = create_lone_process_groups();
    groups.layout = layout_of(topology, 0);
    const Trainer trainer(*backend, options, groups);
    const int64_t units = 64 * 1024 * 768;
    int64_t bytes = 0;
    for (const MemoryPlan::Buffer& buffer : trainer.plan().buffers()) {
      if (buffer.memory_class == MemoryClass::kActivations && buffer.name.starts_with("layer 1 ") &&
          buffer.num_bytes >= units / 4)
        bytes += buffer.num_bytes;
    }
    return static_cast<double>(bytes) / static_cast<double>(units);
  };
  EXPECT_EQ(kept({}), 27);
  EXPECT_EQ(kept({.norms = true}), 27 - 2 - 1);
  EXPECT_EQ(kept({.activation = true}), 27 - 4 - 1);
  EXPECT_EQ(kept({.norms = true, .activation = true}), 20) << "no copy";
  EXPECT_EQ(kept({.mlp = true}), 20 + 1 + 2 - 8) << "a copy of ln1, and ln2 in bf16";
  EXPECT_EQ(kept({}, Glu::kSwiglu), 27 + 8);
  EXPECT_EQ(kept({.norms = true, .activation = true}, Glu::kSwiglu), 20 + 8);
  EXPECT_EQ(kept({}, Glu::kNone, {.tp_size = 2}), (4 + 2) + (27 - 6) / 2.0);
  EXPECT_EQ(kept({}, Glu::kNone, {.tp_size = 2, .sequence_parallel = true}), (27 - 2 + 4) / 2.0);
}

// Forward puts a norm's output where backward has gradients of qkv's and fc1's outputs, which are
// narrower with many tensor-parallel ranks.
TEST(MemoryPlan, ANormThatIsKeptInFp8HasRoomInScratch) {
  const auto backend = create_cpu_backend();
  for (const int tp_size : {1, 6}) {
    TrainerOptions options = gpt2_124m();
    options.shape.fp8 = Fp8Options{};
    ProcessGroups groups = create_lone_process_groups();
    groups.layout = layout_of({.tp_size = tp_size}, 0);
    const Trainer trainer(*backend, options, groups);
    const std::vector<MemoryPlan::Buffer>& buffers = trainer.plan().buffers();
    const auto wide = std::find_if(buffers.begin(), buffers.end(),
                                   [](const auto& buffer) { return buffer.name == "dwide"; });
    ASSERT_NE(wide, buffers.end());
    EXPECT_EQ(wide->num_bytes, 2 * 64 * 1024 * 768 * (tp_size == 1 ? 4 : 1));
  }
}

// GPT 7.5B with 4 samples of 2048 tokens: recomputation keeps a layer's input, 2 bytes of its 32
// for each hidden unit and token, and the rest of one group.
TEST(MemoryPlan, RecomputedLayersKeepTheirInputs) {
  const auto backend = create_cpu_backend();
  const auto gib_of = [&](const RecomputeOptions& recompute) {
    TrainerOptions options = gpt2_124m();
    ModelShape& s = options.shape;
    s.num_layers = 36;
    s.hidden_size = 4096;
    s.num_heads = 32;
    s.head_size = 128;
    s.ffn_size = 4 * s.hidden_size;
    s.seq_length = s.max_positions = 2048;
    s.micro_batch_size = 4;
    s.hidden_dropout = s.attention_dropout = 0;
    options.recompute = recompute;
    const Trainer trainer(*backend, options);
    return static_cast<double>(trainer.plan().class_bytes(MemoryClass::kActivations)) / kGiB;
  };
  using Method = RecomputeOptions::Method;
  EXPECT_NEAR(gib_of({}), 36.2, 0.1);
  EXPECT_NEAR(gib_of({Method::kUniform, 1}), 3.4, 0.1);
  EXPECT_NEAR(gib_of({Method::kUniform, 6}), 6.5, 0.1);  // fewer inputs, but six layers at once
  EXPECT_NEAR(gib_of({Method::kBlock, 18}), 20.3, 0.1);
  EXPECT_NEAR(gib_of({.norms = true}), 31.8, 0.1);
  EXPECT_NEAR(gib_of({.activation = true}), 27.5, 0.1);
  EXPECT_NEAR(gib_of({.norms = true, .activation = true}), 23.0, 0.1);
  EXPECT_NEAR(gib_of({.norms = true, .mlp = true}), 14.3, 0.1);
  EXPECT_NEAR(gib_of({Method::kBlock, 36}), gib_of({Method::kUniform, 1}), 1e-9);
}

// The bar is 32 GiB on the device with the CUDA context (about 0.6 GiB): 31 GiB are left for the
// plan.
TEST(MemoryPlan, Gpt2With64SamplesFits32GiB) {
  const auto backend = create_cpu_backend();
  TrainerOptions options = gpt2_124m();
  const Trainer trainer(*backend, options);
  EXPECT_LE(trainer.plan().device_bytes(), 31 * kGiB) << trainer.plan().to_string();
  EXPECT_GE(trainer.plan().device_bytes(), 26 * kGiB) << trainer.plan().to_string();
  // 16.125 bytes per parameter: bf16 value, fp32 gradient, 17 bits of the master and two fp32
  // moments.
  const int64_t n = trainer.parameters().arena_elements();
  EXPECT_EQ(trainer.plan().class_bytes(MemoryClass::kParameters), 2 * n);
  EXPECT_EQ(trainer.plan().class_bytes(MemoryClass::kGradients), 4 * n);
  const auto optimizer_bytes = [](const Trainer& planned) {
    return static_cast<double>(planned.plan().class_bytes(MemoryClass::kOptimizer));
  };
  EXPECT_NEAR(optimizer_bytes(trainer), 10.125 * static_cast<double>(n), 1e6);
  options.optimizer.has_bf16_moments = true;
  EXPECT_NEAR(optimizer_bytes(Trainer(*backend, options)), 6.125 * static_cast<double>(n), 1e6);
}

// A vocabulary of 250,880 words is larger than all of a layer.
TEST(MemoryPlan, LogitsInChunksTakeTheMemoryOfAChunk) {
  const auto backend = create_cpu_backend();
  TrainerOptions options = gpt2_124m();
  options.shape.vocab_size = options.shape.padded_vocab_size = 250'880;
  const auto logits_bytes = [&](int64_t logits_chunk) {
    options.logits_chunk = logits_chunk;
    return Trainer(*backend, options).plan().class_bytes(MemoryClass::kLogits);
  };
  const int64_t tokens = 64 * 1024, losses = 4 * tokens;
  EXPECT_EQ(logits_bytes(0), 2 * 250'880 * tokens + losses);
  EXPECT_EQ(logits_bytes(1024), 2 * int64_t{250'880} * 1024 + losses);
  EXPECT_EQ(logits_bytes(tokens + 16), logits_bytes(0));
}

class Advice : public testing::Test {
 protected:
  Advice() {
    config_.num_layers = 36;
    config_.hidden_size = 4096;
    config_.num_attention_heads = 32;
    config_.seq_length = 2048;
    config_.micro_batch_size = 4;
    config_.train_iters = 10;
    config_.hidden_dropout = config_.attention_dropout = 0;
    config_.bf16 = true;
  }
  RankBytes bytes_of(const Config& config) {
    return largest_rank_bytes(config, 50257, *backend_,
                              plans_gpu_ ? std::optional<int64_t>(0) : std::nullopt);
  }
  // Returns the advice for a device that has so many GiB less than the run needs.
  std::string advice(double missing_gib) {
    const int64_t needed = bytes_of(config_).device;
    return memory_advice(config_,
                         {needed - static_cast<int64_t>(missing_gib * kGiB), free_host_bytes_},
                         [this](const Config& config) { return bytes_of(config); });
  }

  std::unique_ptr<Backend> backend_ = create_cpu_backend(1);
  bool plans_gpu_ = true;
  int64_t free_host_bytes_ = INT64_MAX;
  Config config_;
};

TEST_F(Advice, NamesTheOptionsThatCostLeastTime) {
  const std::string parts = "--recompute-granularity selective --recompute-modules ";
  const std::string full = "--recompute-granularity full --recompute-method uniform";
  EXPECT_THAT(advice(0.1), testing::StartsWith("it would fit with --logits-chunk 1024 ("));
  EXPECT_THAT(advice(2), testing::StartsWith("it would fit with " + parts + "layernorm ("));
  EXPECT_THAT(advice(4.8), testing::StartsWith("it would fit with " + parts +
                                               "layernorm --logits-chunk 1024 ("));
  EXPECT_THAT(advice(4.8), testing::HasSubstr(", or with " + parts + "layernorm activation ("));
  EXPECT_THAT(advice(18), testing::StartsWith("it would fit with " + parts + "layernorm mlp ("));
  EXPECT_THAT(advice(25), testing::StartsWith("it would fit with " + full + " ("));
  EXPECT_THAT(advice(40),
              testing::AllOf(testing::StartsWith("it would fit with --logits-chunk 1024 "),
                             testing::HasSubstr(" --optimizer-offload (")));
  plans_gpu_ = false;  // a CPU has no other memory to offload to
  EXPECT_THAT(advice(40), testing::StartsWith("no option that saves memory makes it fit"));
  EXPECT_THAT(advice(60),
              testing::HasSubstr("lower --micro-batch-size or the model, or share it among more "
                                 "ranks: with full recomputation, --sequence-parallel it would fit "
                                 "with --tensor-model-parallel-size"));
  // A micro-batch of one sample cannot be smaller.
  config_.micro_batch_size = 1;
  EXPECT_THAT(advice(60), testing::HasSubstr("makes it fit: lower the model, or share it"));
  config_.micro_batch_size = 4;
  // Stages that were arranged for another number of ranks are left out of the advice.
  config_.pipeline_model_parallel_size = 2;
  config_.num_virtual_stages_per_pipeline_rank = 2;
  config_.world_size = 2;
  EXPECT_THAT(advice(30),
              testing::HasSubstr("and equal stages that are not interleaved, it would"));
  config_.num_virtual_stages_per_pipeline_rank.reset();
  config_.pp_partition_method = "20,16";
  EXPECT_THAT(advice(30),
              testing::HasSubstr("and equal stages that are not interleaved, it would"));
  config_.pp_partition_method = "uniform";
  config_.pipeline_model_parallel_size = config_.world_size = 1;
  // What the run does already is no advice.
  config_.checkpoint_activations = true;
  config_.logits_chunk = 1024;
  plans_gpu_ = true;
  EXPECT_THAT(advice(0.1), testing::StartsWith("it would fit with --optimizer-offload ("));
  config_.optimizer_offload = true;
  EXPECT_THAT(advice(0.1), testing::StartsWith("no option that saves memory makes it fit"));
}

// GPT 7.5B has 10.125 bytes of state for each parameter.
TEST_F(Advice, OffloadsToAHostThatHasTheMemory) {
  Config offloaded = config_;
  offloaded.optimizer_offload = true;
  const int64_t needed = bytes_of(offloaded).host;
  EXPECT_NEAR(static_cast<double>(needed - bytes_of(config_).host) / kGiB, 70.4, 0.1);
  offloaded.async_save = true;
  EXPECT_GT(bytes_of(offloaded).host, needed + 70 * kGiB) << "its snapshot lies there, too";
  free_host_bytes_ = needed;
  EXPECT_THAT(advice(40),
              testing::ContainsRegex("--optimizer-offload \\([0-9.]+ GiB, and [0-9.]+ GiB of the "
                                     "host's memory for each rank\\)"));
  free_host_bytes_ = needed - 1;
  EXPECT_THAT(
      advice(40),
      testing::AllOf(testing::StartsWith("no option that saves memory makes it fit: lower "
                                         "--micro-batch-size or the model, or share it"),
                     testing::ContainsRegex("; --optimizer-offload would take [0-9.]+ GiB of "
                                            "the host's memory for each rank, and [0-9.]+ "
                                            "GiB are free")));
}

TEST_F(Advice, SharesMemoryAmongTheRanksThatThereAre) {
  config_.world_size = 4;
  EXPECT_THAT(advice(30), testing::StartsWith("it would fit with --use-distributed-optimizer ("));
  config_.tensor_model_parallel_size = 4;
  EXPECT_THAT(advice(2), testing::StartsWith("it would fit with --sequence-parallel ("));
}

TEST(MemoryPlan, PrintsEveryClassAndTheTotal) {
  const auto backend = create_cpu_backend();
  const Trainer trainer(*backend, small_options());
  const std::string text = trainer.plan().to_string();
  for (const char* word : {"parameters", "gradients", "optimizer", "activations", "scratch",
                           "logits", "workspace", "batch", "pinned host", "device total"}) {
    EXPECT_THAT(text, testing::HasSubstr(word));
  }
}

TEST(MemoryPlan, AStepAllocatesNothingAndWaitsOnce) {
  auto counting = std::make_unique<CountingBackend>(create_cpu_backend());
  CountingBackend& counts = *counting;
  TrainerOptions options = small_options();
  options.shape.hidden_dropout = options.shape.attention_dropout = 0.1F;
  TrainerOnDevice model(options, std::move(counting));
  const HostBatch batch(options.shape, 8);
  counts.num_allocations = counts.num_waits = 0;
  model->step(batch.view(), {.learning_rate = 1e-3, .params_norm = true});
  EXPECT_EQ(counts.num_waits, 0) << "step() only enqueues";
  model->result();
  EXPECT_EQ(counts.num_waits, 1);
  EXPECT_EQ(counts.num_allocations, 0);
}

}  // namespace
}  // namespace weft
