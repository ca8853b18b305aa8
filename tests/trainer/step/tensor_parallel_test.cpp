// Ranks that share each layer train the model that one rank trains, with LayerNorms whole on every
// rank or shared by rows, alone and times data parallelism.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "tests/trainer/step/parallel_training.h"

namespace weft {
namespace {

Topology tp(int tp_size, int dp_size, bool sequence_parallel) {
  return {.tp_size = tp_size, .dp_size = dp_size, .sequence_parallel = sequence_parallel};
}

const std::pair<int, int> kSizes[] = {{2, 1}, {4, 1}, {2, 2}};

TEST(TensorParallel, LossGradientsAndStepsAreThoseOfOneRank) {
  for (const int64_t micro_batch_size : {1, 2}) {
    const Outcome one = train({.micro_batch_size = micro_batch_size});
    EXPECT_LT(one.steps.back().loss, one.steps.front().loss);
    EXPECT_GT(one.steps.front().grad_norm, 0.5) << "gradients are clipped";
    for (const auto& [tp_size, dp_size] : kSizes) {
      for (const bool sp : {false, true}) {
        expect_same_model(
            {.topology = tp(tp_size, dp_size, sp), .micro_batch_size = micro_batch_size}, one);
      }
    }
  }
}

// With 37 words in 64 rows the last of four ranks has padding only.
TEST(TensorParallel, AnOddVocabularyMayLeaveARankWithoutWords) {
  for (const bool padded : {false, true}) {
    const Outcome one = train({.vocab_size = 37, .train_padded_vocabulary = padded});
    for (const bool sp : {false, true}) {
      expect_same_model(
          {.topology = tp(4, 1, sp), .vocab_size = 37, .train_padded_vocabulary = padded}, one);
    }
  }
}

TEST(TensorParallel, WithoutDropoutAndMaskToo) {
  const Outcome one = train({.micro_batch_size = 2, .masks = false, .dropout = 0});
  for (const bool sp : {false, true}) {
    expect_same_model(
        {.topology = tp(2, 2, sp), .micro_batch_size = 2, .masks = false, .dropout = 0}, one);
  }
}

TEST(TensorParallel, DocumentsAreThoseOfOneRank) {
  for (const int64_t micro_batch_size : {1, 2}) {
    const Outcome one = train({.micro_batch_size = micro_batch_size, .documents = true});
    EXPECT_NE(one.first_loss, train({.micro_batch_size = micro_batch_size}, 1).first_loss);
    for (const auto& [tp_size, dp_size] : kSizes) {
      for (const bool sp : {false, true}) {
        expect_same_model({.topology = tp(tp_size, dp_size, sp),
                           .micro_batch_size = micro_batch_size,
                           .documents = true},
                          one);
      }
    }
  }
}

void expect_shape_of_one_rank(Variant (*shape)(const Topology&)) {
  const Outcome one = train(shape({}));
  EXPECT_LT(one.steps.back().loss, one.steps.front().loss);
  for (const bool sp : {false, true}) {
    expect_same_model(shape(tp(4, 1, sp)), one);
    expect_same_model(shape({.tp_size = 2, .pp_size = 2, .sequence_parallel = sp}), one);
  }
  Variant sharded = shape(tp(2, 2, true));
  sharded.shards_optimizer = true;
  expect_same_model(sharded, one);
}

Variant llama(const Topology& topology) {
  return {.topology = topology,
          .micro_batch_size = 2,
          .num_heads = 8,
          .head_size = 8,
          .ffn_size = 40,
          .glu = Glu::kSwiglu,
          .has_rotary_positions = true,
          .num_query_groups = 4,
          .uses_rms_norm = true,
          .unties_head = true,
          .has_biases = false,
          .has_qkv_bias = false,
          .documents = true};
}

TEST(TensorParallel, LlamasShapeIsThatOfOneRank) { expect_shape_of_one_rank(llama); }

// Each rank makes the gradients of norms of queries and keys from its own heads.
Variant qwen3(const Topology& topology) {
  Variant v = llama(topology);
  v.has_qk_norm = true;
  return v;
}

Variant nemotron(const Topology& topology) {
  Variant v = qwen3(topology);
  v.glu = Glu::kNone;
  v.activation = Activation::kSquaredRelu;
  v.uses_rms_norm = false;
  v.stores_norms_less_one = v.has_qkv_bias = true;
  return v;
}

TEST(TensorParallel, Qwen3sShapeIsThatOfOneRank) { expect_shape_of_one_rank(qwen3); }
TEST(TensorParallel, NemotronsShapeIsThatOfOneRank) { expect_shape_of_one_rank(nemotron); }

TEST(TensorParallel, ALayerNormOfTheEmbeddingIsThatOfOneRank) {
  for (const float dropout : {0.0F, 0.1F}) {
    const Variant lone{
        .micro_batch_size = 2, .dropout = dropout, .has_embedding_norm = true, .documents = true};
    const Outcome one = train(lone);
    for (const bool sp : {false, true}) {
      Variant many = lone;
      many.topology = tp(2, 2, sp);
      expect_same_model(many, one);
      many.shards_optimizer = true;
      many.topology = {.tp_size = 2, .pp_size = 2, .sequence_parallel = sp, .stage_layers = {0, 2}};
      expect_same_model(many, one);
    }
  }
}

// Twelve heads: ranks have slopes of both series, by their heads' numbers in the whole model.
Variant bloom(const Topology& topology) {
  return {.topology = topology,
          .micro_batch_size = 2,
          .num_heads = 12,
          .head_size = 8,
          .has_embedding_norm = true,
          .has_alibi = true};
}

TEST(TensorParallel, BloomsShapeIsThatOfOneRank) { expect_shape_of_one_rank(bloom); }

TEST(TensorParallel, ShardedOptimizersAndBucketsChangeRoundingOnly) {
  const Outcome one = train({});
  for (const bool sp : {false, true}) {
    for (const int64_t bucket : {int64_t{4096}, int64_t{40'000'000}}) {
      for (const bool shards : {false, true}) {
        expect_same_model(
            {.topology = tp(2, 2, sp), .shards_optimizer = shards, .bucket_elements = bucket}, one);
      }
    }
  }
}

TEST(TensorParallel, Bf16TrainsTheModelOfOneRank) {
  const Outcome one = train({.micro_batch_size = 2, .dtype = DType::kBFloat16});
  for (const bool sp : {false, true}) {
    for (const bool shards : {false, true}) {
      SCOPED_TRACE(sp);
      expect_near(train({.topology = tp(2, 2, sp),
                         .micro_batch_size = 2,
                         .shards_optimizer = shards,
                         .dtype = DType::kBFloat16}),
                  one, 3e-3);
    }
  }
}

TEST(TensorParallel, ShortSequencesInLongBuffersHaveTheSameBits) {
  for (const bool sp : {false, true}) {
    for (const bool documents : {false, true}) {
      Variant variant{
          .topology = tp(2, 2, sp), .micro_batch_size = 2, .seq_length = 6, .documents = documents};
      const Outcome fitting = train(variant);
      variant.planned_length = 16;
      expect_equal(train(variant), fitting);
    }
  }
}

TEST(TensorParallel, ASecondRunHasTheSameBits) {
  for (const bool sp : {false, true}) {
    const Variant variant{
        .topology = tp(2, 2, sp), .shards_optimizer = sp, .bucket_elements = 4096};
    expect_equal(train(variant), train(variant));
  }
}

// Writes down the operations of a group in the order in which the host enqueues them.
class RecordingCommunicator final : public Communicator {
 public:
  RecordingCommunicator(std::shared_ptr<Communicator> inner, std::string name,
                        std::vector<std::string>& log)
      : inner_(std::move(inner)), name_(std::move(name)), log_(log) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  void all_reduce(Tensor inout, Reduce reduce, Stream stream) override {
    note("all-reduce", inout);
    inner_->all_reduce(inout, reduce, stream);
  }
  void reduce_scatter(Tensor out, Tensor inp, Stream stream) override {
    note("reduce-scatter", inp);
    inner_->reduce_scatter(out, inp, stream);
  }
  void all_gather(Tensor out, Tensor inp, Stream stream) override {
    note("all-gather", out);
    inner_->all_gather(out, inp, stream);
  }
  void broadcast(Tensor inout, int root, Stream stream) override {
    inner_->broadcast(inout, root, stream);
  }
  void exchange(std::span<const Transfer> transfers, Stream stream) override {
    for (const Transfer& t : transfers) note(t.sends ? "send" : "receive", t.tensor);
    inner_->exchange(transfers, stream);
  }

 private:
  void note(const char* operation, Tensor tensor) {
    log_.push_back(name_ + " " + operation + " " + std::to_string(tensor.num_elements()));
  }

  const std::shared_ptr<Communicator> inner_;
  const std::string name_;
  std::vector<std::string>& log_;
};

// The operations of two steps and an evaluation, by rank.
std::vector<std::vector<std::string>> operations_of(const Variant& variant) {
  std::vector<std::vector<std::string>> logs(static_cast<size_t>(variant.topology.world_size()));
  run_topology(variant.topology, [&](ProcessGroups& groups) {
    std::vector<std::string>& log = logs[static_cast<size_t>(groups.layout.world_rank())];
    groups.tensor = std::make_shared<RecordingCommunicator>(groups.tensor, "tensor", log);
    groups.data = std::make_shared<RecordingCommunicator>(groups.data, "data", log);
    groups.pipeline = std::make_shared<RecordingCommunicator>(groups.pipeline, "pipeline", log);
    const TrainerOptions options = variant.options();
    TrainerOnDevice model(options, create_cpu_backend(1), groups);
    log.clear();
    for (uint64_t step = 0; step < 2; ++step) {
      const RankBatch batch(options.shape, groups.layout, step, variant.masks);
      model->step(batch.view(), {.learning_rate = 1e-2});
      model->result();
    }
    const RankBatch batch(options.shape, groups.layout, 2, variant.masks);
    model->evaluate(batch.view());
    model->result();
  });
  return logs;
}

// NCCL starts operations in the order in which the host enqueues them, over all communicators:
// ranks with different orders would wait for each other for ever, and a collective of the first
// layer waits for what stands before it.
TEST(TensorParallel, ParametersAreGatheredOneLayerAheadInOneOrderOnAllRanks) {
  for (const bool sp : {false, true}) {
    const auto logs = operations_of({.topology = tp(2, 2, sp),
                                     .micro_batch_size = 2,
                                     .shards_optimizer = true,
                                     .bucket_elements = 4096,
                                     .num_layers = 4});
    for (const auto& log : logs) EXPECT_EQ(log, logs[0]);
    const std::vector<std::string>& log = logs[0];
    const auto is = [&](size_t at, const char* what) { return log[at].rfind(what, 0) == 0; };
    // Gathers of parameters stand between collectives of layers, in both forwards after an update.
    const std::string rows = sp ? "tensor reduce-scatter" : "tensor all-reduce";
    int num_between = 0, num_gathers = 0;
    for (size_t at = 1; at < log.size(); ++at) {
      if (!is(at, "data all-gather 4096")) continue;  // a bucket
      ++num_gathers;
      if (is(at - 1, rows.c_str())) ++num_between;
    }
    EXPECT_GT(num_gathers, 10);
    EXPECT_GE(num_between, 2 * 3) << "after the embedding and all layers but the last two";
  }
}

// A stage gathers what it has received.
TEST(TensorParallel, EachRankSendsItsPartToTheNextStage) {
  Variant variant{.topology = tp(2, 1, false)};
  variant.topology.pp_size = 2;
  const ModelShape shape = variant.options().shape;
  const int64_t whole = shape.micro_batch_size * shape.seq_length * shape.hidden_size;
  const std::string gather = "tensor all-gather " + std::to_string(whole);
  for (const bool scatters : {false, true}) {
    variant.scatters_between_stages = scatters;
    const std::string size = std::to_string(scatters ? whole / 2 : whole);
    for (const auto& log : operations_of(variant)) {
      int64_t num_received = 0, num_gathered = 0;
      for (const std::string& line : log) {
        num_gathered += line == gather ? 1 : 0;
        if (!line.starts_with("pipeline send") && !line.starts_with("pipeline receive")) continue;
        num_received += line.starts_with("pipeline receive") ? 1 : 0;
        EXPECT_TRUE(line.ends_with(" " + size)) << line;
      }
      EXPECT_GE(num_received, 2 * kGlobalBatch);
      EXPECT_EQ(num_gathered, scatters ? num_received : 0);
    }
  }
}

TEST(SequenceParallel, StagesExchangeRowsOnlyAndGatherNone) {
  Variant variant{.topology = tp(2, 1, true)};
  variant.topology.pp_size = 2;
  const auto parts = operations_of(variant);
  variant.scatters_between_stages = false;
  EXPECT_EQ(operations_of(variant), parts);
}

// The rows before the logits are gathered once for forward and backward.
TEST(SequenceParallel, GathersTheRowsOfALayerNormOnceWhereTheyAreStillThere) {
  const int num_layers = 2, num_micro_batches = kGlobalBatch / 2;
  const auto logs = operations_of({.topology = tp(2, 1, true), .micro_batch_size = 2});
  const auto gathers = std::count_if(logs[0].begin(), logs[0].end(), [](const std::string& line) {
    return line.rfind("tensor all-gather", 0) == 0;
  });
  // Forward: two LayerNorms a layer, the last one and the loss's statistics. Backward: two branches
  // and two LayerNorms a layer, and the embedding's gradient.
  const int forward = 2 * num_layers + 2, backward = 4 * num_layers + 1;
  EXPECT_EQ(gathers, num_micro_batches * (2 * (forward + backward) + forward));
}

// A rank keeps its rows of what LayerNorms and residuals need, and its heads and columns of the
// rest.
TEST(SequenceParallel, KeepsOwnRowsOnly) {
  const auto backend = create_cpu_backend(1);
  const auto bytes_of = [&](int tp_size, bool sp, MemoryClass memory_class) {
    ProcessGroups groups = create_lone_process_groups();
    groups.layout = layout_of(tp(tp_size, 1, sp), 0);
    const TrainerOptions options = Variant{.masks = false, .dropout = 0}.options();
    return Trainer(*backend, options, groups).plan().class_bytes(memory_class);
  };
  const ModelShape shape = Variant{}.options().shape;
  const int64_t N = shape.micro_batch_size * shape.seq_length, C = shape.hidden_size;
  const int64_t L = shape.num_layers;
  // Per row residual, ln1, residual_mid, ln2, and the two of the end.
  const int64_t stream = 4 * N * C * (4 * L + 2);
  const int64_t saved =
      bytes_of(4, false, MemoryClass::kActivations) - bytes_of(4, true, MemoryClass::kActivations);
  EXPECT_EQ(saved, stream * 3 / 4) << "buffers of statistics are smaller than their alignment";
  EXPECT_EQ(bytes_of(1, true, MemoryClass::kActivations),
            bytes_of(1, false, MemoryClass::kActivations));
  EXPECT_LT(bytes_of(4, false, MemoryClass::kParameters),
            bytes_of(1, false, MemoryClass::kParameters));
}

TEST(SequenceParallel, TokensThatDoNotDivideAreRefused) {
  const auto backend = create_cpu_backend(1);
  ProcessGroups groups = create_lone_process_groups();
  groups.layout = layout_of(tp(4, 1, true), 0);
  TrainerOptions options = Variant{}.options();
  options.shape.seq_length = 14;
  EXPECT_THROW(Trainer(*backend, options, groups), std::invalid_argument);
  options.shape.micro_batch_size = 2;
  const Trainer planned(*backend, options, groups);
  EXPECT_GT(planned.plan().device_bytes(), 0);
}

}  // namespace
}  // namespace weft
