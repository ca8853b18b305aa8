// The linear layers of the transformer layers: products in the model's type, or in fp8.
//
// In fp8 each operand is rounded where a product reads it, with a scale for the whole tensor:
//
//            operands                                    products
//   forward  inp by rows, weight by rows                 out = inp * weight^T
//   backward dout by rows, weight transposed             dinp = dout * weight
//            dout transposed, inp transposed             dweight = dout^T * inp
//
// Weights are quantized once after each update, gradients once in backward. An input is quantized
// in forward, by rows and transposed in one pass, and the transposed copy is kept for backward.
// Where it is not (Sizes::keeps_inputs), backward makes it of the input, in a second pass. Where
// the scale is known before, a norm writes its output in fp8 itself (fp8_input()), and only the
// transposed copy takes a pass. GELU and its derivative are part of quantizing: fc2's input is made
// of fc1's output, and fc1's gradient of that of fc2's input.
//
// Delayed scaling takes a tensor's scale from the steps before. They are the same on all ranks that
// share the tensor, and are the state that a checkpoint holds. Before there is a step, and with
// tensorwise scaling, the scale is that of the tensor itself: of what this rank has of it, in this
// micro-batch.
//
// Forward can measure its errors: then a product in bf16 follows, into memory of its own, and
// training goes on with that of fp8. Backward cannot, because the gradient of fc1's output is not
// in memory in bf16: GELU's derivative is part of quantizing.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "trainer/config/fp8_options.h"
#include "trainer/config/memory_plan.h"
#include "trainer/parallel/communicator.h"

namespace weft {

class LinearLayers {
 public:
  enum Name { kQkv, kProj, kFc1, kFc2 };
  static constexpr int64_t kNum = 4;

  // The sizes of a rank's products: N rows, and by name the columns of inputs and outputs.
  struct Sizes {
    int64_t num_layers = 0;  // of all chunks
    int64_t num_rows = 0;
    bool has_glu = false;  // fc2's input is in memory then
    std::array<int64_t, kNum> inputs = {}, outputs = {};
    // Inputs whose transposed copies are kept from forward to backward, if gradients of weights are
    // fp8's.
    std::array<bool, kNum> keeps_inputs = {};
  };
  // One linear layer in one micro-batch.
  struct Context {
    int64_t layer = 0;  // counts the layers of all chunks
    Name name = kQkv;
    bool is_training = true;
    // (4,4) fp32: {1 / scale, scale, padding} of the layer's inputs, from forward to backward of
    // the micro-batch
    Tensor input_scaling = {};
    // (I,N) e4m3: the transposed input, from forward to backward of the micro-batch; or empty: then
    // forward makes none, and backward makes it in scratch
    Tensor kept_input = {};
    // (2) fp32: forward adds the squared error of this product to it, and the square of bf16's; or
    // empty
    Tensor error = {};
  };
  // An input (N,I) x; or in fp8 GELU of `pre`, or fp8_input()'s rows, written.
  struct Input {
    Tensor rows = {}, pre = {}, fp8 = {};
    Activation activation = Activation::kGeluTanh;
  };

  // Plans the copies of the weights and scratch in `plan` where there are options. All references
  // must outlive this.
  LinearLayers(Backend& backend, const std::optional<Fp8Options>& fp8, const Sizes& sizes,
               MemoryPlan& plan);
  LinearLayers(const LinearLayers&) = delete;
  LinearLayers& operator=(const LinearLayers&) = delete;

  bool is_fp8() const { return fp8_.has_value(); }
  // Returns whether fc2's input, GELU of fc1's output, is kept; else it is made where it is read.
  bool keeps_gelu() const { return !is_fp8() || !fp8_->has_weight_gradients; }
  // Returns whether a transposed copy of an input is kept. Then backward_weight() does not read the
  // input itself.
  bool keeps_input(Name name) const {
    return is_fp8() && fp8_->has_weight_gradients && sizes_.keeps_inputs[name];
  }

  // Returns where the operation before forward() may write the input in fp8; forward() has to
  // follow at once. It is empty where the input's own numbers decide the scale, and where forward()
  // measures its error.
  Fp8Output fp8_input(const Context& context, int64_t num_rows) const;
  void forward(const Context& context, Tensor out, const Input& input, Tensor weight, Tensor bias);
  // Stands for forward() where a layer is computed again and nobody needs the product: makes
  // `kept_input`, if there is one, with forward's scale.
  void keep_input(const Context& context, const Input& input);
  // Computes fc1's output, `pre`, and GELU of that, `out`, which in fp8 may be empty.
  void gelu_forward(const Context& context, Tensor out, Tensor pre, const Input& input,
                    Tensor weight, Tensor bias, Activation activation);

  // Must precede the two products of a linear layer's backward: quantizes the gradient of its
  // output. With `pre` (of fc1) dout is the gradient of GELU's output. In fp8 this sums up dbias.
  struct Gradient {
    Tensor dout = {}, pre = {};
    Activation activation = Activation::kGeluTanh;
    Tensor dbias = {};
    bool accumulate = true;
  };
  void begin_backward(const Context& context, const Gradient& gradient);
  void backward_input(const Context& context, Tensor dinp, Tensor dout, Tensor weight);
  // Computes the gradient of fc1's output, dpre, from that of fc2's, and adds its columns' sums to
  // dbias; in fp8 dpre is the gradient of GELU's output, and there are no sums. Returns whether
  // dbias has them.
  bool gelu_backward_input(const Context& context, Tensor dpre, Tensor dbias, Tensor dout,
                           Tensor weight, Tensor pre, Activation activation, bool accumulate);
  // Reads `kept_input` where there is one, else `input`.
  void backward_weight(const Context& context, Tensor dweight, Tensor dbias, Tensor dout,
                       const Input& input, bool accumulate);

  // Weights are quantized anew at their next use.
  void weights_changed();
  // Ends a training step: derives the next scales from its largest numbers, over all ranks of the
  // groups.
  void end_step(Communicator& tensor_parallel, Communicator& data_parallel);

  // The state of delayed scaling: for each layer of the rank {1 / scale, scale, history, padding}
  // of its four inputs and four weights, and of its four gradients. Empty with other scaling.
  struct State {
    Tensor forward, gradients;  // (8,R), (4,R) fp32, R the next multiple of 4 from 2 + H on
  };
  State state_of(int64_t layer) const;
  int64_t num_steps() const { return num_steps_; }  // that the histories have seen
  void set_num_steps(int64_t num_steps);

 private:
  // A weight in fp8: (O,I), (I,O).
  struct Weight {
    Tensor rows, transposed, scaling;
    bool is_stale = true;
  };
  enum class Kind { kInput, kWeight, kGradient };

  // Returns whether scales come from the steps before.
  bool has_history() const { return fp8_->is_delayed && num_steps_ > 0; }
  // Returns the row of the states, or of the amaxes, of a tensor.
  int64_t row_of(Kind kind, const Context& context) const;
  // Returns the scale of a tensor: of the steps before, or `own`, which the tensor itself decides.
  Tensor scaling_of(Kind kind, const Context& context, Tensor own) const;
  Tensor amax_of(Kind kind, const Context& context) const;  // empty where no step counts it
  Tensor input_scaling(const Context& context) const;
  const Weight& quantized(const Context& context, Tensor weight);
  void transpose_input(const Context& context, Tensor transposed, const Input& input);
  void add_error(const Context& context, Tensor out, const Input& input, Tensor weight,
                 Tensor bias);

  Backend& backend_;
  std::optional<Fp8Options> fp8_;
  Sizes sizes_;
  int64_t num_steps_ = 0;
  std::vector<Weight> weights_;              // by layer and name
  Tensor weight_scalings_;                   // (4 * layers,4) fp32: {1 / scale, scale, padding}
  Tensor gradient_scaling_;                  // (2) fp32
  Tensor forward_states_, gradient_states_;  // (8 * layers,R), (4 * layers,R) fp32
  Tensor amaxes_;  // (12 * layers) fp32: those of the forward states come first
  Tensor rows_;    // scratch: inp or dout by rows
  Tensor gradient_transposed_, input_transposed_;  // scratch
  Tensor bf16_out_, bf16_inp_;                     // scratch of products whose errors are measured
};

}  // namespace weft
