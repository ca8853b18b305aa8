// A step that is planned without a device enqueues what a real one does.
#include "trainer/step/planned_step.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "kernels/cuda_scratch.h"
#include "kernels/forwarding_backend.h"
#include "tests/trainer/model_fixture.h"
#include "trainer/profile/operation.h"
#include "trainer/step/trainer.h"

namespace weft {
namespace {

class ListingBackend final : public OperationVisitor<ListingBackend, ForwardingBackend> {
 public:
  using OperationVisitor::OperationVisitor;
  std::vector<std::string> listed;

  template <typename Op>
  void visit(const Op& op) {
    listed.push_back(to_string(operation_of(op)));
    inner().run(op);
  }
};

std::vector<std::string> texts_of(const std::vector<AnyOperation>& operations) {
  std::vector<std::string> texts;
  for (const AnyOperation& operation : operations) {
    std::visit([&](const auto& op) { texts.push_back(to_string(operation_of(op))); }, operation);
  }
  return texts;
}

template <typename Op>
std::vector<Op> all_of(const PlannedStep& planned) {
  std::vector<Op> found;
  for (const AnyOperation& operation : planned.operations) {
    if (const auto* op = std::get_if<Op>(&operation)) found.push_back(*op);
  }
  return found;
}

// Notes the micro-batch that the trainer says it is in, whenever a loss is computed.
class WatchingBackend final : public OperationVisitor<WatchingBackend, ForwardingBackend> {
 public:
  using OperationVisitor::OperationVisitor;
  const Trainer* trainer = nullptr;
  std::vector<std::string> seen;

  template <typename Op>
  void visit(const Op& op) {
    const auto [begun, of] =
        trainer != nullptr ? trainer->micro_batches_begun() : Trainer::MicroBatchCount{};
    const std::string text = std::to_string(begun) + " of " + std::to_string(of);
    if (seen.empty() || seen.back() != text) seen.push_back(text);
    inner().run(op);
  }
};

TEST(Trainer, TellsTheMicroBatchThatItComputes) {
  const TrainerOptions options = small_options();
  WatchingBackend backend(create_cpu_backend(1));
  Trainer trainer(backend, options);
  trainer.allocate();
  trainer.initialize_parameters();
  HostBatch batch(options.shape, 3 * options.shape.micro_batch_size);
  backend.trainer = &trainer;
  backend.seen.clear();
  trainer.step(batch.view(), {.learning_rate = 1e-3});
  EXPECT_EQ(backend.seen, (std::vector<std::string>{"1 of 3", "2 of 3", "3 of 3", "0 of 0"}));
}

struct Variant {
  const char* name;
  std::function<void(TrainerOptions&)> change;
};

TEST(PlannedStep, HasTheOperationsOfARealStepInTheirOrder) {
  const Variant variants[] = {
      {"fp32", [](TrainerOptions&) {}},
      {"bf16", [](TrainerOptions& o) { o.shape.dtype = DType::kBFloat16; }},
      // The step reads its norm and loss before it updates.
      {"fp16",
       [](TrainerOptions& o) {
         o.shape.dtype = DType::kFloat16;
         o.loss_scale = LossScaleOptions{.initial = 16};
       }},
      {"dropout",
       [](TrainerOptions& o) {
         o.shape.hidden_dropout = o.shape.attention_dropout = 0.1F;
         o.shape.dtype = DType::kBFloat16;
       }},
      {"documents", [](TrainerOptions& o) { o.shape.masks_other_documents = true; }},
      {"a mask", [](TrainerOptions& o) { o.has_loss_mask = true; }},
      {"chunks of logits", [](TrainerOptions& o) { o.logits_chunk = 8; }},
      {"losses of samples", [](TrainerOptions& o) { o.num_sample_losses = 4; }},
      {"losses of one micro-batch", [](TrainerOptions& o) { o.num_sample_losses = 2; }},
      {"fp8", [](TrainerOptions& o) {
         o.shape.dtype = DType::kBFloat16;
         o.shape.fp8 = Fp8Options{.is_delayed = true, .amax_history_len = 4};
       }}};
  for (const Variant& variant : variants) {
    SCOPED_TRACE(variant.name);
    TrainerOptions options = small_options();
    variant.change(options);
    ListingBackend backend(create_cpu_backend(1));
    Trainer trainer(backend, options);
    trainer.allocate();
    trainer.initialize_parameters();
    const int64_t num_micro_batches = options.num_sample_losses == 2 ? 1 : 2;
    HostBatch batch(options.shape, num_micro_batches * options.shape.micro_batch_size);
    if (options.has_loss_mask) batch.mask_every(3);
    if (options.shape.needs_document_bounds()) batch.split_documents();
    for (int step = 0; step < 2; ++step) {
      backend.listed.clear();
      trainer.step(batch.view(), {.learning_rate = 1e-3, .params_norm = true});
    }
    EXPECT_EQ(texts_of(plan_step(options, {}).operations), backend.listed);
  }
}

TEST(PlannedStep, TellsTheCollectivesOfARankAmongMany) {
  TrainerOptions options = small_options();
  options.shape.num_heads = 4;
  options.shape.num_layers = 4;
  options.shards_optimizer = true;
  EXPECT_TRUE(plan_step(options, {}).collectives.empty()) << "a rank alone";
  ParallelLayout layout;
  layout.tp_size = layout.pp_size = layout.dp_size = 2;
  const PlannedStep planned = plan_step(options, layout);
  const auto num_of = [&](const std::string& name, const std::string& group) {
    return std::count_if(planned.collectives.begin(), planned.collectives.end(),
                         [&](const Operation& o) { return o.name == name && o.group == group; });
  };
  // Two layers of this stage sum two branches each in forward and in backward, for two
  // micro-batches; the first stage sums the embedding.
  EXPECT_EQ(num_of("all_reduce", "tensor"), 2 * (2 * 2 * 2 + 1));
  EXPECT_GT(num_of("exchange", "pipeline"), 0);
  EXPECT_GT(num_of("reduce_scatter", "data"), 0);
  EXPECT_EQ(num_of("all_gather", "data"), num_of("reduce_scatter", "data"));
}

// Attention's backward makes the gradient of the bias of queries, keys and values then, so no
// product is timed that sums it.
TEST(PlannedStep, HasNoProductThatSumsABiasGradientOfAttention) {
  TrainerOptions options = small_options();
  options.shape.dtype = DType::kBFloat16;
  ASSERT_TRUE(options.shape.attention_sums_qkv_bias());
  const PlannedStep planned = plan_step(options, {});
  for (const auto& op : all_of<LinearBackwardWeight>(planned)) EXPECT_FALSE(op.dbias);
  for (const auto& op : all_of<AttentionBackward>(planned)) EXPECT_TRUE(op.dqkv_bias);
  EXPECT_EQ(all_of<AttentionBackward>(planned).size(), 2U * 2U);
}

// GPT-3 with 8 tensor-parallel ranks: the norm's backward takes most, 132 blocks with three rows of
// fp32 sums.
TEST(PlannedStep, PlansTheScratchOfTheNormOfWideModels) {
  TrainerOptions options = small_options();
  ModelShape& shape = options.shape;
  shape.dtype = DType::kBFloat16;
  shape.micro_batch_size = 1;
  shape.num_layers = 2;
  shape.hidden_size = 12288;
  shape.num_heads = 96;
  shape.head_size = 128;
  shape.ffn_size = 4 * 12288;
  shape.seq_length = shape.max_positions = 2048;
  shape.vocab_size = 50257;
  shape.padded_vocab_size = 51200;
  ParallelLayout layout;
  layout.tp_size = 8;
  const auto scratch_mib = [&](int num_multiprocessors) {
    const std::vector<AnyOperation> operations = plan_step(options, layout).operations;
    return static_cast<double>(cuda::workspace_bytes(operations, num_multiprocessors) -
                               cuda::kGemmWorkspaceBytes) /
           (1 << 20);
  };
  EXPECT_NEAR(scratch_mib(132), 132 * 3 * 12288 * 4 / 1048576.0, 0.01);
  shape.dtype = DType::kFloat32;
  EXPECT_GE(scratch_mib(132), 132 * 3 * 12288 * 4 / 1048576.0);
}

}  // namespace
}  // namespace weft
