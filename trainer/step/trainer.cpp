#include "trainer/step/trainer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <stdexcept>
#include <vector>

#include "kernels/cuda_scratch.h"
#include "trainer/step/planned_step.h"

namespace weft {
namespace {

// Sequence parallelism: each tensor-parallel rank sums over its rows what all of them hold whole.
ArenaRange partial_gradients(const ParallelLayout& layout, const ParameterTable& table) {
  if (layout.num_row_shares() == 1) return {};
  return {table.replicated_begin(), table.arena_elements() - table.replicated_begin()};
}

int64_t num_layers_with_errors(const ModelShape& shape) {
  return shape.fp8 && shape.fp8->measures_errors ? shape.num_layers : 0;
}

PipelineShape pipeline_shape(const TrainerOptions& options, const ParallelLayout& layout) {
  const int64_t group = options.micro_batch_group_size;
  return {layout.pp_size, layout.num_chunks, group > 0 ? group : layout.pp_size};
}

int64_t workspace_bytes_of(const Backend& backend, const TrainerOptions& options,
                           const ParallelLayout& layout) {
  const std::vector<AnyOperation> operations = plan_step(options, layout).operations;
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
      results_(backend,
               {.most = options.num_sample_losses,
                .micro_batch_size = options.shape.micro_batch_size,
                .dp_rank = groups.layout.dp_rank,
                .dp_size = groups.layout.dp_size},
               num_layers_with_errors(options.shape)) {
  const int64_t B = options.shape.micro_batch_size, T = options.shape.seq_length;
  const int64_t n = shards_.padded_elements();
  plan_.add(MemoryClass::kParameters, "parameters", &parameters_, options.shape.dtype, {n});
  plan_.add(MemoryClass::kGradients, "gradients", &gradients_, DType::kFloat32, {n});
  if (workspace_bytes > 0) {
    plan_.add(MemoryClass::kWorkspace, "workspace", &workspace_, DType::kUInt8, {workspace_bytes});
  }
  const bool has_head = model_.has_head();
  tokens_.resize(static_cast<size_t>(
      pipeline_embedding_slots(groups.layout.pp_rank, pipeline_, options.most_micro_batches)));
  for (Tensor& tokens : tokens_)
    plan_.add(MemoryClass::kBatch, "tokens", &tokens, DType::kInt32, {B, T});
  if (has_head) plan_.add(MemoryClass::kBatch, "targets", &targets_, DType::kInt32, {B, T});
  if (has_head && options.has_loss_mask) {
    plan_.add(MemoryClass::kBatch, "loss mask", &loss_mask_, DType::kFloat32, {B, T});
  }
  if (options.shape.needs_document_bounds()) {
    document_bounds_.resize(static_cast<size_t>(model_.num_slots()));
    for (Tensor& bounds : document_bounds_)
      plan_.add(MemoryClass::kBatch, "document bounds", &bounds, DType::kInt32, {B, T, 2});
  }
  results_.plan(plan_);
}

// All stages time the products of all of them: the first rank's table is the run's, and checkpoints
// hold it.
std::string Trainer::tune() {
  const FlightRecorder::Scope scope(groups_.recorder_of_own_work(), "timing GEMM algorithms");
  std::vector<AnyOperation> operations;
  ParallelLayout layout = groups_.layout;
  for (layout.pp_rank = 0; layout.pp_rank < layout.pp_size; ++layout.pp_rank) {
    const std::vector<AnyOperation> of_stage = plan_step(options_, layout).operations;
    operations.insert(operations.end(), of_stage.begin(), of_stage.end());
  }
  return backend_.tune(operations);
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
  backend_.run(Zero{.out = optimizer_.exp_avg_sq()});
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
  results_.begin(
      batch.num_micro_batches,
      {.training = true, .params_norm = options.params_norm, .fp8_errors = options.fp8_errors});
  run_micro_batches(batch, /*training=*/true, /*timed=*/true);
  if (options.fp8_errors) share_fp8_errors();
  const Tensor norm_and_clip = results_.norm_and_clip();
  optimizer_.gradient_norm(norm_and_clip, loss_scale());
  const StepOutcome outcome = may_skip_steps() ? judge() : StepOutcome{};
  // This comes before the update, whose gathers of weights run on beside the next forward: a
  // reduction behind them in their communicator would wait for all of them.
  model_.linears().end_step(*groups_.tensor, *groups_.data);
  if (scalars_.fp8_scaling) scalars_.fp8_scaling->steps = model_.linears().num_steps();
  if (!outcome.skipped)
    optimizer_.update(norm_and_clip, options.learning_rate, ++scalars_.adam_step, gatherer_);
  if (options.params_norm) {
    optimizer_.parameters_sum_of_squares(results_.params_sum_of_squares());
  }
  results_.end(outcome);
  scalars_.iteration += 1;
  scalars_.consumed_tokens += batch.num_new_tokens;
  scalars_.consumed_samples +=
      batch.num_micro_batches * options_.shape.micro_batch_size * groups_.layout.dp_size;
  return !outcome.skipped;
}

// Waits for the norm and the loss, which all ranks have alike, decides whether the step may update
// the weights, and moves the loss's factor. An overflow that lowers it is no bad step: the next one
// may be good. [Megatron-LM megatron/core/optimizer/optimizer.py,
// MixedPrecisionOptimizer.prepare_grads]
StepOutcome Trainer::judge() {
  results_.copy_norm_and_loss();
  backend_.record(settled_, Stream::kCompute);
  groups_.wait_for(backend_, settled_);  // no more: another stream may copy a checkpoint still
  const auto [norm, loss] = results_.norm_and_loss();
  const bool overflows = !std::isfinite(norm);
  const bool has_loss = std::isfinite(loss);
  bool is_bad = overflows || !has_loss;
  StepOutcome outcome{.skipped = is_bad};
  if (scalars_.loss_scale) {
    is_bad = overflows ? is_exhausted(*options_.loss_scale, *scalars_.loss_scale) : !has_loss;
    scalars_.loss_scale = loss_scale_after(*options_.loss_scale, *scalars_.loss_scale, overflows);
  }
  scalars_.skipped_steps += outcome.skipped ? 1 : 0;
  scalars_.bad_steps_in_row = is_bad ? scalars_.bad_steps_in_row + 1 : 0;
  outcome.loss_scale = loss_scale();
  outcome.bad_steps_in_row = scalars_.bad_steps_in_row;
  return outcome;
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

// Batches of shorter sequences lie at the beginnings of the buffers.
void Trainer::set_sequence_length(const GlobalBatch& batch) {
  const int64_t B = options_.shape.micro_batch_size;
  const int64_t T = batch.seq_length > 0 ? batch.seq_length : options_.shape.seq_length;
  model_.set_sequence_length(T);
  const auto shorten = [&](Tensor& tensor) {
    if (tensor) tensor = Tensor(tensor.data(), tensor.dtype(), {B, T});
  };
  for (Tensor& tokens : tokens_) shorten(tokens);
  shorten(targets_);
  shorten(loss_mask_);
  for (Tensor& bounds : document_bounds_) bounds = Tensor(bounds.data(), DType::kInt32, {B, T, 2});
}

void Trainer::run_micro_batches(const GlobalBatch& batch, bool training, bool timed) {
  set_sequence_length(batch);
  const ParallelLayout& layout = groups_.layout;
  const int64_t num = batch.num_micro_batches;
  const bool keeps_samples = timed && results_.keeps_samples();
  if (training && pipeline_slots(layout.pp_rank, pipeline_, num) > model_.num_slots())
    throw std::logic_error("trainer: a batch has more micro-batches than were planned");
  if (!document_bounds_.empty() && batch.document_bounds == nullptr)
    throw std::logic_error("trainer: a batch does not tell the documents that the model needs");
  if (model_.has_head() && batch.loss_mask != nullptr && loss_mask_.empty())
    throw std::logic_error("trainer: a batch has a loss mask, and none was planned");
  const std::vector<PipelineWork> order =
      training ? pipeline_order(layout.pp_rank, pipeline_, num)
               : pipeline_order_of_evaluation(layout.pp_rank, pipeline_, num);
  for (const PipelineWork& work : order) {
    using Kind = PipelineWork::Kind;
    if (work.kind == Kind::kExchange) exchange(work);
    if (work.kind == Kind::kForward) forward(batch, work.item, training, timed);
    if (work.kind == Kind::kBackward) backward(batch, work.item);
    if (timed) results_.work_done(work.kind);
  }
  if (training) reducer_.finish();
  share_losses(keeps_samples);
  // The sums over stages wait for the stage that ends last.
  if (timed && layout.pp_size > 1) results_.work_done(PipelineWork::Kind::kExchange);
}

void Trainer::forward(const GlobalBatch& batch, const PipelineItem& item, bool training,
                      bool timed) {
  micro_batch_to_device(batch, item);
  MicroBatch micro_batch = micro_batch_at(batch, item);
  if (timed) micro_batch.fp8_errors = results_.fp8_errors();
  model_.forward(micro_batch, training, &gatherer_);
  if (!model_.chunk(item.chunk).has_head) return;
  const int64_t micro_batch_idx = item.micro_batch;
  const double mask_sum = batch.loss_mask ? batch.mask_sums[micro_batch_idx]
                                          : static_cast<double>(targets_.num_elements());
  // Losses and gradients are summed over micro-batches and data-parallel ranks: each micro-batch
  // has an equal share of the mean.
  const auto num_shares = static_cast<double>(batch.num_micro_batches * groups_.layout.dp_size);
  const auto scale = static_cast<float>(1.0 / (mask_sum * num_shares));
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

// With sequence parallelism the ranks of a stage hold different rows, else all hold the same
// numbers. [Narayanan et al. 2021, arXiv:2104.04473, section 4.1: scatter/gather]
Tensor Trainer::exchanged_part(Tensor whole) const {
  const int64_t tp_size = groups_.layout.num_row_shares() > 1 ? 1 : groups_.layout.tp_size;
  if (!options_.scatters_between_stages || tp_size == 1 || whole.num_elements() % tp_size != 0)
    return whole;
  const int64_t count = whole.num_elements() / tp_size;
  return range_of(whole, {groups_.layout.tp_rank * count, count});
}

// The ranks of a pipeline group are its stages. Interleaved, they are a ring. Two stages may then
// send each other two tensors at once, which a communicator matches by their order: activations
// come first. The tensor-parallel ranks of a stage exchange at the same place of their order, so
// all gather what has arrived in the same order.
void Trainer::exchange(const PipelineWork& work) {
  const int p = pipeline_.pp_size, rank = groups_.layout.pp_rank;
  const int before = (rank + p - 1) % p, after = (rank + 1) % p;
  std::array<Transfer, 4> transfers;
  size_t count = 0;
  std::array<Tensor, 2> received;
  size_t num_received = 0;
  const auto add = [&](Tensor tensor, int peer, bool sends) {
    transfers[count++] = {exchanged_part(tensor), peer, sends};
    if (!sends) received[num_received++] = tensor;
  };
  const PipelineItem &input = work.receives_input, &gradient = work.receives_gradient;
  if (input.is_there()) add(model_.input(input.slot), before, false);
  if (work.sends_output.is_there()) add(model_.output(), after, true);
  if (gradient.is_there()) add(model_.output_gradient(gradient.gradient_slot), after, false);
  if (work.sends_gradient.is_there()) add(model_.input_gradient(), before, true);
  groups_.pipeline->exchange(std::span(transfers).first(count), Stream::kCompute);
  for (const Tensor& whole : std::span(received).first(num_received)) {
    const Tensor part = exchanged_part(whole);
    if (part.num_elements() == whole.num_elements()) continue;
    groups_.tensor->all_gather(whole, part, Stream::kCompute);
  }
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

// A rank has its layers and its part of each; sums over all ranks tell the last one of all.
void Trainer::share_fp8_errors() {
  for (Communicator* group : {groups_.tensor.get(), groups_.data.get(), groups_.pipeline.get()})
    group->all_reduce(results_.fp8_errors(), Reduce::kSum, Stream::kCompute);
}

// Copies on the compute stream: half a megabyte takes microseconds, and by stream order the buffers
// are free again. Stages between the first and the last need no tokens, at most the bounds of
// documents.
void Trainer::micro_batch_to_device(const GlobalBatch& batch, const PipelineItem& item) {
  const auto copy = [&](Tensor to, const auto* from) {
    backend_.copy(to.data(), from + item.micro_batch * to.num_elements(), to.num_bytes(),
                  Stream::kCompute);
  };
  const auto slot = static_cast<size_t>(item.slot);
  const Chunk& chunk = model_.chunk(item.chunk);
  if (chunk.has_embedding) copy(tokens_[static_cast<size_t>(item.embedding_slot)], batch.tokens);
  if (!document_bounds_.empty()) copy(document_bounds_[slot], batch.document_bounds);
  if (!chunk.has_head) return;
  copy(targets_, batch.targets);
  if (batch.loss_mask) copy(loss_mask_, batch.loss_mask);
}

MicroBatch Trainer::micro_batch_at(const GlobalBatch& batch, const PipelineItem& item) const {
  MicroBatch micro_batch;
  micro_batch.chunk = item.chunk;
  micro_batch.slot = item.slot;
  micro_batch.gradient_slot = item.gradient_slot;
  micro_batch.embedding_slot = item.embedding_slot;
  if (model_.chunk(item.chunk).has_embedding)
    micro_batch.tokens = tokens_[static_cast<size_t>(micro_batch.embedding_slot)];
  micro_batch.targets = targets_;
  if (batch.loss_mask) micro_batch.loss_mask = loss_mask_;
  if (!document_bounds_.empty())
    micro_batch.document_bounds = document_bounds_[static_cast<size_t>(micro_batch.slot)];
  micro_batch.iteration = scalars_.iteration;
  micro_batch.recorder = groups_.recorder_of_own_work();
  // Megatron's order: micro-batch i is the i-th run of B * DP consecutive samples, of which rank r
  // takes the r-th B.
  const ParallelLayout& layout = groups_.layout;
  micro_batch.first_sample =
      (item.micro_batch * layout.dp_size + layout.dp_rank) * options_.shape.micro_batch_size;
  return micro_batch;
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
  if (!is_finite && !may_skip_steps()) result.outcome.bad_steps_in_row = 1;
  return result;
}

// --- state ---

void Trainer::set_scalar_state(const ScalarState& scalars) {
  scalars_ = scalars;
  const bool is_dynamic = options_.loss_scale && !options_.loss_scale->constant;
  if (!may_skip_steps()) scalars_.bad_steps_in_row = 0;
  if (!is_dynamic) {
    scalars_.loss_scale.reset();
  } else if (!scalars_.loss_scale) {
    scalars_.loss_scale = initial_loss_scale(*options_.loss_scale);
  }
  set_fp8_scaling_state();
}

// Histories of another length are of no use, nor are scales for another format: they begin anew.
void Trainer::set_fp8_scaling_state() {
  const std::optional<Fp8Options>& fp8 = options_.shape.fp8;
  if (!fp8 || !fp8->is_delayed) {
    scalars_.fp8_scaling.reset();
    return;
  }
  const Fp8ScalingState anew{.amax_history_len = fp8->amax_history_len,
                             .is_hybrid = fp8->gradients == DType::kFloat8E5M2};
  const auto& saved = scalars_.fp8_scaling;
  if (!saved || saved->amax_history_len != anew.amax_history_len ||
      saved->is_hybrid != anew.is_hybrid)
    scalars_.fp8_scaling = anew;
  model_.linears().set_num_steps(scalars_.fp8_scaling->steps);
}

double Trainer::loss_scale() const {
  if (!options_.loss_scale) return 1;
  return options_.loss_scale->constant ? *options_.loss_scale->constant
                                       : scalars_.loss_scale->scale;
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

void Trainer::add_fp8_scaling(std::vector<StateTensor>& tensors) {
  if (!options_.shape.fp8 || !options_.shape.fp8->is_delayed) return;
  int64_t layer = 0;
  for (int64_t idx = 0; idx < pipeline_.num_chunks; ++idx) {
    const Chunk& chunk = model_.chunk(idx);
    for (int64_t i = 0; i < chunk.num_layers; ++i) {
      const std::string prefix = "fp8/decoder.layers." + std::to_string(chunk.first_layer + i);
      const LinearLayers::State state = model_.linears().state_of(layer++);
      const auto add = [&](const char* name, Tensor rows) {
        tensors.push_back({prefix + name,
                           {rows.shape(0), rows.shape(1)},
                           -1,
                           0,
                           0,
                           range_of(rows, {0, rows.num_elements()})});
      };
      add(".forward", state.forward);
      add(".gradients", state.gradients);
    }
  }
}

std::vector<StateTensor> Trainer::state_tensors(bool optimizer) {
  gatherer_.wait_for_all();
  optimizer_.join_masters();
  std::vector<StateTensor> tensors;
  for (const Parameter& p : table_.all()) {
    if (p.num_own == 0) continue;  // the words of a rank may all be padding
    tensors.push_back({"model/" + p.name, p.global_shape, p.split_dim, p.begin, p.end,
                       range_of(parameters_, {p.arena_offset, p.num_own})});
  }
  const auto add = [&](const std::string& prefix, const auto& place_of) {
    for (const Parameter& p : table_.all()) {
      for (const Optimizer::Piece& piece : optimizer_.pieces_of(p, p.num_own)) {
        tensors.push_back({prefix + p.name, p.global_shape, p.split_dim, p.begin, p.end,
                           place_of(piece), piece.first});
      }
    }
  };
  using Piece = Optimizer::Piece;
  if (optimizer_.has_masters())
    add("optimizer/master/", [&](const Piece& piece) { return optimizer_.master_of(piece); });
  if (!optimizer) return tensors;
  add_fp8_scaling(tensors);
  add("optimizer/exp_avg/",
      [&](const Piece& piece) { return range_of(optimizer_.exp_avg(), piece.state); });
  add("optimizer/exp_avg_sq/",
      [&](const Piece& piece) { return range_of(optimizer_.exp_avg_sq(), piece.state); });
  return tensors;
}

}  // namespace weft
