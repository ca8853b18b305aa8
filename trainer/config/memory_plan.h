// Every buffer of a run, known before anything is allocated. Each class is one allocation, and a
// step allocates nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/backend.h"

namespace weft {

enum class MemoryClass {
  kParameters,   // x, as the GEMMs read them
  kGradients,    // fp32
  kOptimizer,    // fp32 masters of fp16 weights, what bf16 weights lack of theirs, Adam's moments
  kActivations,  // kept from forward for backward
  kScratch,      // used within one layer's forward or backward
  kLogits,       // logits, then their gradients
  kWorkspace,    // scratch of the backend's operations
  kBatch,        // tokens, targets, masks, results
  kPinnedHost,   // the results' copy that the host reads; the optimizer's state that is offloaded
};
constexpr int kNumMemoryClasses = 9;
const char* name_of(MemoryClass memory_class);

constexpr double to_mib(int64_t num_bytes) { return static_cast<double>(num_bytes) / (1 << 20); }
constexpr double to_gib(int64_t num_bytes) { return static_cast<double>(num_bytes) / (1 << 30); }

class MemoryPlan {
 public:
  struct Buffer {
    MemoryClass memory_class;
    std::string name;
    int64_t offset_bytes = 0, num_bytes = 0;  // place in the class; offsets are multiples of 256
    Tensor* tensor = nullptr;                 // until allocate()
  };

  MemoryPlan() = default;
  MemoryPlan(const MemoryPlan&) = delete;
  MemoryPlan& operator=(const MemoryPlan&) = delete;
  ~MemoryPlan();

  // Plans a buffer. `tensor` gets its shape at once and its memory in allocate(); it must live
  // until then.
  void add(MemoryClass memory_class, std::string name, Tensor* tensor, DType dtype,
           std::initializer_list<int64_t> shape);

  // Allocates each class, zeroed, and gives every tensor its memory, once. Throws std::bad_alloc,
  // and then the plan holds no memory.
  void allocate(Backend& backend);

  const std::vector<Buffer>& buffers() const { return buffers_; }
  int64_t class_bytes(MemoryClass memory_class) const;
  int64_t device_bytes() const;  // all classes but pinned host memory
  // Returns a table for people: class, MiB, and the kinds of its buffers with theirs.
  std::string to_string() const;

 private:
  std::string kinds_of(MemoryClass memory_class) const;
  void release();
  std::vector<Buffer> buffers_;
  int64_t class_bytes_[kNumMemoryClasses] = {};
  void* memory_[kNumMemoryClasses] = {};
  Backend* backend_ = nullptr;
  bool is_allocated_ = false;
};

}  // namespace weft
