// One transformer layer in one micro-batch: what the functions of its blocks read and write.
#pragma once

#include <cstdint>

#include "trainer/model/activations.h"
#include "trainer/model/linear_layers.h"
#include "trainer/model/micro_batch.h"
#include "trainer/model/parameters.h"
#include "trainer/model/residual_stream.h"

namespace weft {

// The computation that a layer is part of. Computing it again belongs to backward. Forward leaves
// no fp8 inputs of a layer that is computed again.
enum class Phase { kEvaluation, kForward, kBackward };

struct Layer {
  int64_t number = 0;  // among all layers of the model
  const MicroBatch& batch;
  bool is_training = true;
  const LayerParameters& weights;
  const LayerParameters& gradients;
  LayerActivations activations;
  LinearLayers::Context qkv = {}, proj = {}, fc1 = {}, fc2 = {};

  ResidualStream::Norm norm1() const {
    const LayerActivations& a = activations;
    const LayerParameters &w = weights, &dw = gradients;
    return {a.residual,   a.ln1,      a.mean1,       a.rstd1,
            w.ln1_weight, w.ln1_bias, dw.ln1_weight, dw.ln1_bias};
  }
  ResidualStream::Norm norm2() const {
    const LayerActivations& a = activations;
    const LayerParameters &w = weights, &dw = gradients;
    return {a.residual_mid, a.ln2,      a.mean2,       a.rstd2,
            w.ln2_weight,   w.ln2_bias, dw.ln2_weight, dw.ln2_bias};
  }
};

}  // namespace weft
