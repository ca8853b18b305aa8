// The model's math: a closed set of fused GPT operations with a CPU and a CUDA implementation.
//
// Shapes: B micro-batch, T sequence, N = B*T rows, C hidden, H heads, D head size, F feed-forward,
// V vocabulary, Vp padded vocabulary. H, F, V and Vp are those of this tensor-parallel rank; "/tp"
// is written where it matters. All tensors are contiguous.
//
// "x" stands for the model's type: kFloat32, kBFloat16 or kFloat16. Activations, their
// gradients and the parameters that the GEMMs read have this type. "r" stands for that of the residual
// stream: x, or kFloat32 beside an x of 16 bits. Parameter gradients are always
// fp32 and are added to what is there (+=) unless the call says `accumulate = false`; activation
// gradients are assigned. Sums are fp32 or better and have a fixed order, so equal calls give equal
// bits.
//
// Every operation is enqueued on the compute stream and returns at once (the CPU executes it in
// place). No operation allocates or waits for the device; tune() does, once, at start. Wrong
// arguments (shapes, types) throw std::invalid_argument, failures of the device throw DeviceLost or
// DeviceOutOfMemory. A backend is not thread-safe: one thread drives it, copies on the copy stream
// included.
//
// Operations with more than six tensors take a struct, which callers fill by designated
// initialisers: two equal shapes that are swapped by position would pass every check.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "kernels/dropout.h"
#include "kernels/tensor.h"

namespace weft {

enum class DeviceKind { kCpu, kCuda };
enum class Memory { kDevice, kPinnedHost };
// Operations run on kCompute; nothing runs on the others but what their caller enqueues. The two for
// collectives have a higher priority, so that one that is ready starts before queued kernels.
// kCommunication is for collectives that the next kernels need. kReduction is for large ones that
// run beside the kernels.
enum class Stream { kCompute, kCommunication, kReduction, kCopy };

// An event marks a point in a stream's work. It is created once and recorded often.
using EventId = int;

// Bernoulli dropout by counter. Whether element e of a tensor is dropped is a function of seed,
// stream and first_element + e, its index in the *global* tensor (kernels/dropout.h). Kept elements
// are scaled so that the mean stays. The probability is p to 1/131,072; p == 0 costs nothing.
struct Dropout {
  float p = 0.0F;
  uint64_t seed = 0;
  uint64_t stream = 0;         // layer, operation and step, packed by the caller
  uint64_t first_element = 0;  // index of this tensor's first element in the global one
};

// The device failed, or the driver lost it: the process cannot go on, another one may.
struct DeviceLost : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// The device's memory is exhausted.
struct DeviceOutOfMemory : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class Gelu { kTanh, kErf };

// Gated linear units: act(gate) * up, where act(x) is x sigmoid(x), x Phi(x) (GELU by erf), max(x, 0)
// or x. [Shazeer 2020, arXiv:2002.05202]
enum class Glu { kNone, kSwiglu, kGeglu, kReglu, kLiglu };

// What an operation writes in fp8 beside its output, or instead of it: the numbers of the output as it is stored in x,
// rounded as Quantize rounds them, with a scale that is there before.
struct Fp8Output {
  Tensor rows = {};     // (N,C) e4m3, written
  Tensor scaling = {};  // (2) fp32, read: Quantize's
  Tensor amax = {};     // (1) fp32, or empty: becomes the maximum of itself and all |value|
};

// The arguments of the residual stream's one operation:
//   residual_out = residual + dropout(branch + branch_bias)
//   normed       = LayerNorm(residual_out) = (residual_out - mean) * rstd * weight + bias
// Without `bias` it is RMSNorm, which takes no mean: residual_out * rstd * weight, where rstd is
// 1 / sqrt(mean of the squares + epsilon), and `mean` is empty. [Zhang & Sennrich 2019,
// arXiv:1910.07467]
// Without `residual` the sum begins with the branch (the embedding). Without `branch` residual_out
// is empty and `residual` itself is normalised. Without `weight` there is the sum alone, and normed,
// mean, rstd and bias are empty (the end of a pipeline stage). Under tensor parallelism the branch
// is already summed over ranks, so that its bias counts once. [Ba et al. 2016, arXiv:1607.06450]
struct ResidualNorm {
  Tensor normed = {};           // (N,C) x, written; may be empty where there is normed_fp8
  Fp8Output normed_fp8 = {};    // or empty; on CUDA x is bf16
  Tensor residual_out = {};     // (N,C) r, written; it may be residual's memory
  Tensor mean = {}, rstd = {};  // (N) fp32, written
  Tensor residual = {};         // (N,C) r
  Tensor branch = {};           // (N,C) x
  // (C) x; or (S,C) x with S >= bias_period, of which row n gets (first_row + n) % bias_period: the
  // position embedding.
  Tensor branch_bias = {};
  int64_t bias_period = 1, first_row = 0;
  // (B,T,2) int32 with T == bias_period, as in Attention. If it is given, positions count from the
  // beginning of a document: row n gets the bias of (first_row + n) % bias_period - begin.
  Tensor document_bounds = {};
  Tensor weight = {}, bias = {};  // (C) x
  float epsilon = 1e-5F;
  Dropout dropout = {};
};

// The arguments of its backward pass. With g, the gradient of dnormed through the norm:
//   dresidual    = g + dresidual_in     gradient of residual_out
//   dbranch      = dropout'(dresidual)  empty where there is no branch; it may be where p == 0 and
//                                       r is x, and dresidual is the branch's gradient then
//   dbranch_bias = sums of the stored rows of the branch's gradient; empty where there is no bias
// For an RMSNorm mean and dbias are empty. Without `weight` (the sum alone) g is 0, and dnormed,
// residual, mean, rstd, dweight and dbias are empty. dresidual may be the memory of dresidual_in.
struct ResidualNormBackward {
  Tensor dresidual = {};            // (N,C) r, assigned
  Tensor dbranch = {};              // (N,C) x, assigned
  Tensor dbranch_bias = {};         // as branch_bias, fp32
  Tensor dweight = {}, dbias = {};  // (C) fp32
  Tensor dnormed = {};              // (N,C) x
  Tensor dresidual_in = {};         // (N,C) r; may be empty where there is a weight
  Tensor residual = {};             // (N,C) r: what was normalised, forward's residual_out
  Tensor mean = {}, rstd = {};      // (N) fp32
  Tensor weight = {};               // (C) x
  int64_t bias_period = 1, first_row = 0;
  Tensor document_bounds = {};  // forward's
  Dropout dropout = {};
  bool accumulate = true;  // of dbranch_bias, dweight and dbias
};

// This rank's heads among those of the whole model; total == 0 means that it has all.
struct Heads {
  int64_t first = 0, total = 0;
};

// The head sizes of flash attention on CUDA: multiples of 8 up to the largest. For others attention keeps
// scores of some queries and heads in memory there (kernels/unfused_attention.h), which is slower.
constexpr int64_t kMaxFlashHeadSize = 160;
constexpr bool has_flash_attention(int64_t D) {
  return D > 0 && D % 8 == 0 && D <= kMaxFlashHeadSize;
}

// Causal self-attention, never materialising the scores of a sequence [Dao 2023, arXiv:2307.08691]:
//   out = dropout(softmax(scale * q k^T + causal mask)) * v, per sample and head.
// With document_bounds a query sees the keys of its own document alone, up to itself. With slopes
// (ALiBi) its scores sink with the distance: scale * q k^T + slope * (key - query), per head; the
// distance is that of the tokens in their sample. [Press et al. 2022, arXiv:2108.12409]
// Dropout's elements are the bits of `kept` (kernels/dropout.h), and bit 0 of sample b and head h is
// element
//   first_element + (b * total + first + h) * 32 * attention_mask_words(T);
// first_element is a multiple of 128.
struct Attention {
  Tensor out = {};  // (B,T,H,D) x, written
  Tensor lse = {};  // (B,H,T) fp32, written: the logarithm of the softmax's sum
  // (B,H,attention_mask_words(T)) int32, written: dropout's bits; empty where p == 0.
  Tensor kept = {};
  Tensor qkv = {};  // (B,T,H,3,D) x: query, key and value of each head, in Megatron's order
  // (B,T,2) int32, or empty: begin and end of the document of each token, as positions in its
  // sample. The document of token t is [begin, end), and begin <= t < end; the documents of a sample
  // follow each other without gaps.
  Tensor document_bounds = {};
  Tensor slopes = {};  // (H) fp32, or empty: those of this rank's heads
  float scale = 1.0F;
  Heads heads = {};
  Dropout dropout = {};
};
struct AttentionBackward {
  Tensor dqkv = {};                                // (B,T,H,3,D) x, written
  Tensor dout = {};                                // (B,T,H,D) x
  Tensor out = {}, lse = {}, kept = {}, qkv = {};  // forward's
  Tensor document_bounds = {}, slopes = {};        // forward's
  float scale = 1.0F;
  float dropout_p = 0.0F;  // forward's; the bits are in `kept`
  // (H*3*D) fp32, or empty: the gradient of a bias of queries, keys and values, which is the sum of dqkv over B and
  // T. A backend may add up numbers before they are rounded to x. That of keys is 0 exactly, on every backend: the
  // gradients of a query's scores add up to 0, because softmax ignores what all scores have in common.
  Tensor dqkv_bias = {};
  bool accumulate = true;  // of dqkv_bias
};

// Rotary positions, in place: of each query and key, P pairs of elements (a, b) become
//   (a cos - b sin, b cos + a sin)
// with cosine and sine of position and pair, or with the opposite angle where `inverse` (backward).
// The pairs are elements i and P + i, or 2i and 2i + 1 where `interleaved`; elements from 2P on stay.
// [Su et al. 2021, arXiv:2104.09864]
struct Rotary {
  Tensor qkv = {};     // (B,T,G,R+2,D) x: of each group R queries, a key and a value
  Tensor angles = {};  // (S,2,P) fp32: cosines and sines of the positions 0 ... S-1; S >= T
  Tensor document_bounds = {};  // as in Attention; if it is given, positions count from its begin
  bool interleaved = false, inverse = false;
};

// Turns numbers into fp8: value * scale, rounded to the nearest number of the format, where
//   value = inp,  gelu(pre) without `inp`,  or inp * gelu'(pre) with both.
// What is too large becomes the format's largest number. An infinite value becomes NaN, so that it
// is found in what follows. Products read an operand by rows of the dimension that they sum over, so
// forward needs other copies than backward. [Micikevicius et al. 2022, arXiv:2209.05433]
struct Quantize {
  Tensor rows = {}, transposed = {};  // (N,C), (C,N) fp8 of one format, written; one may be empty
  Tensor value = {};                  // (N,C) x, or empty; written; may be inp's memory
  Tensor column_sums = {};            // (C) fp32, or empty: sums of value over rows
  bool accumulate = true;             // of column_sums
  // (2) fp32: 1 / scale, which products multiply with, and the scale. On CUDA it is 16-byte aligned.
  Tensor scaling = {};
  // The scale is derived from the largest |value| (fp8_scale), and `scaling` is written. Else it is read.
  bool derives_scale = false;
  Tensor amax = {};           // (1) fp32, or empty: becomes the maximum of itself and all |value|
  Tensor inp = {}, pre = {};  // (N,C) x
  Gelu gelu = Gelu::kTanh;
};

// out (M,N) = a (M,K) * b (N,K)^T, times both inverse scales, plus bias. This is all products of a
// linear layer: forward takes inp and weight, the gradient of inp dout and the transposed weight, that
// of the weight the transposed dout and the transposed inp.
struct Fp8Product {
  Tensor out = {};                        // (M,N) x, or fp32 where it may accumulate
  Tensor a = {}, b = {};                  // fp8, at most one of them e5m2
  Tensor a_scaling = {}, b_scaling = {};  // (2) fp32, Quantize's
  Tensor bias = {};                       // (N) x, or empty
  bool accumulate = false;
  // A GPU may add up products in fewer digits than fp32 has.
  bool sums_fast = false;
};

// Delayed scaling: derives each tensor's next scale from its last amaxes. A row of `states` is {1 / scale,
// scale, history of amaxes}, perhaps with padding; amaxes[i] is written to place `slot` of the history and becomes 0. The
// scale follows (fp8_scale) from that amax or, with `uses_maximum`, from the largest in the history,
// and stays where that is 0. An amax that is not finite counts as 0.
// [TransformerEngine, DelayedScaling recipe]
struct Fp8ScalingUpdate {
  Tensor states = {};  // (n,R) fp32, R >= 2 + history_len
  int64_t history_len = 1;
  Tensor amaxes = {};  // (n) fp32
  DType format = DType::kFloat8E4M3;
  int64_t slot = 0;
  int64_t margin = 0;
  bool uses_maximum = false;
};

// The arguments of AdamW over one flat range [Loshchilov & Hutter 2019]. All tensors have n
// elements; n is a multiple of kOptimizerBlock.
struct AdamW {
  Tensor param;   // (n) x: the weights that the GEMMs read; written. fp32 models: same as `master`
  Tensor master;  // (n) fp32; empty for bf16 models
  Tensor remainder;  // bf16 models: what param lacks of its masters, uint8 (split_master.h)
  Tensor m, v;       // (n) fp32; or both bf16, which are rounded at random (moment_rounding.h)
  Tensor grad;       // (n) fp32
  Tensor decays;     // (n / kOptimizerBlock) uint8: 1 where weight decay applies
  Tensor clip;       // (2) fp32, from clip_coefficient: gradients are multiplied by element 1
  // These are fp64, as in PyTorch, because 1 - 0.999F is off by 1e-5. Terms like 1 - beta are
  // formed in fp64 and then used as fp32.
  double lr = 0, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  int64_t step = 1;  // 1 for the first update (bias correction)
  // For moments in bf16: the seed of the random numbers, and (n / kOptimizerBlock) int32, the number of
  // each block in the whole model.
  uint64_t seed = 0;
  Tensor block_numbers;
};
constexpr int64_t kOptimizerBlock = 1024;

// The sizes that the workspace must serve and tune() prepares for; a size that does not occur is 0.
struct WorkspaceShape {
  int64_t B = 0, T = 0, C = 0, H = 0, D = 0, F = 0, Vp = 0;
  int64_t G = 0;  // groups of queries; 0 where every query has its own key and value
  DType x = DType::kFloat32;
  DType r = x;
  Gelu gelu = Gelu::kTanh;
  bool has_qkv_bias = true, has_fc1_bias = true;
  // attention_backward takes dqkv_bias, so the product for the weight of qkv sums no gradient of its bias.
  bool attention_sums_qkv_bias = false;
  bool has_glu = false;
  // The products of the layers are fp8's; gradients have this format.
  std::optional<DType> fp8_gradients = {};
  bool has_fp8_weight_gradients = true;  // else gradients of weights are products in x

  int64_t qkv_size() const { return (H + 2 * (G > 0 ? G : H)) * D; }
  int64_t fc1_size() const { return (has_glu ? 2 : 1) * F; }
};

class Backend {
 public:
  virtual ~Backend() = default;

  // --- device ---
  virtual DeviceKind kind() const = 0;
  // For example "NVIDIA H200 (sm_90, 139 GiB)" or "CPU (16 threads)".
  virtual std::string description() const = 0;
  // Differs between any two GPUs (their UUID); empty for a CPU.
  virtual std::string device_id() const = 0;
  virtual int64_t total_memory_bytes() const = 0;
  virtual int64_t free_memory_bytes() const = 0;
  virtual bool has_fp8_products() const = 0;  // a GPU may be too old for fp8_product()
  // Returns zeroed memory, 256-byte aligned. The backend frees what is left when it is destroyed.
  // Throws std::bad_alloc, or DeviceOutOfMemory where it is a GPU's memory that is exhausted.
  virtual void* allocate(int64_t num_bytes, Memory memory) = 0;
  virtual void release(void* data, Memory memory) = 0;
  // Copies between any two memories. The copy is asynchronous when the host side is pinned;
  // otherwise `src` may be reused on return.
  virtual void copy(void* dst, const void* src, int64_t num_bytes, Stream stream) = 0;
  virtual void zero(Tensor tensor) = 0;
  virtual void cast(Tensor dst, Tensor src) = 0;  // fp32 <-> x, same number of elements
  virtual EventId create_event() = 0;
  // A timed event may be given to elapsed_ms(); each record of it also writes the device's clock.
  virtual EventId create_timed_event() = 0;
  virtual void record(EventId event, Stream stream) = 0;
  virtual void wait(Stream stream, EventId event) = 0;  // the stream waits, the host does not
  virtual void synchronize(EventId event) = 0;          // the host waits
  virtual void synchronize() = 0;                       // the host waits for everything
  // Tells whether all work before the event's last record is done. It never waits.
  virtual bool has_happened(EventId event) = 0;
  // Both events must be timed and have happened.
  virtual float elapsed_ms(EventId start, EventId stop) = 0;
  // The stream for libraries that enqueue work of their own: a cudaStream_t; null on the CPU.
  virtual void* native_stream(Stream stream) const = 0;

  // All operations share one scratch memory, which is planned at start: the caller asks for its
  // size, allocates it and passes it to set_workspace.
  virtual int64_t workspace_bytes(const WorkspaceShape& shape) const = 0;
  virtual void set_workspace(void* data, int64_t num_bytes) = 0;

  // --- choice of algorithms ---
  // Times the matrix products of `shape` that the table of algorithms lacks, and adds them to it.
  // It allocates and waits; it needs no workspace and leaves none behind. Returns notes for the
  // user, a line each, for example that the table's file cannot be written.
  virtual std::string tune(const WorkspaceShape& shape) = 0;
  // Returns the table as text, sorted: equal texts mean equal bits. It is empty where nothing is
  // timed.
  virtual std::string algorithms() const = 0;
  // Takes the choices of such a text before tune(); they win over those of the file. Throws
  // std::runtime_error for a text of another kind.
  virtual void use_algorithms(const std::string& text) = 0;

  // --- embedding ---
  // out[n] = word[tokens[n] - first_word]. A token outside [first_word, first_word + rows of word)
  // belongs to another rank and gives zeros.
  // out (B,T,C) x; tokens (B,T) int32; word (Vp/tp,C) x.
  virtual void embedding_forward(Tensor out, Tensor tokens, Tensor word, int64_t first_word) = 0;
  // Adds the rows of dout to dword, in order of position.
  // dword (Vp/tp,C) fp32, accumulated; dout (B,T,C) x.
  virtual void embedding_backward(Tensor dword, Tensor dout, Tensor tokens, int64_t first_word) = 0;

  // --- the residual stream ---
  virtual void residual_norm_forward(const ResidualNorm& args) = 0;
  virtual void residual_norm_backward(const ResidualNormBackward& args) = 0;

  // --- linear layers; weight (O,I) as Megatron stores it ---
  // out = inp * weight^T + bias. out (N,O), inp (N,I) x; bias (O) x or empty.
  virtual void linear_forward(Tensor out, Tensor inp, Tensor weight, Tensor bias) = 0;
  // dinp = dout * weight. dinp (N,I), dout (N,O) x.
  virtual void linear_backward_input(Tensor dinp, Tensor dout, Tensor weight) = 0;
  // pre = inp * weight^T + bias, and out = gelu(pre) with the bits of gelu_forward: fc1 and its activation.
  // out, pre (N,O), inp (N,I) x; bias (O) x or empty.
  virtual void linear_gelu_forward(Tensor out, Tensor pre, Tensor inp, Tensor weight, Tensor bias,
                                   Gelu gelu) = 0;
  // dpre = (dout * weight) * gelu'(pre): the backward of fc2 into fc1's output; dbias (+)= column sums of
  // dpre, before or after its rounding, unless it is empty. dpre, pre (N,I) x; dbias (I) fp32.
  virtual void linear_gelu_backward_input(Tensor dpre, Tensor dbias, Tensor dout, Tensor weight,
                                          Tensor pre, Gelu gelu, bool accumulate) = 0;
  // dweight (O,I) fp32 += dout^T * inp; dbias (O) fp32 += column sums of dout, unless it is empty.
  virtual void linear_backward_weight(Tensor dweight, Tensor dbias, Tensor dout, Tensor inp,
                                      bool accumulate) = 0;

  // --- linear layers in fp8; on CUDA sizes are multiples of 16 ---
  virtual void quantize(const Quantize& args) = 0;
  // Transposes what is in fp8: rows (N,C) to transposed (C,N).
  virtual void transpose_fp8(Tensor transposed, Tensor rows) = 0;
  virtual void fp8_product(const Fp8Product& args) = 0;
  virtual void update_fp8_scaling(const Fp8ScalingUpdate& args) = 0;
  // Tells how far a product is from another one of the same operands: out (2) fp32 = {sum of (value -
  // reference)^2, sum of reference^2}, plus out where `accumulate`. The order is fixed.
  // value, reference x, of one shape.
  virtual void squared_error(Tensor out, Tensor value, Tensor reference, bool accumulate) = 0;

  // --- activations: functions of what is stored, so backward can compute them again to the bit ---
  // out = gelu(pre). out, pre (N,F) x.
  virtual void gelu_forward(Tensor out, Tensor pre, Gelu gelu) = 0;
  // out = act(gate) * up. The columns of pre (N,2F) are [gate, up]; out (N,F) x.
  virtual void glu_forward(Tensor out, Tensor pre, Glu glu) = 0;
  // dpre (N,2F) = the gradients of gate and up. dout (N,F), pre (N,2F) x.
  virtual void glu_backward(Tensor dpre, Tensor dout, Tensor pre, Glu glu) = 0;

  // --- attention ---
  virtual void rotate(const Rotary& args) = 0;
  // Queries in groups of R that share a key and a value [Ainslie et al. 2023, arXiv:2305.13245]:
  // expanded (B,T,G*R,3,D) = each query of grouped (B,T,G,R+2,D) x with the key and value of its
  // group, in the layout of Attention.
  virtual void expand_groups(Tensor expanded, Tensor grouped) = 0;
  // Backward: grouped = the gradients in `expanded`, where those of keys and values are summed over
  // the queries of the group, in order.
  virtual void sum_groups(Tensor grouped, Tensor expanded) = 0;
  virtual void attention_forward(const Attention& args) = 0;
  virtual void attention_backward(const AttentionBackward& args) = 0;

  // --- loss ---
  // losses[n] = (logsumexp(logits[n, :V]) - logits[n, targets[n]]) * loss_mask[n], where V is
  // vocabulary_size: columns from V to Vp - 1 are left out of the sum and get gradient 0. With
  // `gradient` the logits are replaced by d(sum of losses * gradient_scale)/d(logits).
  // losses (N) fp32; logits (N,Vp) x; targets (N) int32; loss_mask (N) fp32, or empty: all ones.
  virtual void cross_entropy(Tensor losses, Tensor logits, Tensor targets, Tensor loss_mask,
                             int64_t vocabulary_size, float gradient_scale, bool gradient) = 0;
  // The same over a vocabulary that is sharded over R ranks, in two operations around one all-gather
  // of the statistics. The columns of logits (N,Vp/R) are the words from first_word on; words from
  // vocabulary_size on are left out. statistics (N,3) fp32: the largest logit, the sum of
  // exponentials relative to it, and the target's logit (0 where another rank has it).
  virtual void cross_entropy_statistics(Tensor statistics, Tensor logits, Tensor targets,
                                        int64_t first_word, int64_t vocabulary_size) = 0;
  // Takes the statistics (R,N,3) of all ranks. Every rank gets all losses; with `gradient` the
  // logits are replaced by their gradients as above.
  virtual void cross_entropy_gradient(Tensor losses, Tensor logits, Tensor statistics,
                                      Tensor targets, Tensor loss_mask, int64_t first_word,
                                      int64_t vocabulary_size, float gradient_scale,
                                      bool gradient) = 0;
  // out[b] = sum of losses[b, :] / sum of loss_mask[b, :]: the mean loss of each sample over its unmasked
  // tokens, and 0 for a sample whose tokens are all masked. The order of the sums is fixed.
  // out (B), losses (B,T) fp32 as cross_entropy leaves them; loss_mask (B,T) fp32, or empty: all ones.
  virtual void sample_losses(Tensor out, Tensor losses, Tensor loss_mask) = 0;
  // out (1) fp32 = scale * sum of inp (N) fp32, plus out where `accumulate`. The order is fixed.
  virtual void sum(Tensor out, Tensor inp, float scale, bool accumulate) = 0;

  // --- optimizer ---
  // out (1) fp32 = sum of squares of inp (n) fp32. The order is fixed.
  virtual void sum_of_squares(Tensor out, Tensor inp) = 0;
  // clip (2) fp32. Element 0 is norm = sqrt(sum_of_squares); element 1 is the factor that clips,
  // min(1, max_norm / (norm + 1e-6)), or 1 where max_norm == 0.
  virtual void clip_coefficient(Tensor clip, Tensor sum_of_squares, float max_norm) = 0;
  virtual void adamw(const AdamW& args) = 0;
  // param = master, rounded to bf16; remainder = what it lacks of it (split_master.h).
  // param (n) bf16, remainder uint8, master (n) fp32; n is a multiple of kOptimizerBlock.
  virtual void split_masters(Tensor param, Tensor remainder, Tensor master) = 0;
  // The inverse.
  virtual void join_masters(Tensor master, Tensor param, Tensor remainder) = 0;
};

// Creates the CPU backend: plain loops over threads, and OpenBLAS. num_threads == 0 means
// OMP_NUM_THREADS, or else the number of CPUs of this process.
std::unique_ptr<Backend> create_cpu_backend(int num_threads = 0);
// Creates the CUDA backend of one device. `algorithm_file` keeps the table of timed GEMM algorithms;
// with an empty name nothing is timed. Throws std::invalid_argument with a hint where there was no
// toolkit at build time, there is no driver, or there is no such device; std::runtime_error where
// the file is of another kind.
std::unique_ptr<Backend> create_cuda_backend(int device_idx, const std::string& algorithm_file);
// Returns the number of usable CUDA devices. Where it is 0, *why tells the reason.
int num_cuda_devices(std::string* why = nullptr);

}  // namespace weft
