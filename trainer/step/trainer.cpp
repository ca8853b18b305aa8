#include "trainer/step/trainer.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <stdexcept>

namespace weft {
namespace {

// The elements of results_, which the host reads after a step in one copy.
constexpr int64_t kNorm = 0, kClip = 1, kLoss = 2, kParamsSumOfSquares = 3, kNumResults = 4;
static_assert(kClip == kNorm + 1, "clip_coefficient writes the pair");

Tensor element(Tensor tensor, int64_t idx, int64_t count = 1) {
  return Tensor(tensor.as<float>() + idx, DType::kFloat32, {count});
}

}  // namespace

// The events of one step and the place of its results.
struct Trainer::ResultSlot {
  float* host = nullptr;  // kNumResults
  EventId begin = 0, updated = 0, copied = 0;
  std::vector<EventId> forward_done, backward_done;  // per micro-batch
  int64_t num_micro_batches = 0;
  bool training = false, params_norm = false;
};

Trainer::Trainer(Backend& backend, const TrainerOptions& options)
    : backend_(backend),
      options_(options),
      tensor_parallel_(create_self_communicator()),
      table_(options.shape, options.layout),
      model_(backend, *tensor_parallel_, options.shape, options.layout, plan_),
      optimizer_(backend, *tensor_parallel_, table_, options.shape.dtype, options.optimizer,
                 plan_) {
  const int64_t B = options.shape.micro_batch_size, T = options.shape.seq_length;
  const int64_t n = table_.arena_elements();
  plan_.add(MemoryClass::kParameters, "parameters", &parameters_, options.shape.dtype, {n});
  plan_.add(MemoryClass::kGradients, "gradients", &gradients_, DType::kFloat32, {n});
  const int64_t workspace_bytes = backend.workspace_bytes(model_.workspace_shape(n));
  if (workspace_bytes > 0) {
    plan_.add(MemoryClass::kWorkspace, "workspace", &workspace_, DType::kUInt8, {workspace_bytes});
  }
  plan_.add(MemoryClass::kBatch, "tokens", &tokens_, DType::kInt32, {B, T});
  plan_.add(MemoryClass::kBatch, "targets", &targets_, DType::kInt32, {B, T});
  if (options.has_loss_mask) {
    plan_.add(MemoryClass::kBatch, "loss mask", &loss_mask_, DType::kFloat32, {B, T});
  }
  plan_.add(MemoryClass::kBatch, "results", &results_, DType::kFloat32, {kNumResults});
  plan_.add(MemoryClass::kPinnedHost, "results on the host", &host_results_, DType::kFloat32,
            {kResultsInFlight, kNumResults});
}

Trainer::~Trainer() = default;

void Trainer::allocate() {
  plan_.allocate(backend_);
  if (!workspace_.empty()) backend_.set_workspace(workspace_.data(), workspace_.num_bytes());
  model_.bind(table_, parameters_, gradients_);
  optimizer_.bind(parameters_, gradients_);
  for (int i = 0; i < kResultsInFlight; ++i) {
    auto slot = std::make_unique<ResultSlot>();
    slot->host = host_results_.as<float>() + i * kNumResults;
    slot->begin = backend_.create_event();
    slot->updated = backend_.create_event();
    slot->copied = backend_.create_event();
    slots_.push_back(std::move(slot));
  }
}

void Trainer::initialize_parameters() {
  std::vector<float> values;
  for (const Parameter& parameter : table_.all()) {
    values.resize(static_cast<size_t>(parameter.num_elements));
    initial_values(parameter, options_.shape.seed, values.data());
    const Tensor master = ParameterTable::slice(optimizer_.master(), parameter);
    backend_.copy(master.data(), values.data(), master.num_bytes(), Stream::kCompute);
  }
  backend_.zero(optimizer_.exp_avg());
  backend_.zero(optimizer_.exp_avg_sq());
  scalars_ = {};
  parameters_loaded();
}

void Trainer::parameters_loaded() {
  if (optimizer_.has_master()) backend_.cast(parameters_, optimizer_.master());
  backend_.synchronize();
}

// --- steps ---

void Trainer::step(const GlobalBatch& batch, const StepOptions& options) {
  ResultSlot& slot = begin_result(batch.num_micro_batches);
  slot.training = true;
  slot.params_norm = options.params_norm;
  run_micro_batches(batch, /*training=*/true, &slot);
  const Tensor norm_and_clip = element(results_, kNorm, 2);
  optimizer_.gradient_norm(norm_and_clip);
  optimizer_.update(norm_and_clip, options.learning_rate, ++scalars_.adam_step);
  if (options.params_norm) {
    optimizer_.parameters_sum_of_squares(element(results_, kParamsSumOfSquares));
  }
  end_result(slot);
  scalars_.iteration += 1;
  scalars_.consumed_samples +=
      batch.num_micro_batches * options_.shape.micro_batch_size * options_.layout.dp_size;
}

void Trainer::evaluate(const GlobalBatch& batch) {
  ResultSlot& slot = begin_result(batch.num_micro_batches);
  slot.training = slot.params_norm = false;
  run_micro_batches(batch, /*training=*/false, &slot);
  end_result(slot);
}

double Trainer::forward_backward(const GlobalBatch& batch) {
  run_micro_batches(batch, /*training=*/true, nullptr);
  float loss = 0;
  backend_.copy(&loss, element(results_, kLoss).data(), sizeof loss, Stream::kCompute);
  backend_.synchronize();
  return loss;
}

void Trainer::run_micro_batches(const GlobalBatch& batch, bool training, ResultSlot* slot) {
  const int64_t num = batch.num_micro_batches;
  const double num_tokens =
      static_cast<double>(options_.shape.micro_batch_size * options_.shape.seq_length);
  const Tensor loss = element(results_, kLoss);
  for (int64_t i = 0; i < num; ++i) {
    const bool accumulate = i > 0;
    micro_batch_to_device(batch, i);
    const MicroBatch micro_batch = micro_batch_at(batch, i);
    const double mask_sum = batch.loss_mask ? batch.mask_sums[i] : num_tokens;
    const auto scale = static_cast<float>(1.0 / (mask_sum * static_cast<double>(num)));
    // Gradients are summed over data-parallel ranks, each of which has its own mean.
    const float gradient_scale = scale / static_cast<float>(options_.layout.dp_size);
    model_.forward(micro_batch, training);
    model_.loss(loss, micro_batch, scale, accumulate, training, gradient_scale);
    if (slot) backend_.record(slot->forward_done[static_cast<size_t>(i)], Stream::kCompute);
    if (training) model_.backward(micro_batch, accumulate);
    if (slot) backend_.record(slot->backward_done[static_cast<size_t>(i)], Stream::kCompute);
  }
}

// Copies on the compute stream: half a megabyte takes microseconds, and by stream order the buffers
// are free again.
void Trainer::micro_batch_to_device(const GlobalBatch& batch, int64_t micro_batch_idx) {
  const int64_t offset = micro_batch_idx * tokens_.num_elements();
  backend_.copy(tokens_.data(), batch.tokens + offset, tokens_.num_bytes(), Stream::kCompute);
  backend_.copy(targets_.data(), batch.targets + offset, targets_.num_bytes(), Stream::kCompute);
  if (!batch.loss_mask) return;
  assert(!loss_mask_.empty());
  backend_.copy(loss_mask_.data(), batch.loss_mask + offset, loss_mask_.num_bytes(),
                Stream::kCompute);
}

MicroBatch Trainer::micro_batch_at(const GlobalBatch& batch, int64_t micro_batch_idx) const {
  MicroBatch micro_batch;
  micro_batch.tokens = tokens_;
  micro_batch.targets = targets_;
  if (batch.loss_mask) micro_batch.loss_mask = loss_mask_;
  micro_batch.iteration = scalars_.iteration;
  // Megatron's order: micro-batch i is the i-th run of B * DP consecutive samples, of which rank r
  // takes the r-th B.
  const ParallelLayout& layout = options_.layout;
  micro_batch.first_sample =
      (micro_batch_idx * layout.dp_size + layout.dp_rank) * options_.shape.micro_batch_size;
  return micro_batch;
}

// --- results ---

Trainer::ResultSlot& Trainer::begin_result(int64_t num_micro_batches) {
  assert(num_micro_batches > 0);
  if (results_begun_ - results_read_ >= kResultsInFlight) {
    throw std::logic_error("trainer: " + std::to_string(kResultsInFlight) +
                           " results are unread; call result() first");
  }
  ResultSlot& slot = *slots_[static_cast<size_t>(results_begun_++ % kResultsInFlight)];
  slot.num_micro_batches = num_micro_batches;
  while (static_cast<int64_t>(slot.forward_done.size()) < num_micro_batches) {
    slot.forward_done.push_back(backend_.create_event());
    slot.backward_done.push_back(backend_.create_event());
  }
  backend_.record(slot.begin, Stream::kCompute);
  return slot;
}

void Trainer::end_result(ResultSlot& slot) {
  backend_.record(slot.updated, Stream::kCompute);
  backend_.copy(slot.host, results_.data(), results_.num_bytes(), Stream::kCompute);
  backend_.record(slot.copied, Stream::kCompute);
}

StepResult Trainer::result() {
  if (results_read_ == results_begun_) {
    throw std::logic_error("trainer: result() without an unread step() or evaluate()");
  }
  const ResultSlot& slot = *slots_[static_cast<size_t>(results_read_++ % kResultsInFlight)];
  backend_.synchronize(slot.copied);
  StepResult result;
  result.loss = slot.host[kLoss];
  if (slot.training) result.grad_norm = slot.host[kNorm];
  if (slot.params_norm) result.params_norm = std::sqrt(slot.host[kParamsSumOfSquares]);
  EventId previous = slot.begin;
  for (size_t i = 0; i < static_cast<size_t>(slot.num_micro_batches); ++i) {
    result.forward_ms += backend_.elapsed_ms(previous, slot.forward_done[i]);
    result.backward_ms += backend_.elapsed_ms(slot.forward_done[i], slot.backward_done[i]);
    previous = slot.backward_done[i];
  }
  result.optimizer_ms = backend_.elapsed_ms(previous, slot.updated);
  return result;
}

// --- state ---

Tensor Trainer::gradient(const Parameter& parameter) const {
  return ParameterTable::slice(gradients_, parameter);
}

Tensor Trainer::weight(const Parameter& parameter) const {
  return ParameterTable::slice(parameters_, parameter);
}

std::vector<StateTensor> Trainer::state_tensors(bool optimizer) const {
  std::vector<StateTensor> tensors;
  const auto add = [&](const std::string& prefix, Tensor arena) {
    for (const Parameter& p : table_.all()) {
      const Tensor slice = ParameterTable::slice(arena, p);
      tensors.push_back({prefix + p.name, p.global_shape, p.split_dim, p.begin, p.end,
                         Tensor(slice.data(), slice.dtype(), {p.num_elements})});
    }
  };
  add("model/", parameters_);
  if (optimizer_.has_master()) add("optimizer/master/", optimizer_.master());
  if (!optimizer) return tensors;
  add("optimizer/exp_avg/", optimizer_.exp_avg());
  add("optimizer/exp_avg_sq/", optimizer_.exp_avg_sq());
  return tensors;
}

}  // namespace weft
