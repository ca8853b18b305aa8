#include "trainer/step/trainer.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "indexed_dataset/base/process/exit_code.h"
#include "kernels/cuda_scratch.h"
#include "trainer/ceilings/algorithm_file.h"
#include "trainer/step/planned_step.h"
#include "trainer/step/stage_exchange.h"
#include "trainer/step/state_tensors.h"

namespace weft {
namespace {

// Each tensor-parallel rank makes the gradients of norms of queries and keys from its own heads,
// and with sequence parallelism those of all that ranks hold whole from its own rows.
ArenaRange partial_gradients(const ParallelLayout& layout, const ParameterTable& table) {
  if (layout.tp_size == 1) return {};
  const int64_t begin =
      layout.num_row_shares() > 1 ? table.replicated_begin() : table.sums_over_heads_begin();
  return {begin, table.arena_elements() - begin};
}

int64_t num_layers_with_errors(const ModelShape& shape) {
  return shape.fp8 && shape.fp8->measures_errors ? shape.num_layers : 0;
}

PipelineShape pipeline_shape(const TrainerOptions& options, const ParallelLayout& layout) {
  const int64_t group = options.micro_batch_group_size;
  return {layout.pp_size, layout.num_chunks, group > 0 ? group : layout.pp_size};
}

// Histories of another length are of no use, nor are scales for another format: they begin anew.
std::optional<Fp8ScalingState> fp8_scaling_from(const std::optional<Fp8ScalingState>& saved,
                                                const std::optional<Fp8Options>& fp8) {
  if (!fp8 || !fp8->is_delayed) return std::nullopt;
  const Fp8ScalingState anew{.amax_history_len = fp8->amax_history_len,
                             .is_hybrid = fp8->gradients == DType::kFloat8E5M2};
  const bool goes_on = saved && saved->amax_history_len == anew.amax_history_len &&
                       saved->is_hybrid == anew.is_hybrid;
  return goes_on ? *saved : anew;
}

int64_t workspace_bytes_of(const Backend& backend, const TrainerOptions& options,
                           const ParallelLayout& layout) {
  const std::vector<AnyOperation> operations =
      as_usage([&] { return plan_step(options, layout); }).operations;
  return options.planned_multiprocessors
             ? cuda::workspace_bytes(operations, *options.planned_multiprocessors)
             : backend.workspace_bytes(operations);
}

}  // namespace

Trainer::Trainer(Backend& backend, const TrainerOptions& options, const ProcessGroups& groups)
    : Trainer(backend, options, groups, workspace_bytes_of(backend, options, groups.layout)) {}

Trainer::Trainer(Backend& backend, const TrainerOptions& options, const ProcessGroups& groups,
                 int64_t workspace_bytes)
    : backend_(backend),
      options_(options),
      groups_(groups),
      pipeline_(pipeline_shape(options, groups.layout)),
      table_(options.shape, groups.layout),
      shards_(table_.arena_elements(), options.bucket_elements, groups.layout.dp_rank,
              groups.layout.dp_size, options.shards_optimizer, table_.tied()),
      model_(backend, *groups.tensor, options.shape, groups.layout,
             {.num_slots =
                  pipeline_slots(groups.layout.pp_rank, pipeline_, options.most_micro_batches),
              .num_embedding_slots = pipeline_embedding_slots(groups.layout.pp_rank, pipeline_,
                                                              options.most_micro_batches),
              .num_gradient_slots = pipeline_gradient_slots(groups.layout.pp_rank, pipeline_),
              .recompute = options.recompute,
              .logits_chunk = options.logits_chunk},
             plan_),
      optimizer_(backend, groups, table_, shards_, options.shape.dtype, options.optimizer, plan_),
      reducer_(backend, groups, shards_, partial_gradients(groups.layout, table_), table_.tied()),
      gatherer_(backend, groups, shards_),
      batches_(
          backend, options.shape, model_,
          pipeline_embedding_slots(groups.layout.pp_rank, pipeline_, options.most_micro_batches),
          options.has_loss_mask, plan_),
      results_(backend,
               {.most = options.num_sample_losses,
                .micro_batch_size = options.shape.micro_batch_size,
                .dp_rank = groups.layout.dp_rank,
                .dp_size = groups.layout.dp_size},
               num_layers_with_errors(options.shape)),
      judge_(options.loss_scale, options.skips_bad_steps) {
  const int64_t n = shards_.padded_elements();
  plan_.add(MemoryClass::kParameters, "parameters", &parameters_, options.shape.dtype, {n});
  plan_.add(MemoryClass::kGradients, "gradients", &gradients_, DType::kFloat32, {n});
  if (workspace_bytes > 0) {
    plan_.add(MemoryClass::kWorkspace, "workspace", &workspace_, DType::kUInt8, {workspace_bytes});
  }
  results_.plan(plan_);
}

// All stages time the products of all of them: the first rank's table is the run's, and checkpoints
// hold it.
std::string Trainer::tune(const std::filesystem::path& algorithm_file) {
  const FlightRecorder::Scope scope(groups_.recorder_of_own_work(), "timing GEMM algorithms");
  std::vector<AnyOperation> operations;
  ParallelLayout layout = groups_.layout;
  for (layout.pp_rank = 0; layout.pp_rank < layout.pp_size; ++layout.pp_rank) {
    const std::vector<AnyOperation> of_stage = plan_step(options_, layout).operations;
    operations.insert(operations.end(), of_stage.begin(), of_stage.end());
  }
  return tune_with_file(backend_, operations, algorithm_file);
}

void Trainer::allocate() {
  allocate_without_tables();
  model_.fill_tables();
  optimizer_.fill_tables(global_block_numbers(table_, options_.shape, groups_.layout));
}

void Trainer::allocate_without_tables() {
  plan_.allocate(backend_);
  if (!workspace_.empty()) backend_.set_workspace(workspace_.data(), workspace_.num_bytes());
  model_.bind(table_, parameters_, gradients_);
  optimizer_.bind(parameters_, gradients_);
  reducer_.bind(gradients_);
  gatherer_.bind(parameters_);
  results_.bind();
  settled_ = backend_.create_event();
}

void Trainer::initialize_parameters() {
  std::vector<float> values;
  for (const Parameter& parameter : table_.all()) {
    values.resize(static_cast<size_t>(parameter.num_elements));
    initial_values(parameter, options_.shape.seed, values.data());
    if (!optimizer_.has_masters()) {
      const Tensor weight = ParameterTable::slice(parameters_, parameter);
      backend_.copy(weight.data(), values.data(), weight.num_bytes(), Stream::kCompute);
      continue;
    }
    for (const Optimizer::Piece& piece : optimizer_.pieces_of(parameter, parameter.num_elements)) {
      const Tensor master = optimizer_.master_of(piece);
      backend_.copy(master.data(), values.data() + piece.first, master.num_bytes(),
                    Stream::kCompute);
    }
  }
  backend_.run(Zero{.out = optimizer_.exp_avg()});
  // Under Muon a rank may update matrices alone.
  if (optimizer_.exp_avg_sq()) backend_.run(Zero{.out = optimizer_.exp_avg_sq()});
  set_scalar_state({});
  parameters_loaded();
}

void Trainer::parameters_loaded() {
  model_.linears().weights_changed();
  optimizer_.parameters_from_masters(gatherer_);
  finish_gathering();
}

// --- steps ---

bool Trainer::step(const GlobalBatch& batch, const StepOptions& options) {
  const FlightRecorder::Scope scope(groups_.recorder_of_own_work(), "a step");
  num_loss_tokens_ = options.num_loss_tokens;
  results_.begin(
      batch.num_micro_batches,
      {.training = true, .params_norm = options.params_norm, .fp8_errors = options.fp8_errors});
  run_micro_batches(batch, /*training=*/true, /*timed=*/true);
  num_loss_tokens_.reset();
  if (options.fp8_errors) {
    // A rank has its layers and its part of each; sums over all ranks tell the last one of all.
    for (Communicator* group : {groups_.tensor.get(), groups_.data.get(), groups_.pipeline.get()})
      group->all_reduce(results_.fp8_errors(), Reduce::kSum, Stream::kCompute);
  }
  const Tensor norm_and_clip = results_.norm_and_clip();
  optimizer_.gradient_norm(norm_and_clip, loss_scale());
  const StepOutcome outcome = judge_.may_skip_steps() ? judge() : StepOutcome{};
  // This comes before the update, whose gathers of weights run on beside the next forward: a
  // reduction behind them in their communicator would wait for all of them.
  model_.linears().end_step(*groups_.tensor, *groups_.data);
  if (scalars_.fp8_scaling) scalars_.fp8_scaling->steps = model_.linears().num_steps();
  if (!outcome.skipped)
    optimizer_.update(
        norm_and_clip,
        {.learning_rate = options.learning_rate,
         .weight_decay = options.weight_decay.value_or(options_.optimizer.weight_decay),
         .of_word_tables = options.decoupled_learning_rate},
        ++scalars_.adam_step, gatherer_);
  if (options.params_norm) {
    optimizer_.parameters_sum_of_squares(results_.params_sum_of_squares());
  }
  results_.end(outcome);
  count(batch);
  return !outcome.skipped;
}

void Trainer::pass_over(const GlobalBatch& batch) { count(batch); }

void Trainer::count(const GlobalBatch& batch) {
  scalars_.iteration += 1;
  scalars_.consumed_tokens += batch.num_new_tokens;
  scalars_.consumed_samples +=
      batch.num_micro_batches * options_.shape.micro_batch_size * groups_.layout.dp_size;
}

// Waits for the norm and the loss, which all ranks have alike.
StepOutcome Trainer::judge() {
  results_.copy_norm_and_loss();
  backend_.record(settled_, Stream::kCompute);
  groups_.wait_for(backend_, settled_);  // no more: another stream may copy a checkpoint still
  const auto [norm, loss] = results_.norm_and_loss();
  return judge_.judge(norm, loss, scalars_);
}

void Trainer::evaluate(const GlobalBatch& batch) {
  const FlightRecorder::Scope scope(groups_.recorder_of_own_work(), "an evaluation");
  results_.begin(batch.num_micro_batches, {});
  run_micro_batches(batch, /*training=*/false, /*timed=*/true);
  results_.end();
}

double Trainer::forward_backward(const GlobalBatch& batch) {
  run_micro_batches(batch, /*training=*/true, /*timed=*/false);
  float loss = 0;
  backend_.copy(&loss, results_.loss().data(), sizeof loss, Stream::kCompute);
  backend_.synchronize();
  return loss;
}

void Trainer::run_micro_batches(const GlobalBatch& batch, bool training, bool timed) {
  const ParallelLayout& layout = groups_.layout;
  const int64_t num = batch.num_micro_batches;
  const bool keeps_samples = timed && results_.keeps_samples();
  if (training && pipeline_slots(layout.pp_rank, pipeline_, num) > model_.num_slots())
    throw std::logic_error("trainer: a batch has more micro-batches than were planned");
  batches_.begin(batch);
  model_.set_sequence_length(batch.seq_length > 0 ? batch.seq_length : options_.shape.seq_length);
  const std::vector<PipelineWork> order =
      training ? pipeline_order(layout.pp_rank, pipeline_, num)
               : pipeline_order_of_evaluation(layout.pp_rank, pipeline_, num);
  for (const PipelineWork& work : order) {
    using Kind = PipelineWork::Kind;
    if (work.kind == Kind::kForward && backend_.kind() == DeviceKind::kCpu)
      micro_batches_begun_ = MicroBatchCount{static_cast<int32_t>(work.item.micro_batch + 1),
                                             static_cast<int32_t>(num)};
    if (work.kind == Kind::kExchange)
      exchange_between_stages(work, groups_, model_, options_.scatters_between_stages);
    if (work.kind == Kind::kForward) forward(batch, work.item, training, timed);
    if (work.kind == Kind::kBackward) backward(batch, work.item);
    if (timed) results_.work_done(work.kind);
  }
  micro_batches_begun_ = MicroBatchCount{};
  if (training) reducer_.finish();
  share_losses(keeps_samples);
  // The sums over stages wait for the stage that ends last.
  if (timed && layout.pp_size > 1) results_.work_done(PipelineWork::Kind::kExchange);
}

MicroBatch Trainer::micro_batch_at(const GlobalBatch& batch, const PipelineItem& item) const {
  MicroBatch micro_batch = batches_.micro_batch(batch, item, model_.chunk(item.chunk));
  micro_batch.iteration = scalars_.iteration;
  micro_batch.recorder = groups_.recorder_of_own_work();
  // Megatron's order: micro-batch i is the i-th run of B * DP consecutive samples, of which rank r
  // takes the r-th B.
  const ParallelLayout& layout = groups_.layout;
  micro_batch.first_sample =
      (item.micro_batch * layout.dp_size + layout.dp_rank) * options_.shape.micro_batch_size;
  return micro_batch;
}

void Trainer::forward(const GlobalBatch& batch, const PipelineItem& item, bool training,
                      bool timed) {
  batches_.copy_to_device(batch, item, model_.chunk(item.chunk));
  MicroBatch micro_batch = micro_batch_at(batch, item);
  if (timed) micro_batch.fp8_errors = results_.fp8_errors();
  model_.forward(micro_batch, training, &gatherer_);
  if (!model_.chunk(item.chunk).has_head) return;
  const int64_t micro_batch_idx = item.micro_batch;
  const double mask_sum = batch.loss_mask ? batch.mask_sums[micro_batch_idx]
                                          : static_cast<double>(batches_.num_targets());
  // Losses and gradients are summed over micro-batches and data-parallel ranks: each micro-batch
  // has an equal share of the mean.
  const auto num_shares = static_cast<double>(batch.num_micro_batches * groups_.layout.dp_size);
  const auto scale = static_cast<float>(1.0 / num_loss_tokens_.value_or(mask_sum * num_shares));
  // Logits in chunks add to the gradient of the head's weights here already.
  if (training && options_.logits_chunk > 0) wait_for_readers_of_state();
  model_.loss(results_.loss(), micro_batch,
              {.scale = scale,
               .accumulate = micro_batch_idx > 0,
               .has_gradient = training,
               .gradient_scale = static_cast<float>(scale * loss_scale())});
  if (timed && results_.keeps_samples())
    model_.sample_losses(results_.losses_of_micro_batch(micro_batch_idx), micro_batch);
}

void Trainer::wait_for_readers_of_state() {
  if (state_is_read_until_) backend_.wait(Stream::kCompute, *state_is_read_until_);
  state_is_read_until_.reset();
}

// The last micro-batch leaves the chunks of a rank in the order of the arena, the last chunk first.
void Trainer::backward(const GlobalBatch& batch, const PipelineItem& item) {
  wait_for_readers_of_state();
  const bool is_last = item.micro_batch + 1 == batch.num_micro_batches;
  if (is_last && item.chunk + 1 == pipeline_.num_chunks) reducer_.begin();
  model_.backward(micro_batch_at(batch, item), /*accumulate=*/item.micro_batch > 0,
                  is_last ? &reducer_ : nullptr);
}

// Sums the losses over data-parallel ranks and tells them to all stages.
void Trainer::share_losses(bool keeps_samples) {
  const ParallelLayout& layout = groups_.layout;
  if (model_.has_head()) {
    groups_.data->all_reduce(results_.loss(), Reduce::kSum, Stream::kCompute);
    // No part of that sum, whose rounding may follow the size of the message.
    if (keeps_samples) {
      groups_.data->all_gather(results_.losses_of_all_ranks(), results_.losses_of_rank(),
                               Stream::kCompute);
    }
  }
  if (layout.pp_size == 1) return;
  groups_.pipeline->broadcast(results_.loss(), layout.pp_size - 1, Stream::kCompute);
  if (keeps_samples) {
    groups_.pipeline->broadcast(results_.losses_of_all_ranks(), layout.pp_size - 1,
                                Stream::kCompute);
  }
}

void Trainer::finish_gathering() {
  gatherer_.wait_for_all();
  backend_.record(settled_, Stream::kCompute);
  groups_.wait_for(backend_, settled_);
}

StepResult Trainer::result() {
  groups_.wait_for(backend_, results_.oldest_is_here());
  StepResult result = results_.take();
  const bool is_finite = std::isfinite(result.loss) && std::isfinite(result.grad_norm);
  if (!is_finite && !judge_.may_skip_steps()) result.outcome.bad_steps_in_row = 1;
  return result;
}

// --- state ---

void Trainer::set_scalar_state(const ScalarState& scalars) {
  scalars_ = scalars;
  judge_.begin(scalars_);
  scalars_.fp8_scaling = fp8_scaling_from(scalars.fp8_scaling, options_.shape.fp8);
  if (scalars_.fp8_scaling) model_.linears().set_num_steps(scalars_.fp8_scaling->steps);
}

Tensor Trainer::gradient(const Parameter& parameter) const {
  return ParameterTable::slice(gradients_, parameter);
}

Tensor Trainer::weight(const Parameter& parameter) {
  gatherer_.wait_for_all();
  return ParameterTable::slice(parameters_, parameter);
}

std::vector<StateTensor> Trainer::tensors_to_load(bool optimizer) {
  std::vector<StateTensor> tensors = state_tensors(optimizer);
  if (!scalars_.fp8_scaling || scalars_.fp8_scaling->steps == 0) {
    std::erase_if(tensors, [](const StateTensor& t) { return t.name.starts_with("fp8/"); });
  }
  return tensors;
}

std::vector<StateTensor> Trainer::state_tensors(bool optimizer) {
  gatherer_.wait_for_all();
  optimizer_.join_masters();
  std::vector<StateTensor> tensors = weight_tensors(table_, parameters_, optimizer_);
  if (!optimizer) return tensors;
  const bool has_fp8_state = options_.shape.fp8 && options_.shape.fp8->is_delayed;
  if (has_fp8_state) add_fp8_scaling(model_, pipeline_.num_chunks, tensors);
  add_moments(table_, optimizer_, tensors);
  return tensors;
}

}  // namespace weft
