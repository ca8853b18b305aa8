// The model's math: a closed set of fused GPT operations with a CPU and a CUDA implementation.
//
// Shapes: B micro-batch, T sequence, N = B*T rows, C hidden, H heads, D head size, F feed-forward,
// V vocabulary, Vp padded vocabulary. H, F, V and Vp are those of this tensor-parallel rank; "/tp"
// is written where it matters. All tensors are contiguous.
//
// "x" stands for the model's type, kFloat32 or kBFloat16. Activations, their gradients and the
// parameters that the GEMMs read have this type. Parameter gradients are always fp32 and are added
// to what is there (+=) unless the call says `accumulate = false`; activation gradients are
// assigned. Sums are fp32 or better and have a fixed order, so equal calls give equal bits.
//
// Every operation is enqueued on the compute stream and returns at once (the CPU executes it in
// place). No operation allocates or waits for the device. Wrong arguments (shapes, types) throw
// std::invalid_argument, failures of the device throw std::runtime_error. A backend is not
// thread-safe: one thread drives it, copies on the copy stream included.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "kernels/tensor.h"

namespace weft {

enum class DeviceKind { kCpu, kCuda };
enum class Memory { kDevice, kPinnedHost };
enum class Stream { kCompute, kCopy };

// An event marks a point in a stream's work. It is created once and recorded often.
using EventId = int;

// Bernoulli dropout by counter (kernels/philox.h). Element e of a tensor is dropped when
// philox_word(seed, stream, first_element + e) < p * 2^32, else it is scaled by 1/(1-p). The index
// first_element + e is that of the *global* tensor. p == 0 costs nothing.
struct Dropout {
  float p = 0.0F;
  uint64_t seed = 0;
  uint64_t stream = 0;         // layer, operation and step, packed by the caller
  uint64_t first_element = 0;  // index of this tensor's first element in the global one
};

enum class Gelu { kTanh, kErf };

// The arguments of AdamW over one flat range [Loshchilov & Hutter 2019]. All tensors have n
// elements; n is a multiple of kOptimizerBlock.
struct AdamW {
  Tensor param;   // (n) x: the weights that the GEMMs read; written. fp32 models: same as `master`
  Tensor master;  // (n) fp32
  Tensor m, v;    // (n) fp32
  Tensor grad;    // (n) fp32
  Tensor decays;  // (n / kOptimizerBlock) uint8: 1 where weight decay applies
  Tensor clip;    // (2) fp32, from clip_coefficient: gradients are multiplied by element 1
  // These are fp64, as in PyTorch, because 1 - 0.999F is off by 1e-5. Terms like 1 - beta are
  // formed in fp64 and then used as fp32.
  double lr = 0, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  int64_t step = 1;  // 1 for the first update (bias correction)
};
constexpr int64_t kOptimizerBlock = 1024;

// The sizes that the workspace must serve; a size that does not occur is 0.
struct WorkspaceShape {
  int64_t B = 0, T = 0, C = 0, H = 0, D = 0, F = 0, Vp = 0;
  int64_t num_parameters = 0;
  DType x = DType::kFloat32;
};

class Backend {
 public:
  virtual ~Backend() = default;

  // --- device ---
  virtual DeviceKind kind() const = 0;
  // For example "NVIDIA H200 (sm_90, 139 GiB)" or "CPU (16 threads)".
  virtual std::string description() const = 0;
  virtual int64_t total_memory_bytes() const = 0;
  virtual int64_t free_memory_bytes() const = 0;
  // Returns zeroed memory, 256-byte aligned. The backend frees what is left when it is destroyed.
  // Throws std::bad_alloc.
  virtual void* allocate(int64_t num_bytes, Memory memory) = 0;
  virtual void release(void* data, Memory memory) = 0;
  // Copies between any two memories. The copy is asynchronous when the host side is pinned;
  // otherwise `src` may be reused on return.
  virtual void copy(void* dst, const void* src, int64_t num_bytes, Stream stream) = 0;
  virtual void zero(Tensor tensor) = 0;
  virtual void cast(Tensor dst, Tensor src) = 0;  // fp32 <-> bf16, same number of elements
  virtual EventId create_event() = 0;
  virtual void record(EventId event, Stream stream) = 0;
  virtual void wait(Stream stream, EventId event) = 0;  // the stream waits, the host does not
  virtual void synchronize(EventId event) = 0;          // the host waits
  virtual void synchronize() = 0;                       // the host waits for everything
  // Both events must have happened.
  virtual float elapsed_ms(EventId start, EventId stop) = 0;

  // All operations share one scratch memory, which is planned at start: the caller asks for its
  // size, allocates it and passes it to set_workspace.
  virtual int64_t workspace_bytes(const WorkspaceShape& shape) const = 0;
  virtual void set_workspace(void* data, int64_t num_bytes) = 0;

  // --- embedding ---
  // out[n] = dropout(word[tokens[n] - first_word] + position[n % T]). A token outside [first_word,
  // first_word + rows of word) belongs to another rank and gives a zero word vector. An empty
  // `position` adds nothing.
  // out (B,T,C) x; tokens (B,T) int32; word (Vp/tp,C) x; position (S,C) x with S >= T.
  virtual void embedding_forward(Tensor out, Tensor tokens, Tensor word, Tensor position,
                                 int64_t first_word, const Dropout& dropout) = 0;
  // Adds the rows of dout to dword and dposition, in order of position.
  // dword (Vp/tp,C), dposition (S,C) fp32, accumulated; dout (B,T,C) x.
  virtual void embedding_backward(Tensor dword, Tensor dposition, Tensor dout, Tensor tokens,
                                  int64_t first_word, const Dropout& dropout) = 0;

  // --- LayerNorm, fused with the residual stream [Ba et al. 2016, arXiv:1607.06450] ---
  // normed = (inp - mean) * rstd * weight + bias.
  // normed, inp (N,C) x; mean, rstd (N) fp32; weight, bias (C) x.
  virtual void layernorm_forward(Tensor normed, Tensor mean, Tensor rstd, Tensor inp, Tensor weight,
                                 Tensor bias, float epsilon) = 0;
  // residual_out = residual + dropout(branch); normed = LayerNorm(residual_out).
  // All four are (N,C) x; residual_out may be the memory of residual.
  virtual void residual_layernorm_forward(Tensor normed, Tensor residual_out, Tensor mean,
                                          Tensor rstd, Tensor residual, Tensor branch,
                                          Tensor weight, Tensor bias, float epsilon,
                                          const Dropout& dropout) = 0;
  // The backward pass of both. With g, the gradient of dnormed through the LayerNorm:
  //   dresidual = g + dresidual_in      gradient of the LayerNorm's input; an empty dresidual_in
  //                                     adds nothing; dresidual may be the memory of dresidual_in
  //   dbranch   = dropout'(dresidual)   gradient of `branch`; empty where there is no branch or
  //                                     p == 0 (dresidual is the branch's gradient then)
  // All (N,C) x; dweight, dbias (C) fp32. `inp` is the tensor that was normalised (residual_out).
  virtual void layernorm_backward(Tensor dresidual, Tensor dbranch, Tensor dweight, Tensor dbias,
                                  Tensor dnormed, Tensor dresidual_in, Tensor inp, Tensor mean,
                                  Tensor rstd, Tensor weight, const Dropout& dropout,
                                  bool accumulate) = 0;

  // --- linear layers; weight (O,I) as Megatron stores it ---
  // out = inp * weight^T + bias. out (N,O), inp (N,I) x; bias (O) x or empty.
  virtual void linear_forward(Tensor out, Tensor inp, Tensor weight, Tensor bias) = 0;
  // pre = inp * weight^T + bias; out = gelu(pre). The caller keeps pre for backward.
  virtual void linear_gelu_forward(Tensor out, Tensor pre, Tensor inp, Tensor weight, Tensor bias,
                                   Gelu gelu) = 0;
  // dinp = dout * weight. dinp (N,I), dout (N,O) x.
  virtual void linear_backward_input(Tensor dinp, Tensor dout, Tensor weight) = 0;
  // dpre = (dout * weight) * gelu'(pre): the backward of fc2 into fc1's output. dpre, pre (N,I) x.
  virtual void linear_gelu_backward_input(Tensor dpre, Tensor dout, Tensor weight, Tensor pre,
                                          Gelu gelu) = 0;
  // dweight (O,I) fp32 += dout^T * inp; dbias (O) fp32 += column sums of dout, unless it is empty.
  virtual void linear_backward_weight(Tensor dweight, Tensor dbias, Tensor dout, Tensor inp,
                                      bool accumulate) = 0;

  // --- causal self-attention, never materialising the scores [Dao 2023, arXiv:2307.08691] --- out
  // = dropout(softmax(scale * q k^T + causal mask)) * v, per sample and head. qkv (B,T,H,3,D) x
  // holds query, key and value of each head, in Megatron's order; out (B,T,H,D) x; lse (B,H,T) fp32
  // is the logarithm of the softmax's sum. CUDA takes D = 64, 96 and 128. Dropout's element index
  // is first_element + ((b * H + h) * T + query) * T + key.
  virtual void attention_forward(Tensor out, Tensor lse, Tensor qkv, float scale,
                                 const Dropout& dropout) = 0;
  // Computes dqkv (B,T,H,3,D) x from dout, out (B,T,H,D), lse and qkv.
  virtual void attention_backward(Tensor dqkv, Tensor dout, Tensor out, Tensor lse, Tensor qkv,
                                  float scale, const Dropout& dropout) = 0;

  // --- loss ---
  // losses[n] = (logsumexp(logits[n, :V]) - logits[n, targets[n]]) * loss_mask[n], where V is
  // vocabulary_size: columns from V to Vp - 1 are left out of the sum and get gradient 0. With
  // `gradient` the logits are replaced by d(sum of losses * gradient_scale)/d(logits).
  // losses (N) fp32; logits (N,Vp) x; targets (N) int32; loss_mask (N) fp32, or empty: all ones.
  virtual void cross_entropy(Tensor losses, Tensor logits, Tensor targets, Tensor loss_mask,
                             int64_t vocabulary_size, float gradient_scale, bool gradient) = 0;
  // out (1) fp32 = scale * sum of inp (N) fp32, plus out where `accumulate`. The order is fixed.
  virtual void sum(Tensor out, Tensor inp, float scale, bool accumulate) = 0;

  // --- optimizer ---
  // out (1) fp32 = sum of squares of inp (n) fp32. The order is fixed.
  virtual void sum_of_squares(Tensor out, Tensor inp) = 0;
  // clip (2) fp32. Element 0 is norm = sqrt(sum_of_squares); element 1 is the factor that clips,
  // min(1, max_norm / (norm + 1e-6)), or 1 where max_norm == 0.
  virtual void clip_coefficient(Tensor clip, Tensor sum_of_squares, float max_norm) = 0;
  virtual void adamw(const AdamW& args) = 0;
};

// Creates the CPU backend: plain loops over threads, and OpenBLAS. num_threads == 0 means
// OMP_NUM_THREADS, or else the number of CPUs of this process.
std::unique_ptr<Backend> create_cpu_backend(int num_threads = 0);
// Creates the CUDA backend of one device. `algorithm_cache` is the file of timed GEMM algorithms;
// an empty name keeps none. Throws std::runtime_error with a hint where there was no toolkit at
// build time, there is no driver, or there is no such device.
std::unique_ptr<Backend> create_cuda_backend(int device_idx, const std::string& algorithm_cache);
// Returns the number of usable CUDA devices. Where it is 0, *why tells the reason.
int num_cuda_devices(std::string* why = nullptr);

}  // namespace weft
