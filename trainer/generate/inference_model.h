// A model with its weights on a device, for forward passes alone: what generation and evaluation
// have in common.
#pragma once

#include <memory>

#include "trainer/model/model.h"
#include "trainer/model_tool/stored_model.h"

namespace weft {

// The weights of a model: on disk, or in memory where training keeps them.
struct InferenceWeights {
  ModelShape shape;               // with the type to compute in
  int64_t end_of_document = -1;   // as in RunVocabulary
  StoredModel* stored = nullptr;  // They are read from it,
  Tensor shared = {};  // or they are these: the arena of a rank that holds the whole model
};
InferenceWeights weights_of(StoredModel& stored, DType dtype);

// Returns the shape for forward passes over micro-batches of these sizes.
ModelShape inference_shape(const InferenceWeights& weights, int64_t micro_batch_size,
                           int64_t seq_length);

class InferenceModel {
 public:
  // Plans the model's buffers. Layers share their activations, because there is no backward. More
  // buffers may be added to plan() until allocate().
  InferenceModel(Backend& backend, const ModelShape& shape, ActivationOptions activations);

  MemoryPlan& plan() { return plan_; }
  // `workspace_bytes` serve all operations that will run. The weights get memory of their own
  // unless they are `shared`.
  void allocate(int64_t workspace_bytes, Tensor shared = {});
  // Reads the weights. Throws as StoredModel::read().
  void load(StoredModel& stored);

  const ModelShape& shape() const { return shape_; }
  Backend& backend() { return backend_; }
  Model* operator->() { return &model_; }

 private:
  Backend& backend_;
  ModelShape shape_;
  MemoryPlan plan_;
  ParameterTable table_;
  std::unique_ptr<Communicator> alone_;
  Model model_;
  Tensor parameters_, workspace_;
};

// Returns the type of weights that suits a device: bf16 on a GPU, where reading them takes most of
// the time, fp32 on a CPU.
DType inference_dtype(const Backend& backend);

}  // namespace weft
