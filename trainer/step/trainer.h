// A training step and everything it changes: parameters, gradients, optimizer state, step counters.
//
//   Trainer trainer(backend, options);    // plans memory, allocates none: --dry-run prints plan()
//   trainer.allocate();
//   trainer.initialize_parameters();      // or copy into state_tensors() and parameters_loaded()
//   trainer.step(batch, {.learning_rate = lr});
//   const StepResult result = trainer.result();    // the step's only wait
//
// A trainer is not thread-safe, but for micro_batches_begun(): the thread that drives the backend
// drives it.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "trainer/config/memory_plan.h"
#include "trainer/model/model.h"
#include "trainer/model/parameters.h"
#include "trainer/parallel/gradient_reducer.h"
#include "trainer/parallel/parameter_gatherer.h"
#include "trainer/parallel/pipeline_order.h"
#include "trainer/parallel/process_groups.h"
#include "trainer/step/batch_buffers.h"
#include "trainer/step/loss_scale.h"
#include "trainer/step/optimizer.h"
#include "trainer/step/step_results.h"
#include "trainer/step/training_state.h"

namespace weft {

struct TrainerOptions {
  ModelShape shape;
  OptimizerOptions optimizer;
  bool has_loss_mask = false;                  // plans memory for GlobalBatch::loss_mask
  RecomputeOptions recompute;                  // changes memory and time, and no bit of the results
  int64_t logits_chunk = 0;                    // as in ActivationOptions; changes sums' order, too
  std::optional<LossScaleOptions> loss_scale;  // of fp16 models, whose gradients would vanish
  bool skips_bad_steps = false;   // those whose loss or gradient norm is not finite update nothing
  bool shards_optimizer = false;  // over data-parallel ranks (ZeRO-1), else each holds all of it
  // Samples of the largest global batch, whose losses each step() keeps; 0: none are kept.
  int64_t num_sample_losses = 0;
  int64_t bucket_elements = 40'000'000;  // of gradients that are reduced together
  // With interleaved stages so many micro-batches pass a chunk together; 0 takes as many as there
  // are pipeline ranks.
  int64_t micro_batch_group_size = 0;
  // Of a tensor that all tensor-parallel ranks of a stage hold, each sends its part to the next
  // stage, which gathers the parts; else each sends all of it. No bit depends on that.
  bool scatters_between_stages = true;
  // Micro-batches of the largest batch on a rank; a pipeline stage keeps the activations of no
  // more.
  int64_t most_micro_batches = std::numeric_limits<int64_t>::max();
  // Plans the workspace of a GPU of so many multiprocessors instead of the backend's.
  std::optional<int> planned_multiprocessors = {};
};
TrainerOptions trainer_options(const Config& config, int64_t vocab_size);

struct StepOptions {
  double learning_rate = 0;
  std::optional<double> weight_decay = {};             // in place of the optimizer's
  std::optional<double> decoupled_learning_rate = {};  // of the word embedding and the head
  // The positions with loss in the micro-batches of all data-parallel ranks: the loss is their mean
  // (--calculate-per-token-loss). Without it the loss is the mean of the micro-batches' means.
  std::optional<double> num_loss_tokens = {};
  bool params_norm = false;
  bool fp8_errors = false;  // only where the shape's fp8 options plan memory for it
};

class Trainer {
 public:
  // `backend` and `groups` must outlive the trainer. Throws UsageError for impossible
  // sizes or layouts.
  Trainer(Backend& backend, const TrainerOptions& options,
          const ProcessGroups& groups = lone_process_groups());
  // The first one finds the workspace of the operations of a step (plan_step), this one is told.
  Trainer(Backend& backend, const TrainerOptions& options, const ProcessGroups& groups,
          int64_t workspace_bytes);

  const MemoryPlan& plan() const { return plan_; }
  // Before allocate() others add the memory that they need beside the trainer's.
  MemoryPlan& plan() { return plan_; }
  const ParameterTable& parameters() const { return table_; }
  const ModelShape& shape() const { return options_.shape; }
  const ParallelLayout& layout() const { return groups_.layout; }
  Model& model() { return model_; }
  // Times the model's GEMMs that the file lacks (ceilings/algorithm_file.h); call it before
  // allocate(), while the memory is free. Returns notes for the user, a line each.
  std::string tune(const std::filesystem::path& algorithm_file);
  void allocate();  // throws std::bad_alloc or DeviceOutOfMemory
  // The same for a backend that executes nothing: tables of a large model take seconds.
  void allocate_without_tables();

  // Sets the initial weights of the seed. It computes them on the host and waits for the copies.
  void initialize_parameters();

  // Enqueues forward and backward of all micro-batches and the update, counts the iteration and its
  // samples, and returns whether the update is among them: all ranks skip it where the gradients of
  // one are not finite, if the options say so. At most StepResults::kInFlight steps may have unread
  // results.
  bool step(const GlobalBatch& batch, const StepOptions& options);
  // Counts an iteration and its samples that are consumed without training.
  void pass_over(const GlobalBatch& batch);
  // Enqueues forward only, without dropout and gradients. The counters stay as they are.
  void evaluate(const GlobalBatch& batch);
  // Waits for the oldest unread step() or evaluate() and returns its result.
  StepResult result();

  // The micro-batch whose forward pass has begun last, counted from 1, and how many the step has.
  // It is {0, 0} between steps, and on a GPU, which gets all of a step at once.
  struct MicroBatchCount {
    int32_t begun = 0, of = 0;
  };
  MicroBatchCount micro_batches_begun() const { return micro_batches_begun_; }  // thread-safe

  // Computes the gradients of a global batch without an update, waits, and returns its loss (for
  // tests and diagnosis). Dropout is that of the next step; the gradients are those of the loss
  // times its factor. With a sharded optimizer only the
  // elements that this rank updates are sums over all ranks.
  double forward_backward(const GlobalBatch& batch);
  Tensor gradient(const Parameter& parameter) const;  // fp32, device, in the slice's shape
  Tensor weight(const Parameter& parameter);          // x, device, as state_tensors()
  // The arena of all weights, x, on the device; complete after finish_gathering().
  Tensor weights() const { return parameters_; }

  // --- checkpoints ---
  // Returns all tensors of this rank; without `optimizer` only the weights and their fp32 masters.
  // All data-parallel ranks hold the same weights, and the same optimizer state unless it is
  // sharded. What is enqueued on the compute stream from now on may read them. The masters of bf16
  // weights are there until the next step writes gradients, or the norm of the parameters is asked
  // for.
  std::vector<StateTensor> state_tensors(bool optimizer);
  // The same without what a checkpoint with the present scalar state lacks: scales of fp8 before
  // there is a step, which then begin anew.
  std::vector<StateTensor> tensors_to_load(bool optimizer);
  const ScalarState& scalar_state() const { return scalars_; }
  // The loss's dynamic factor begins anew where `scalars` have none.
  void set_scalar_state(const ScalarState& scalars);
  // Returns the factor of the next step's loss; 1 where there is none.
  double loss_scale() const { return judge_.loss_scale(scalars_); }
  // Waits until the parameters that other ranks have updated are here, where a rank that does not
  // come is noticed.
  void finish_gathering();
  // The next step waits on the device for `event` before it writes gradients: until then something
  // else reads state_tensors().
  void hold_gradients_for(EventId event) { state_is_read_until_ = event; }
  // Derives x from the fp32 masters, on all ranks together. Call it after copying into
  // state_tensors(), before the next step.
  void parameters_loaded();

 private:
  MicroBatch micro_batch_at(const GlobalBatch& batch, const PipelineItem& item) const;
  void forward(const GlobalBatch& batch, const PipelineItem& item, bool training, bool timed);
  void backward(const GlobalBatch& batch, const PipelineItem& item);
  void wait_for_readers_of_state();
  void share_losses(bool keeps_samples);
  StepOutcome judge();
  // With `timed` the result that has begun gets the numbers and times of its micro-batches.
  void run_micro_batches(const GlobalBatch& batch, bool training, bool timed);
  void count(const GlobalBatch& batch);

  Backend& backend_;
  TrainerOptions options_;
  const ProcessGroups& groups_;
  const PipelineShape pipeline_;
  ParameterTable table_;
  ArenaShards shards_;
  MemoryPlan plan_;
  Model model_;
  Optimizer optimizer_;
  GradientReducer reducer_;
  ParameterGatherer gatherer_;
  Tensor parameters_, gradients_;  // arenas: x, fp32
  Tensor workspace_;
  BatchBuffers batches_;
  StepResults results_;
  const StepJudge judge_;
  ScalarState scalars_;
  std::optional<double> num_loss_tokens_;  // of the step that is being enqueued (StepOptions)
  std::atomic<MicroBatchCount> micro_batches_begun_{};
  std::optional<EventId> state_is_read_until_;
  EventId settled_ = 0;
};

}  // namespace weft
