// The model's math: a closed set of fused GPT operations with a CPU and a CUDA implementation.
//
// Shapes: B micro-batch, T sequence, N = B*T rows, C hidden, H heads of this rank, D head size, F
// feed-forward, V vocabulary, Vp padded vocabulary, all of this tensor-parallel rank ("C/tp" is
// written where it matters). All tensors are contiguous. "x" is the model's type, kFloat32 or
// kBFloat16: activations, their gradients and the parameters that the GEMMs read. Parameter
// gradients are always fp32 and accumulate (+=) unless the call says `accumulate = false`, which
// assigns; activation gradients are assigned. Sums are fp32 or better, in a fixed order: equal
// calls give equal bits.
//
// Every operation is enqueued on the compute stream and returns at once (the CPU executes in
// place). No operation allocates or waits for the device. Errors of use (shapes, types) throw
// std::invalid_argument; device failures std::runtime_error. Not thread-safe: one thread drives a
// backend; copies on the copy stream may be issued by that same thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "kernels/tensor.h"

namespace weft {

enum class DeviceKind { kCpu, kCuda };
enum class Memory { kDevice, kPinnedHost };
enum class Stream { kCompute, kCopy };

// A point in a stream's work; created once, recorded often.
using EventId = int;

// Bernoulli dropout by counter (kernels/philox.h): element e of the *global* tensor is dropped when
// philox_word(seed, stream, first_element + e) < p * 2^32, else scaled by 1/(1-p). p == 0 costs
// nothing.
struct Dropout {
  float p = 0.0F;
  uint64_t seed = 0;
  uint64_t stream = 0;         // layer, operation and step, packed by the caller
  uint64_t first_element = 0;  // index of this tensor's first element in the global one
};

enum class Gelu { kTanh, kErf };

// AdamW over one flat range [Loshchilov & Hutter 2019]. All tensors have n elements; n is a
// multiple of kOptimizerBlock.
struct AdamW {
  Tensor param;   // (n) x: what the GEMMs read; written. Same memory as `master` for fp32 models.
  Tensor master;  // (n) fp32
  Tensor m, v;    // (n) fp32
  Tensor grad;    // (n) fp32
  Tensor decays;  // (n / kOptimizerBlock) uint8: 1 where weight decay applies
  Tensor clip;    // (2) fp32, from clip_coefficient: gradients are multiplied by element 1
  // fp64, as PyTorch holds them: 1 - 0.999F is off by 1e-5. Used as fp32 once 1 - beta and the like
  // are formed.
  double lr = 0, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  int64_t step = 1;  // 1 for the first update (bias correction)
};
constexpr int64_t kOptimizerBlock = 1024;

// What the workspace must hold; 0 for what does not occur.
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
  virtual std::string description()
      const = 0;  // "NVIDIA H200 (sm_90, 139 GiB)", "CPU (16 threads)"
  virtual int64_t total_memory_bytes() const = 0;
  virtual int64_t free_memory_bytes() const = 0;
  // Zeroed memory, 256-byte aligned, freed with the backend at the latest. Throws std::bad_alloc.
  virtual void* allocate(int64_t num_bytes, Memory memory) = 0;
  virtual void release(void* data, Memory memory) = 0;
  // Between any two memories. Asynchronous when the host side is pinned; otherwise `src` may be
  // reused on return.
  virtual void copy(void* dst, const void* src, int64_t num_bytes, Stream stream) = 0;
  virtual void zero(Tensor tensor) = 0;
  virtual void cast(Tensor dst, Tensor src) = 0;  // fp32 <-> bf16, same number of elements
  virtual EventId create_event() = 0;
  virtual void record(EventId event, Stream stream) = 0;
  virtual void wait(Stream stream, EventId event) = 0;        // the stream waits, the host does not
  virtual void synchronize(EventId event) = 0;                // the host waits
  virtual void synchronize() = 0;                             // the host waits for everything
  virtual float elapsed_ms(EventId start, EventId stop) = 0;  // both have happened

  // One scratch memory for all operations, planned at start: ask for the size, allocate, hand it
  // over.
  virtual int64_t workspace_bytes(const WorkspaceShape& shape) const = 0;
  virtual void set_workspace(void* data, int64_t num_bytes) = 0;

  // --- embedding ---
  // out[n] = dropout(word[tokens[n] - first_word] + position[n % T]); tokens outside [first_word,
  // first_word + rows of word) give a zero word vector (another rank's rows). An empty `position`
  // adds none. out (B,T,C) x; tokens (B,T) int32; word (Vp/tp,C) x; position (S,C) x with S >= T.
  virtual void embedding_forward(Tensor out, Tensor tokens, Tensor word, Tensor position,
                                 int64_t first_word, const Dropout& dropout) = 0;
  // dword (Vp/tp,C), dposition (S,C) fp32, accumulated; dout (B,T,C) x; rows are summed in order of
  // position.
  virtual void embedding_backward(Tensor dword, Tensor dposition, Tensor dout, Tensor tokens,
                                  int64_t first_word, const Dropout& dropout) = 0;

  // --- LayerNorm, fused with the residual stream [Ba et al. 2016, arXiv:1607.06450] ---
  // normed = (inp - mean) * rstd * weight + bias. normed, inp (N,C) x; mean, rstd (N) fp32; weight,
  // bias (C) x.
  virtual void layernorm_forward(Tensor normed, Tensor mean, Tensor rstd, Tensor inp, Tensor weight,
                                 Tensor bias, float epsilon) = 0;
  // residual_out = residual + dropout(branch); normed = LayerNorm(residual_out). All (N,C) x;
  // residual_out may be residual.
  virtual void residual_layernorm_forward(Tensor normed, Tensor residual_out, Tensor mean,
                                          Tensor rstd, Tensor residual, Tensor branch,
                                          Tensor weight, Tensor bias, float epsilon,
                                          const Dropout& dropout) = 0;
  // Backward of both: with g = gradient through LayerNorm of dnormed,
  //   dresidual = g + dresidual_in (empty: g)      gradient of the LayerNorm's input, (N,C) x; may
  //   be dresidual_in dbranch   = dropout'(dresidual)              gradient of `branch`, (N,C) x;
  //   empty when there is no branch or p == 0
  //                                                (then dresidual is the branch's gradient too)
  // dweight, dbias (C) fp32. inp is what was normalised (residual_out).
  virtual void layernorm_backward(Tensor dresidual, Tensor dbranch, Tensor dweight, Tensor dbias,
                                  Tensor dnormed, Tensor dresidual_in, Tensor inp, Tensor mean,
                                  Tensor rstd, Tensor weight, const Dropout& dropout,
                                  bool accumulate) = 0;

  // --- linear layers; weight (O,I) as Megatron stores it ---
  // out = inp * weight^T + bias. out (N,O), inp (N,I) x; bias (O) x or empty.
  virtual void linear_forward(Tensor out, Tensor inp, Tensor weight, Tensor bias) = 0;
  // pre = inp * weight^T + bias; out = gelu(pre). pre is kept for backward.
  virtual void linear_gelu_forward(Tensor out, Tensor pre, Tensor inp, Tensor weight, Tensor bias,
                                   Gelu gelu) = 0;
  // dinp = dout * weight. dinp (N,I), dout (N,O) x.
  virtual void linear_backward_input(Tensor dinp, Tensor dout, Tensor weight) = 0;
  // dpre = (dout * weight) * gelu'(pre): the backward of fc2 into fc1's output. dpre, pre (N,I) x.
  virtual void linear_gelu_backward_input(Tensor dpre, Tensor dout, Tensor weight, Tensor pre,
                                          Gelu gelu) = 0;
  // dweight (O,I) fp32 += dout^T * inp; dbias (O) fp32 += column sums of dout (empty: none).
  virtual void linear_backward_weight(Tensor dweight, Tensor dbias, Tensor dout, Tensor inp,
                                      bool accumulate) = 0;

  // --- causal self-attention, never materialising the scores [Dao 2023, arXiv:2307.08691] ---
  // qkv (B,T,H,3,D) x: per head query, key, value, as Megatron orders them; out (B,T,H,D) x; lse
  // (B,H,T) fp32. softmax(scale * q k^T + causal mask), dropout on the probabilities, times v.
  // CUDA: D in {64, 96, 128}. Dropout's element index is first_element + ((b * H + h) * T + query)
  // * T + key.
  virtual void attention_forward(Tensor out, Tensor lse, Tensor qkv, float scale,
                                 const Dropout& dropout) = 0;
  // dqkv (B,T,H,3,D) x, from dout, out (B,T,H,D), lse and qkv.
  virtual void attention_backward(Tensor dqkv, Tensor dout, Tensor out, Tensor lse, Tensor qkv,
                                  float scale, const Dropout& dropout) = 0;

  // --- loss ---
  // Per row: losses[n] = logsumexp(logits[n, :V]) - logits[n, targets[n]], times loss_mask[n]; and,
  // where `gradient`, logits become d(sum of losses * gradient_scale)/d(logits) in place. Columns
  // >= vocabulary_size take part like any other when vocabulary_size == Vp, else they are left out
  // of the sum and get gradient 0. loss_mask (N) fp32 or empty (all ones). losses (N) fp32; logits
  // (N,Vp) x; targets (N) int32.
  virtual void cross_entropy(Tensor losses, Tensor logits, Tensor targets, Tensor loss_mask,
                             int64_t vocabulary_size, float gradient_scale, bool gradient) = 0;
  // out (1) fp32 = scale * sum(inp) (+ out where accumulate). inp (N) fp32. Fixed order.
  virtual void sum(Tensor out, Tensor inp, float scale, bool accumulate) = 0;

  // --- optimizer ---
  // out (1) fp32 = sum of squares of inp (n) fp32. Fixed order.
  virtual void sum_of_squares(Tensor out, Tensor inp) = 0;
  // clip (2) fp32: element 0 = norm = sqrt(sum_of_squares); element 1 = min(1, max_norm / (norm +
  // 1e-6)), or 1 where max_norm == 0.
  virtual void clip_coefficient(Tensor clip, Tensor sum_of_squares, float max_norm) = 0;
  virtual void adamw(const AdamW& args) = 0;
};

// The CPU backend: plain loops over threads, and OpenBLAS. num_threads 0: OMP_NUM_THREADS, else the
// CPUs of this process.
std::unique_ptr<Backend> create_cpu_backend(int num_threads = 0);
// The CUDA backend of one device. Throws std::runtime_error (no toolkit at build time, no driver,
// no such device), with a hint. `algorithm_cache` is the file of timed GEMM algorithms, empty: none
// is kept.
std::unique_ptr<Backend> create_cuda_backend(int device_idx, const std::string& algorithm_cache);
// Number of usable CUDA devices; 0 without driver or toolkit, with the reason in *why if given.
int num_cuda_devices(std::string* why = nullptr);

}  // namespace weft
