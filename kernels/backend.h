// The model's math: a closed set of fused GPT operations with a CPU and a CUDA implementation.
//
// Shapes: B micro-batch, T sequence, N = B*T rows, C hidden, H heads, D head size, F feed-forward,
// V vocabulary, Vp padded vocabulary. H, F, V and Vp are those of this tensor-parallel rank; "/tp"
// is written where it matters. All tensors are contiguous.
//
// "x" stands for the model's type: kFloat32, kBFloat16 or kFloat16. Activations, their
// gradients and the parameters that the GEMMs read have this type. "r" stands for that of the
// residual stream: x, or kFloat32 beside an x of 16 bits. Parameter gradients are always
// fp32 and are added to what is there (+=) unless `accumulate` is false; activation
// gradients are assigned. Sums are fp32 or better and have a fixed order, so equal calls give equal
// bits.
//
// Every operation is enqueued on the compute stream and returns at once (the CPU executes it in
// place). No operation allocates or waits for the device; tune() does, once, at start. Wrong
// arguments (shapes, types) throw std::invalid_argument, failures of the device throw DeviceLost or
// DeviceOutOfMemory. A backend is not thread-safe: one thread drives it, copies on the copy stream
// included.
//
// An operation is a struct of named fields (kernels/operations), which callers fill by designated
// initialisers: two equal shapes that are swapped by position would pass every check.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "kernels/algorithm_choices.h"
#include "kernels/device_error.h"
#include "kernels/numbers/tensor.h"
#include "kernels/operations/any_operation.h"

namespace weft {

enum class DeviceKind { kCpu, kCuda };
enum class Memory { kDevice, kPinnedHost };
// Operations run on kCompute; nothing runs on the others but what their caller enqueues. The two
// for collectives have a higher priority, so that one that is ready starts before queued kernels.
// kCommunication is for collectives that the next kernels need. kReduction is for large ones that
// run beside the kernels.
enum class Stream { kCompute, kCommunication, kReduction, kCopy };

struct TuneResult {
  std::string notes = {};       // lines for the user
  AlgorithmChoices timed = {};  // the choices that were made
};

// An event marks a point in a stream's work. It is created once and recorded often.
using EventId = int;

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
  virtual bool has_fp8_products() const = 0;  // a GPU may be too old for Fp8Product
  // Returns zeroed memory, 256-byte aligned. The backend frees what is left when it is destroyed.
  // Throws std::bad_alloc, or DeviceOutOfMemory where it is a GPU's memory that is exhausted.
  virtual void* allocate(int64_t num_bytes, Memory memory) = 0;
  virtual void release(void* data, Memory memory) = 0;
  // Copies between any two memories. The copy is asynchronous when the host side is pinned;
  // otherwise `src` may be reused on return.
  virtual void copy(void* dst, const void* src, int64_t num_bytes, Stream stream) = 0;
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
  // Returns a function that enqueues on the compute stream what `enqueue` does, each time with the
  // same arguments; those that change must be in device memory. A GPU records it now and then
  // launches it whole, which costs less than a launch for each kernel; `enqueue` must have run once
  // before, and must not copy from or to memory that is not pinned, or wait. This must outlive the
  // function. A backend that records nothing returns `enqueue`.
  virtual std::function<void()> repeatable(const std::function<void()>& enqueue) { return enqueue; }
  // The stream for libraries that enqueue work of their own: a cudaStream_t; null on the CPU.
  virtual void* native_stream(Stream stream) const = 0;

  // All operations share one scratch memory, which is planned at start: the caller gets
  // the size that serves each of its operations (RecordingBackend lists them), allocates it and
  // passes it to set_workspace. No tensor of theirs is read.
  virtual int64_t workspace_bytes(std::span<const AnyOperation> operations) const = 0;
  virtual void set_workspace(void* data, int64_t num_bytes) = 0;

  // --- choice of algorithms ---
  // Times the GEMMs among `operations` for which neither use_algorithms() nor `known` has a choice.
  // It allocates and waits; it needs no workspace and leaves none behind, and touches no tensor of
  // theirs.
  virtual TuneResult tune(std::span<const AnyOperation> operations,
                          const AlgorithmChoices& known) = 0;
  // Returns the choices in use as text (algorithm_choices.h): equal texts mean equal bits. It is
  // empty where nothing is timed.
  virtual std::string algorithms() const = 0;
  // Takes the choices of such a text; they win over those that are there. Throws
  // std::runtime_error for a text of another kind.
  virtual void use_algorithms(const std::string& text) = 0;

  // --- operations ---
#define WEFT_RUN(Op) virtual void run(const Op& op) = 0;
  WEFT_OPERATIONS(WEFT_RUN)
#undef WEFT_RUN
};

// Runs every operation as derived().visit(op), where `visit` is a template: what backends and their
// wrappers do alike for all operations is written once.
template <typename Derived, typename Base = Backend>
class OperationVisitor : public Base {
 public:
  using Base::Base;
#define WEFT_RUN(Op) \
  void run(const Op& op) override { static_cast<Derived*>(this)->visit(op); }
  WEFT_OPERATIONS(WEFT_RUN)
#undef WEFT_RUN
};

// Creates the CPU backend: plain loops over threads, and OpenBLAS. num_threads == 0 means
// OMP_NUM_THREADS, or else the number of CPUs of this process.
std::unique_ptr<Backend> create_cpu_backend(int num_threads = 0);
// Creates the CUDA backend of one device. Throws std::invalid_argument with a hint where there was
// no toolkit at build time, there is no driver, or there is no such device.
std::unique_ptr<Backend> create_cuda_backend(int device_idx);
// Returns the number of usable CUDA devices. Where it is 0, *why is the reason.
int num_cuda_devices(std::string* why = nullptr);

}  // namespace weft
