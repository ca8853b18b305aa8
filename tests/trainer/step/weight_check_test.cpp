// Faults of parallel training that leave the loss plausible, put into some ranks or all, and what
// finds them: the check of weights, or the comparison with one rank.
#include "trainer/step/weight_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "indexed_dataset/base/process/exit_code.h"
#include "kernels/forwarding_backend.h"
#include "kernels/numbers/elements.h"
#include "tests/trainer/step/parallel_training.h"

namespace weft {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Forgets to sum over a group what `forgets` says.
class ForgetfulCommunicator final : public Communicator {
 public:
  ForgetfulCommunicator(std::shared_ptr<Communicator> inner, std::function<bool(Tensor)> forgets)
      : inner_(std::move(inner)), forgets_(std::move(forgets)) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  void all_reduce(Tensor inout, Reduce reduce, Stream stream) override {
    if (!forgets_(inout)) inner_->all_reduce(inout, reduce, stream);
  }
  void reduce_scatter(Tensor out, Tensor inp, Stream stream) override {
    inner_->reduce_scatter(out, inp, stream);
  }
  void all_gather(Tensor out, Tensor inp, Stream stream) override {
    inner_->all_gather(out, inp, stream);
  }
  void broadcast(Tensor inout, int root, Stream stream) override {
    inner_->broadcast(inout, root, stream);
  }
  void exchange(std::span<const Transfer> transfers, Stream stream) override {
    inner_->exchange(transfers, stream);
  }

 private:
  std::shared_ptr<Communicator> inner_;
  std::function<bool(Tensor)> forgets_;
};

// Updates as if gradients were not clipped, or as if everything decayed.
class FaultyOptimizerBackend final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  bool skips_clipping = false, decays_everything = false;

  using ForwardingBackend::run;
  void run(const ClipCoefficient& op) override {
    ClipCoefficient changed = op;
    if (skips_clipping) changed.max_norm = 0;
    ForwardingBackend::run(changed);
  }
  void run(const AdamW& op) override {
    AdamW changed = op;
    if (decays_everything) {
      all_.assign(static_cast<size_t>(op.decays.num_elements()), 1);
      changed.decays = Tensor(all_.data(), DType::kUInt8, {op.decays.num_elements()});
    }
    ForwardingBackend::run(changed);
  }

 private:
  std::vector<uint8_t> all_;
};

struct Fault {
  std::function<void(ProcessGroups&)> in_groups = [](ProcessGroups&) {};
  std::function<void(FaultyOptimizerBackend&, const ParallelLayout&)> in_backend =
      [](FaultyOptimizerBackend&, const ParallelLayout&) {};
  std::function<void(TrainerOnDevice&, const ParallelLayout&)> after_steps =
      [](TrainerOnDevice&, const ParallelLayout&) {};
};

Topology topology(int tp_size, int dp_size, bool sequence_parallel) {
  return {.tp_size = tp_size, .dp_size = dp_size, .sequence_parallel = sequence_parallel};
}

// Trains two steps with the fault and returns what the check says, "" if it finds nothing. Every
// rank says the same.
std::string found_in(const Variant& variant, const Fault& fault) {
  std::vector<std::string> said(static_cast<size_t>(variant.topology.world_size()));
  run_topology(variant.topology, [&](ProcessGroups& groups) {
    fault.in_groups(groups);
    auto backend = std::make_unique<FaultyOptimizerBackend>(create_cpu_backend(1));
    fault.in_backend(*backend, groups.layout);
    TrainerOptions options = variant.options();
    options.optimizer.weight_decay = 0.1;
    TrainerOnDevice model(options, std::move(backend), groups);
    for (uint64_t step = 0; step < 2; ++step) {
      const RankBatch batch(options.shape, groups.layout, step, variant.masks);
      model->step(batch.view(), {.learning_rate = 1e-2});
      EXPECT_TRUE(std::isfinite(model->result().loss));
    }
    fault.after_steps(model, groups.layout);
    try {
      check_weights(*model.backend, model->state_tensors(true), groups.layout,
                    variant.shards_optimizer, *groups.host);
    } catch (const ChecksumMismatch& error) {
      said[static_cast<size_t>(groups.layout.world_rank())] = error.what();
    }
  });
  for (const std::string& text : said) EXPECT_EQ(text, said[0]);
  return said[0];
}

std::vector<Variant> sound_variants() {
  std::vector<Variant> variants;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const bool shards : {false, true}) {
      for (const bool sp : {false, true}) {
        variants.push_back({.topology = topology(2, 2, sp),
                            .shards_optimizer = shards,
                            .bucket_elements = 8192,
                            .dtype = dtype});
      }
    }
  }
  variants.push_back(
      {.topology = topology(4, 1, true), .dtype = DType::kBFloat16, .vocab_size = 37});
  variants.push_back({.topology = topology(1, 3 + 1, false), .dtype = DType::kBFloat16});
  for (const bool shards : {false, true}) {
    Variant stages{.topology = topology(2, 2, shards), .shards_optimizer = shards};
    stages.topology.pp_size = 2;
    variants.push_back(stages);
    stages.has_bf16_moments = true;
    variants.push_back(stages);
    stages.unties_head = true;
    variants.push_back(stages);
  }
  variants.push_back({.dtype = DType::kBFloat16});
  variants.push_back({.topology = topology(2, 2, true), .dtype = DType::kFloat16});
  return variants;
}

void forget(std::shared_ptr<Communicator>& group, std::function<bool(Tensor)> forgets) {
  group = std::make_unique<ForgetfulCommunicator>(std::move(group), std::move(forgets));
}

Topology stages(int pp_size, int dp_size = 1) { return {.pp_size = pp_size, .dp_size = dp_size}; }

// Adds to an element of the tensor on one rank.
Fault drift(const std::string& name, int rank, float by) {
  return {.after_steps = [=](TrainerOnDevice& model, const ParallelLayout& layout) {
    if (layout.world_rank() != rank) return;
    for (const StateTensor& t : model->state_tensors(true)) {
      if (t.name != name || t.tensor.num_elements() < 2) continue;
      if (t.tensor.dtype() == DType::kFloat32) {
        t.tensor.as<float>()[1] += by;
      } else {
        const float element = load_element(t.tensor.data(), t.tensor.dtype(), 1);
        store_element(t.tensor.data(), t.tensor.dtype(), 1, element + by);
      }
      return;
    }
    ADD_FAILURE() << "rank " << rank << " holds no " << name;
  }};
}

TEST(WeightCheck, FindsNothingWhereNothingIsWrong) {
  for (const Variant& variant : sound_variants())
    EXPECT_EQ(found_in(variant, {}), "") << variant.name();
}

TEST(WeightCheck, NamesATensorThatHasDriftedAndTheRanks) {
  const Variant tp4{.topology = topology(4, 1, false)};
  EXPECT_THAT(
      found_in(tp4, drift("model/decoder.layers.1.self_attention.linear_proj.bias", 2, 1e-4F)),
      HasSubstr("\n  rank 0 (thread 0) and rank 2 (thread 2) differ: "
                "model/decoder.layers.1.self_attention.linear_proj.bias"));
  const Variant tp2dp2{.topology = topology(2, 2, true), .dtype = DType::kFloat16};
  EXPECT_THAT(
      found_in(tp2dp2, drift("model/decoder.layers.0.mlp.linear_fc1.weight", 3, 1.0F)),
      AllOf(HasSubstr("rank 1 (thread 1) and rank 3 (thread 3) differ: "
                      "model/decoder.layers.0.mlp.linear_fc1.weight"),
            HasSubstr("rank 3 (thread 3): decoder.layers.0.mlp.linear_fc1.weight is not its "
                      "fp32 master: element 1 is"),
            Not(HasSubstr("rank 0"))));
  EXPECT_THAT(
      found_in(tp2dp2, drift("optimizer/exp_avg/embedding.position_embeddings.weight", 1, 1.0F)),
      HasSubstr("rank 0 (thread 0) and rank 1 (thread 1) differ: "
                "optimizer/exp_avg/embedding.position_embeddings.weight"));
  // Alone, a rank still compares its weights with their masters.
  EXPECT_THAT(
      found_in({.dtype = DType::kFloat16}, drift("model/decoder.final_layernorm.bias", 0, 1.0F)),
      HasSubstr("decoder.final_layernorm.bias is not its fp32 master"));
}

// With a sharded optimizer both tensor-parallel ranks hold the same part of what is whole.
TEST(WeightCheck, ComparesShardsOfTheOptimizerOverTensorParallelRanks) {
  const std::string name = "optimizer/exp_avg_sq/decoder.final_layernorm.weight";
  const std::string found =
      found_in({.topology = topology(2, 2, true), .shards_optimizer = true},
               {.after_steps = [&](TrainerOnDevice& model, const ParallelLayout& layout) {
                 for (const StateTensor& t : model->state_tensors(true)) {
                   if (layout.tp_rank == 1 && t.name == name) *t.tensor.as<float>() += 1;
                 }
               }});
  EXPECT_THAT(found, HasSubstr("differ: " + name));
}

TEST(Mutations, ClippingThatIsSkippedOnOneRankIsFound) {
  for (const auto& [tp_size, dp_size] : {std::pair{2, 1}, {1, 2}}) {
    const std::string found =
        found_in({.topology = topology(tp_size, dp_size, false)},
                 {.in_backend = [](FaultyOptimizerBackend& backend, const ParallelLayout& layout) {
                   backend.skips_clipping = layout.world_rank() == 1;
                 }});
    EXPECT_THAT(found, HasSubstr("rank 0 (thread 0) and rank 1 (thread 1) differ: model/"));
  }
}

TEST(Mutations, LayerNormsThatDecayOnOneRankAreFound) {
  const std::string found =
      found_in({.topology = topology(2, 2, true)},
               {.in_backend = [](FaultyOptimizerBackend& backend, const ParallelLayout& layout) {
                 backend.decays_everything = layout.world_rank() == 3;
               }});
  EXPECT_THAT(found, AllOf(HasSubstr("rank 3"), HasSubstr("layernorm.weight")));
}

TEST(Mutations, GradientsThatAreNotSummedOverDataParallelRanksAreFound) {
  EXPECT_THAT(found_in({.topology = topology(1, 2, false)},
                       {.in_groups =
                            [](ProcessGroups& groups) {
                              forget(groups.data, [](Tensor t) { return t.num_elements() > 1; });
                            }}),
              HasSubstr("rank 1 (thread 1) differ: model/decoder.layers.1.mlp.linear_fc2.weight"));
}

// Each rank then updates LayerNorms by its own rows: BLOOM's bug.
TEST(Mutations, ReplicatedGradientsThatAreNotSummedOverTensorParallelRanksAreFound) {
  const std::string found =
      found_in({.topology = topology(2, 1, true)}, {.in_groups = [](ProcessGroups& groups) {
                 forget(groups.tensor, [](Tensor t) { return t.rank() == 1; });  // the region
               }});
  EXPECT_THAT(found, AllOf(HasSubstr("input_layernorm.weight"), HasSubstr("rank 1")));
  EXPECT_THAT(found, Not(HasSubstr("linear_qkv"))) << "what is split has no second copy";
}

TEST(Mutations, PartialSumsThatAreNotSummedOverTensorParallelRanksAreFound) {
  EXPECT_THAT(found_in({.topology = topology(2, 1, false)},
                       {.in_groups =
                            [](ProcessGroups& groups) {
                              forget(groups.tensor, [](Tensor t) { return t.rank() == 2; });
                            }}),
              HasSubstr("rank 0 (thread 0) and rank 1 (thread 1) differ: model/"));
}

// The bf16 path of BLOOM's trainer: the first stage's copy learns from the embedding alone, the
// last one's from the head alone.
TEST(Mutations, TiedGradientsThatAreNotSummedOverTheStagesAreFound) {
  for (const auto& [dtype, shards] : {std::pair{DType::kFloat32, false},
                                      {DType::kFloat32, true},
                                      {DType::kBFloat16, false},
                                      {DType::kBFloat16, true},
                                      {DType::kFloat16, true}}) {
    const std::string found = found_in(
        {.topology = stages(3, 2), .shards_optimizer = shards, .dtype = dtype, .num_layers = 3},
        {.in_groups = [](ProcessGroups& groups) {
          forget(groups.tied, [](Tensor) { return true; });
        }});
    EXPECT_THAT(found, AllOf(HasSubstr("rank 0 (thread 0) and rank 4 (thread 4) differ: "
                                       "model/embedding.word_embeddings.weight"),
                             HasSubstr("rank 1 (thread 1) and rank 5 (thread 5) differ: "),
                             Not(HasSubstr("decoder.layers"))));
  }
}

TEST(Mutations, ATiedWeightThatDiffersOnTheLastStageIsFound) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    EXPECT_THAT(found_in({.topology = stages(2), .dtype = dtype},
                         drift("model/embedding.word_embeddings.weight", 1, 0.5F)),
                HasSubstr("rank 0 (thread 0) and rank 1 (thread 1) differ: "
                          "model/embedding.word_embeddings.weight"));
  }
}

TEST(Mutations, ANormOfTheEmbeddingThatDiffersOnOneRankIsFound) {
  EXPECT_THAT(found_in({.topology = {.tp_size = 2, .pp_size = 2},
                        .dtype = DType::kBFloat16,
                        .has_embedding_norm = true},
                       drift("model/embedding.word_embeddings_layernorm.weight", 1, 0.5F)),
              HasSubstr("rank 0 (thread 0) and rank 1 (thread 1) differ: "
                        "model/embedding.word_embeddings_layernorm.weight"));
}

TEST(Mutations, ClippingThatIsSkippedOnTheLastStageIsFound) {
  const std::string found =
      found_in({.topology = stages(2)},
               {.in_backend = [](FaultyOptimizerBackend& backend, const ParallelLayout& layout) {
                 backend.skips_clipping = layout.pp_rank == 1;
               }});
  EXPECT_THAT(found, HasSubstr("rank 0 (thread 0) and rank 1 (thread 1) differ: "
                               "model/embedding.word_embeddings.weight"));
}

TEST(Mutations, NormsThatAreNotSummedOverTheStagesAreFound) {
  EXPECT_THAT(found_in({.topology = stages(2)}, {.in_groups =
                                                     [](ProcessGroups& groups) {
                                                       forget(groups.model, [](Tensor t) {
                                                         return t.num_elements() == 1;
                                                       });
                                                     }}),
              HasSubstr("differ: model/embedding.word_embeddings.weight"));
}

// Each rank then clips by its own norm.
TEST(Mutations, NormsThatAreNotSummedOverTheModelAreFound) {
  EXPECT_THAT(found_in({.topology = topology(2, 1, false)}, {.in_groups =
                                                                 [](ProcessGroups& groups) {
                                                                   forget(groups.model, [](Tensor) {
                                                                     return true;
                                                                   });
                                                                 }}),
              HasSubstr("rank 0 (thread 0) and rank 1 (thread 1) differ: model/"));
}

}  // namespace
}  // namespace weft
