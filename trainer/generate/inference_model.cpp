#include "trainer/generate/inference_model.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <future>
#include <thread>
#include <vector>

namespace weft {

namespace {

ActivationOptions without_backward(ActivationOptions activations) {
  activations.recompute = {.method = RecomputeOptions::Method::kUniform, .num_layers = 1};
  return activations;
}

}  // namespace

InferenceWeights weights_of(StoredModel& stored, DType dtype) {
  InferenceWeights weights{.shape = stored.shape(),
                           .end_of_document = stored.vocabulary().end_of_document,
                           .stored = &stored};
  weights.shape.dtype = dtype;
  return weights;
}

ModelShape inference_shape(const InferenceWeights& weights, int64_t micro_batch_size,
                           int64_t seq_length) {
  ModelShape shape = weights.shape;
  shape.micro_batch_size = micro_batch_size;
  shape.seq_length = seq_length;
  return shape;
}

InferenceModel::InferenceModel(Backend& backend, const ModelShape& shape,
                               ActivationOptions activations)
    : backend_(backend),
      shape_(shape),
      table_(shape, {}),
      alone_(create_self_communicator()),
      model_(backend, *alone_, shape, {}, without_backward(activations), plan_) {}

void InferenceModel::allocate(int64_t workspace_bytes, Tensor shared) {
  parameters_ = shared;
  if (!shared) {
    plan_.add(MemoryClass::kParameters, "parameters", &parameters_, shape_.dtype,
              {table_.arena_elements()});
  }
  if (workspace_bytes > 0)
    plan_.add(MemoryClass::kWorkspace, "workspace", &workspace_, DType::kUInt8, {workspace_bytes});
  plan_.allocate(backend_);
  if (workspace_) backend_.set_workspace(workspace_.data(), workspace_bytes);
  model_.bind(table_, parameters_, /*gradients=*/Tensor());
  model_.fill_tables();
}

// Threads read and convert the next parameters while this one copies.
void InferenceModel::load(StoredModel& stored) {
  const size_t most_ahead = std::clamp(std::thread::hardware_concurrency(), 1U, 16U);
  const std::vector<Parameter>& parameters = table_.all();
  const auto read = [&](const Parameter& parameter) {
    std::vector<char> values(
        static_cast<size_t>(ParameterTable::slice(parameters_, parameter).num_bytes()));
    stored.read(parameter, shape_.dtype, values.data());
    return values;
  };
  std::deque<std::future<std::vector<char>>> ahead;
  for (size_t i = 0; i < parameters.size(); ++i) {
    while (ahead.size() < most_ahead && i + ahead.size() < parameters.size()) {
      ahead.push_back(
          std::async(std::launch::async, read, std::cref(parameters[i + ahead.size()])));
    }
    const std::vector<char> values = ahead.front().get();
    ahead.pop_front();
    const Tensor weight = ParameterTable::slice(parameters_, parameters[i]);
    backend_.copy(weight.data(), values.data(), weight.num_bytes(), Stream::kCompute);
  }
  backend_.synchronize();
}

DType inference_dtype(const Backend& backend) {
  return backend.kind() == DeviceKind::kCuda ? DType::kBFloat16 : DType::kFloat32;
}

}  // namespace weft
