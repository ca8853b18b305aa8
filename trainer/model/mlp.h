// The feed-forward block of a layer: fc1, its activation or a gated linear unit, and fc2.
#pragma once

#include "kernels/backend.h"
#include "trainer/model/layer.h"

namespace weft {

class Mlp {
 public:
  // All references must outlive this.
  Mlp(Backend& backend, const LocalShape& shape, LinearLayers& linears, ResidualStream& stream)
      : backend_(backend), shape_(shape), linears_(linears), stream_(stream) {}

  // Computes the branch of the normalised input or, without `computes_branch`, only what backward
  // needs.
  void forward(const Layer& layer, const LinearLayers::Input& input, bool computes_branch);
  // Computes again what is not kept, from the norm's output.
  void recompute(const Layer& layer, const RecomputeOptions& options);
  // Turns the gradient of the branch into that of the norm's output, and computes those of the
  // weights. The outputs of the norm, fc1 and the activation must be there.
  void backward(const Layer& layer, bool accumulate);

 private:
  void compute_fc1(const Layer& layer, const LinearLayers::Input& input);
  void activate(const LayerActivations& a);
  // Returns the input of fc2.
  LinearLayers::Input activated(const LayerActivations& a) const {
    if (a.fc1) return {.rows = a.fc1};
    return {.pre = a.fc1_pre, .activation = shape_.model.activation};
  }

  Backend& backend_;
  const LocalShape& shape_;
  LinearLayers& linears_;
  ResidualStream& stream_;
};

}  // namespace weft
