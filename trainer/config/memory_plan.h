// Every buffer of a run, known before anything is allocated: one allocation per class, nothing is
// allocated in a step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/backend.h"

namespace weft {

enum class MemoryClass {
  kParameters,   // x, what the GEMMs read
  kGradients,    // fp32
  kOptimizer,    // fp32 master copies (bf16 models) and Adam's moments
  kActivations,  // kept from forward for backward
  kScratch,      // live within one layer's forward or backward
  kLogits,       // logits, then their gradients
  kWorkspace,    // of the backend's operations
  kBatch,        // tokens, targets, masks, results
  kPinnedHost,   // results as the host reads them
};
constexpr int kNumMemoryClasses = 9;
const char* name_of(MemoryClass memory_class);

class MemoryPlan {
 public:
  struct Buffer {
    MemoryClass memory_class;
    std::string name;
    int64_t offset_bytes = 0, num_bytes = 0;  // within the class; offsets are multiples of 256
    Tensor* tensor = nullptr;
  };

  MemoryPlan() = default;
  MemoryPlan(const MemoryPlan&) = delete;
  MemoryPlan& operator=(const MemoryPlan&) = delete;
  ~MemoryPlan();

  // Plans a buffer; `tensor` has its shape at once and its memory after allocate(). It must outlive
  // the plan's use.
  void add(MemoryClass memory_class, std::string name, Tensor* tensor, DType dtype,
           std::initializer_list<int64_t> shape);

  // Allocates each class (zeroed) and gives every tensor its memory. Throws std::bad_alloc; the
  // plan then holds nothing.
  void allocate(Backend& backend);

  const std::vector<Buffer>& buffers() const { return buffers_; }
  int64_t class_bytes(MemoryClass memory_class) const;
  int64_t device_bytes() const;  // all classes but pinned host memory
  // A table for people: class, MiB, and the largest buffers' names.
  std::string to_string() const;

 private:
  void release();
  std::vector<Buffer> buffers_;
  int64_t class_bytes_[kNumMemoryClasses] = {};
  void* memory_[kNumMemoryClasses] = {};
  Backend* backend_ = nullptr;
};

}  // namespace weft
