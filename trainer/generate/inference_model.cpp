#include "trainer/generate/inference_model.h"

#include <vector>

namespace weft {

namespace {

ActivationOptions without_backward(ActivationOptions activations) {
  activations.recompute = {.method = RecomputeOptions::Method::kUniform, .num_layers = 1};
  return activations;
}

}  // namespace

ModelShape inference_shape(const StoredModel& model, DType dtype, int64_t micro_batch_size,
                           int64_t seq_length) {
  ModelShape shape = model.shape();
  shape.dtype = dtype;
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
      model_(backend, *alone_, shape, {}, without_backward(activations), plan_) {
  plan_.add(MemoryClass::kParameters, "parameters", &parameters_, shape.dtype,
            {table_.arena_elements()});
}

void InferenceModel::allocate(int64_t workspace_bytes) {
  if (workspace_bytes > 0)
    plan_.add(MemoryClass::kWorkspace, "workspace", &workspace_, DType::kUInt8, {workspace_bytes});
  plan_.allocate(backend_);
  if (workspace_) backend_.set_workspace(workspace_.data(), workspace_bytes);
  model_.bind(table_, parameters_, /*gradients=*/Tensor());
  model_.fill_tables();
}

void InferenceModel::load(StoredModel& stored) {
  std::vector<char> values;
  for (const Parameter& parameter : table_.all()) {
    const Tensor weight = ParameterTable::slice(parameters_, parameter);
    values.assign(static_cast<size_t>(weight.num_bytes()), 0);
    stored.read(parameter, shape_.dtype, values.data());
    backend_.copy(weight.data(), values.data(), weight.num_bytes(), Stream::kCompute);
  }
  backend_.synchronize();
}

DType inference_dtype(const Backend& backend) {
  return backend.kind() == DeviceKind::kCuda ? DType::kBFloat16 : DType::kFloat32;
}

}  // namespace weft
