#include "trainer/model/linear_layers.h"

#include <algorithm>

#include "trainer/config/tensor_views.h"

namespace weft {
namespace {

constexpr const char* kNames[] = {"qkv", "proj", "fc1", "fc2"};
// A row of scales is a multiple of 16 bytes long, because products take them aligned.
constexpr int64_t kAligned = 4;
constexpr DType kE4M3 = DType::kFloat8E4M3;

Tensor view(Tensor memory, DType dtype, int64_t rows, int64_t columns) {
  return {memory.data(), dtype, {rows, columns}};
}

// Returns the scale {1 / scale, scale} at the beginning of a row.
Tensor scaling_in(Tensor table, int64_t row) { return range_of(table, row * table.shape(1), 2); }

}  // namespace

LinearLayers::LinearLayers(Backend& backend, const std::optional<Fp8Options>& fp8,
                           const Sizes& sizes, MemoryPlan& plan)
    : backend_(backend), fp8_(fp8), sizes_(sizes) {
  if (!fp8_ || sizes.num_layers == 0) return;
  weights_.resize(static_cast<size_t>(sizes.num_layers * kNum));
  int64_t widest_input = 0, widest_output = 0, widest_not_kept = 0;
  for (int64_t layer = 0; layer < sizes.num_layers; ++layer) {
    for (size_t name = 0; name < kNum; ++name) {
      Weight& weight = weights_[static_cast<size_t>(layer) * kNum + name];
      const int64_t O = sizes.outputs[name], I = sizes.inputs[name];
      const std::string of_layer = "layer " + std::to_string(layer) + " " + kNames[name] + " fp8";
      plan.add(MemoryClass::kParameters, of_layer, &weight.rows, kE4M3, {O, I});
      plan.add(MemoryClass::kParameters, of_layer + " transposed", &weight.transposed, kE4M3,
               {I, O});
      widest_input = std::max(widest_input, I);
      widest_output = std::max(widest_output, O);
      if (!sizes.keeps_inputs[name]) widest_not_kept = std::max(widest_not_kept, I);
    }
  }
  const DType f = DType::kFloat32;
  const int64_t L = sizes.num_layers;
  plan.add(MemoryClass::kParameters, "fp8 scales", &weight_scalings_, f, {L * kNum, kAligned});
  plan.add(MemoryClass::kScratch, "fp8 gradient scale", &gradient_scaling_, f, {2});
  if (fp8_->is_delayed) {
    const int64_t length = (2 + fp8_->amax_history_len + kAligned - 1) / kAligned * kAligned;
    plan.add(MemoryClass::kOptimizer, "fp8 scales", &forward_states_, f, {2 * kNum * L, length});
    plan.add(MemoryClass::kOptimizer, "fp8 scales", &gradient_states_, f, {kNum * L, length});
    plan.add(MemoryClass::kOptimizer, "fp8 amaxes", &amaxes_, f, {3 * kNum * L});
  }
  const auto scratch = [&](const char* name, Tensor* tensor, int64_t columns) {
    plan.add(MemoryClass::kScratch, name, tensor, DType::kUInt8, {sizes.num_rows * columns});
  };
  scratch("fp8 rows", &rows_, std::max(widest_input, widest_output));
  if (fp8_->measures_errors) {
    const auto add = [&](const char* name, Tensor* tensor, int64_t columns) {
      plan.add(MemoryClass::kScratch, name, tensor, DType::kBFloat16, {sizes.num_rows * columns});
    };
    add("bf16 products beside fp8", &bf16_out_, widest_output);
    if (!keeps_gelu() && !sizes.has_glu)
      add("bf16 inputs beside fp8", &bf16_inp_, sizes.inputs[kFc2]);
  }
  if (!fp8_->has_weight_gradients) return;
  scratch("fp8 dout transposed", &gradient_transposed_, widest_output);
  if (widest_not_kept > 0) scratch("fp8 inp transposed", &input_transposed_, widest_not_kept);
}

int64_t LinearLayers::row_of(Kind kind, const Context& context) const {
  if (kind == Kind::kGradient) return context.layer * kNum + context.name;
  return context.layer * 2 * kNum + (kind == Kind::kWeight ? kNum : 0) + context.name;
}

Tensor LinearLayers::scaling_of(Kind kind, const Context& context, Tensor own) const {
  if (!has_history()) return own;
  return scaling_in(kind == Kind::kGradient ? gradient_states_ : forward_states_,
                    row_of(kind, context));
}

// A weight counts in an evaluation, too, because the step after the evaluation takes the copy that
// was made there.
Tensor LinearLayers::amax_of(Kind kind, const Context& context) const {
  if (!fp8_->is_delayed || (!context.is_training && kind != Kind::kWeight)) return {};
  const int64_t first = kind == Kind::kGradient ? forward_states_.shape(0) : 0;
  return range_of(amaxes_, first + row_of(kind, context), 1);
}

Tensor LinearLayers::input_scaling(const Context& context) const {
  return scaling_of(Kind::kInput, context, scaling_in(context.input_scaling, context.name));
}

const LinearLayers::Weight& LinearLayers::quantized(const Context& context, Tensor weight) {
  const int64_t idx = context.layer * kNum + context.name;
  Weight& copy = weights_[static_cast<size_t>(idx)];
  if (!copy.is_stale) return copy;
  copy.is_stale = false;
  copy.scaling = scaling_of(Kind::kWeight, context, scaling_in(weight_scalings_, idx));
  backend_.run(Quantize{.rows = copy.rows,
                        .transposed = copy.transposed,
                        .scaling = copy.scaling,
                        .derives_scale = !has_history(),
                        .amax = amax_of(Kind::kWeight, context),
                        .inp = weight});
  return copy;
}

Fp8Output LinearLayers::fp8_input(const Context& context, int64_t num_rows) const {
  if (!fp8_ || !has_history() || context.error) return {};
  return {.rows = view(rows_, kE4M3, num_rows, sizes_.inputs[context.name]),
          .scaling = input_scaling(context),
          .amax = amax_of(Kind::kInput, context)};
}

void LinearLayers::forward(const Context& context, Tensor out, const Input& input, Tensor weight,
                           Tensor bias) {
  if (!fp8_)
    return backend_.run(
        LinearForward{.out = out, .inp = input.rows, .weight = weight, .bias = bias});
  const Weight& fp8_weight = quantized(context, weight);
  const Tensor inp = input.fp8 ? input.fp8 : view(rows_, kE4M3, num_rows(out), weight.shape(1));
  const Tensor scaling = input_scaling(context);
  if (input.fp8) {
    if (context.kept_input)
      backend_.run(TransposeFp8{.transposed = context.kept_input, .rows = inp});
  } else {
    backend_.run(Quantize{.rows = inp,
                          .transposed = context.kept_input,
                          .scaling = scaling,
                          .derives_scale = !has_history(),
                          .amax = amax_of(Kind::kInput, context),
                          .inp = input.rows,
                          .pre = input.pre,
                          .activation = input.activation});
  }
  backend_.run(Fp8Product{.out = out,
                          .a = inp,
                          .b = fp8_weight.rows,
                          .a_scaling = scaling,
                          .b_scaling = fp8_weight.scaling,
                          .bias = bias,
                          .sums_fast = true});
  if (context.error) add_error(context, out, input, weight, bias);
}

void LinearLayers::transpose_input(const Context& context, Tensor transposed, const Input& input) {
  backend_.run(Quantize{.transposed = transposed,
                        .scaling = input_scaling(context),
                        .inp = input.rows,
                        .pre = input.pre,
                        .activation = input.activation});
}

void LinearLayers::keep_input(const Context& context, const Input& input) {
  if (context.kept_input) transpose_input(context, context.kept_input, input);
}

void LinearLayers::gelu_forward(const Context& context, Tensor out, Tensor pre, const Input& input,
                                Tensor weight, Tensor bias, Activation activation) {
  if (!fp8_)
    return backend_.run(LinearActivationForward{.out = out,
                                                .pre = pre,
                                                .inp = input.rows,
                                                .weight = weight,
                                                .bias = bias,
                                                .activation = activation});
  forward(context, pre, input, weight, bias);
  if (out) backend_.run(ActivationForward{.out = out, .pre = pre, .activation = activation});
}

void LinearLayers::add_error(const Context& context, Tensor out, const Input& input, Tensor weight,
                             Tensor bias) {
  const int64_t N = num_rows(out);
  Tensor inp = input.rows;
  if (!inp) {
    inp = view(bf16_inp_, DType::kBFloat16, N, weight.shape(1));
    backend_.run(ActivationForward{.out = inp, .pre = input.pre, .activation = input.activation});
  }
  const Tensor reference = view(bf16_out_, DType::kBFloat16, N, num_columns(out));
  backend_.run(LinearForward{.out = reference, .inp = inp, .weight = weight, .bias = bias});
  backend_.run(
      SquaredError{.out = context.error, .value = out, .reference = reference, .accumulate = true});
}

void LinearLayers::begin_backward(const Context& context, const Gradient& gradient) {
  if (!fp8_) return;
  const int64_t N = num_rows(gradient.dout), O = num_columns(gradient.dout);
  const bool transposes = fp8_->has_weight_gradients;
  backend_.run(Quantize{
      .rows = view(rows_, fp8_->gradients, N, O),
      .transposed = transposes ? view(gradient_transposed_, fp8_->gradients, O, N) : Tensor(),
      .value = gradient.pre && !transposes ? gradient.dout : Tensor(),
      .column_sums = transposes ? gradient.dbias : Tensor(),
      .accumulate = gradient.accumulate,
      .scaling = scaling_of(Kind::kGradient, context, gradient_scaling_),
      .derives_scale = !has_history(),
      .amax = amax_of(Kind::kGradient, context),
      .inp = gradient.dout,
      .pre = gradient.pre,
      .activation = gradient.activation});
}

void LinearLayers::backward_input(const Context& context, Tensor dinp, Tensor dout, Tensor weight) {
  if (!fp8_) return backend_.run(LinearBackwardInput{.dinp = dinp, .dout = dout, .weight = weight});
  const Weight& fp8_weight = quantized(context, weight);
  backend_.run(Fp8Product{.out = dinp,
                          .a = view(rows_, fp8_->gradients, num_rows(dout), num_columns(dout)),
                          .b = fp8_weight.transposed,
                          .a_scaling = scaling_of(Kind::kGradient, context, gradient_scaling_),
                          .b_scaling = fp8_weight.scaling});
}

bool LinearLayers::gelu_backward_input(const Context& context, Tensor dpre, Tensor dbias,
                                       Tensor dout, Tensor weight, Tensor pre,
                                       Activation activation, bool accumulate) {
  if (fp8_) {
    backward_input(context, dpre, dout, weight);
    return false;
  }
  backend_.run(LinearActivationBackwardInput{.dpre = dpre,
                                             .dbias = dbias,
                                             .dout = dout,
                                             .weight = weight,
                                             .pre = pre,
                                             .activation = activation,
                                             .accumulate = accumulate});
  return true;
}

void LinearLayers::backward_weight(const Context& context, Tensor dweight, Tensor dbias,
                                   Tensor dout, const Input& input, bool accumulate) {
  if (!fp8_ || !fp8_->has_weight_gradients)
    return backend_.run(LinearBackwardWeight{.dweight = dweight,
                                             .dbias = dbias,
                                             .dout = dout,
                                             .inp = input.rows,
                                             .accumulate = accumulate});
  const int64_t N = num_rows(dout), O = dweight.shape(0), I = dweight.shape(1);
  Tensor inp = context.kept_input;
  if (!inp) {
    inp = view(input_transposed_, kE4M3, I, N);
    transpose_input(context, inp, input);
  }
  backend_.run(Fp8Product{.out = dweight,
                          .a = view(gradient_transposed_, fp8_->gradients, O, N),
                          .b = inp,
                          .a_scaling = scaling_of(Kind::kGradient, context, gradient_scaling_),
                          .b_scaling = input_scaling(context),
                          .accumulate = accumulate});
}

void LinearLayers::weights_changed() {
  for (Weight& weight : weights_) weight.is_stale = true;
}

// The scales of weights change with the others, also where a bad step has left the weights as they
// were.
void LinearLayers::end_step(Communicator& tensor_parallel, Communicator& data_parallel) {
  weights_changed();
  if (!fp8_ || !fp8_->is_delayed) return;
  const int64_t slot = num_steps_++ % fp8_->amax_history_len;
  if (weights_.empty()) return;
  for (Communicator* group : {&tensor_parallel, &data_parallel})
    group->all_reduce(amaxes_, Reduce::kMax, Stream::kCompute);
  const int64_t num_forward = forward_states_.shape(0), num_gradients = gradient_states_.shape(0);
  UpdateFp8Scaling update{.states = forward_states_,
                          .history_len = fp8_->amax_history_len,
                          .amaxes = range_of(amaxes_, 0, num_forward),
                          .format = kE4M3,
                          .slot = slot,
                          .margin = fp8_->margin,
                          .uses_maximum = fp8_->uses_maximum};
  backend_.run(update);
  update.states = gradient_states_;
  update.amaxes = range_of(amaxes_, num_forward, num_gradients);
  update.format = fp8_->gradients;
  backend_.run(update);
}

LinearLayers::State LinearLayers::state_of(int64_t layer) const {
  if (!fp8_ || !fp8_->is_delayed) return {};
  return {rows_of(forward_states_, layer * 2 * kNum, 2 * kNum),
          rows_of(gradient_states_, layer * kNum, kNum)};
}

void LinearLayers::set_num_steps(int64_t num_steps) {
  num_steps_ = num_steps;
  if (amaxes_.data() != nullptr)
    backend_.run(Zero{.out = amaxes_});  // those of an evaluation before
  weights_changed();
}

}  // namespace weft
