#include "trainer/model/mlp.h"

namespace weft {

void Mlp::forward(const Layer& layer, const LinearLayers::Input& input, bool computes_branch) {
  compute_fc1(layer, input);
  const LinearLayers::Input fc2_input = activated(layer.activations);
  if (!computes_branch) return linears_.keep_input(layer.fc2, fc2_input);
  linears_.forward(layer.fc2, stream_.partials_of(stream_.branch()), fc2_input,
                   layer.weights.fc2_weight, Tensor());
  stream_.sum_partials(stream_.branch());
}

// GELU's output that is not kept is made where products read it.
void Mlp::compute_fc1(const Layer& layer, const LinearLayers::Input& input) {
  const LayerActivations& a = layer.activations;
  const LayerParameters& w = layer.weights;
  if (shape_.has_glu()) {
    linears_.forward(layer.fc1, a.fc1_pre, input, w.fc1_weight, w.fc1_bias);
    activate(a);
  } else {
    linears_.gelu_forward(layer.fc1, a.fc1, a.fc1_pre, input, w.fc1_weight, w.fc1_bias,
                          shape_.model.activation);
  }
}

void Mlp::activate(const LayerActivations& a) {
  if (!a.fc1) return;
  if (shape_.has_glu()) {
    backend_.run(GluForward{.out = a.fc1, .pre = a.fc1_pre, .glu = shape_.model.glu});
  } else {
    backend_.run(
        ActivationForward{.out = a.fc1, .pre = a.fc1_pre, .activation = shape_.model.activation});
  }
}

void Mlp::recompute(const Layer& layer, const RecomputeOptions& options) {
  if (options.mlp) {
    compute_fc1(layer, {.rows = stream_.gather_rows(layer.activations.ln2)});
  } else if (options.recomputes_activation()) {
    activate(layer.activations);
  }
}

void Mlp::backward(const Layer& layer, bool accumulate) {
  const LayerActivations& a = layer.activations;
  const LayerParameters &w = layer.weights, &dw = layer.gradients;
  const ModelShape& m = shape_.model;
  const Tensor dbranch = stream_.gather_rows(stream_.dbranch());
  linears_.begin_backward(layer.fc2, {.dout = dbranch});
  linears_.backward_weight(layer.fc2, dw.fc2_weight, Tensor(), dbranch, activated(a), accumulate);
  // The sums for fc1's bias are left to the product for its weight, unless GELU's backward makes
  // them.
  Tensor fc1_dbias = dw.fc1_bias;
  if (shape_.has_glu()) {
    linears_.backward_input(layer.fc2, a.dglu, dbranch, w.fc2_weight);
    backend_.run(GluBackward{.dpre = a.dfc1_pre, .dout = a.dglu, .pre = a.fc1_pre, .glu = m.glu});
  } else if (linears_.gelu_backward_input(layer.fc2, a.dfc1_pre, dw.fc1_bias, dbranch, w.fc2_weight,
                                          a.fc1_pre, m.activation, accumulate)) {
    fc1_dbias = Tensor();
  }
  stream_.start_gathering_rows(a.ln2);
  linears_.begin_backward(layer.fc1, {.dout = a.dfc1_pre,
                                      .pre = shape_.has_glu() ? Tensor() : a.fc1_pre,
                                      .activation = m.activation,
                                      .dbias = dw.fc1_bias,
                                      .accumulate = accumulate});
  linears_.backward_input(layer.fc1, stream_.partials_of(stream_.dnormed()), a.dfc1_pre,
                          w.fc1_weight);
  stream_.start_summing_partials(stream_.dnormed());
  linears_.backward_weight(layer.fc1, dw.fc1_weight, fc1_dbias, a.dfc1_pre,
                           {.rows = stream_.gathered_rows(a.ln2)}, accumulate);
  stream_.wait_for_sums();
}

}  // namespace weft
