#include "trainer/config/memory_plan.h"

#include <algorithm>
#include <cassert>
#include <cstdio>
#include <string_view>
#include <utility>

namespace weft {
namespace {

// This suffices for every vector load and every BLAS; the backend aligns allocations alike.
constexpr int64_t kAlignment = 256;

int64_t align(int64_t num_bytes) { return (num_bytes + kAlignment - 1) / kAlignment * kAlignment; }

Memory memory_of(MemoryClass memory_class) {
  return memory_class == MemoryClass::kPinnedHost ? Memory::kPinnedHost : Memory::kDevice;
}

// Returns the name of a buffer without the number of its layer and slot: "slot 1 layer 12 qkv" is
// "qkv".
std::string kind_of(const std::string& name) {
  size_t begin = 0;
  for (const std::string_view counted : {"slot ", "layer "}) {
    if (name.compare(begin, counted.size(), counted) != 0) continue;
    begin = name.find(' ', begin + counted.size()) + 1;
  }
  return name.substr(begin);
}

}  // namespace

const char* name_of(MemoryClass memory_class) {
  switch (memory_class) {
    case MemoryClass::kParameters:
      return "parameters";
    case MemoryClass::kGradients:
      return "gradients";
    case MemoryClass::kOptimizer:
      return "optimizer";
    case MemoryClass::kActivations:
      return "activations";
    case MemoryClass::kScratch:
      return "scratch";
    case MemoryClass::kLogits:
      return "logits";
    case MemoryClass::kWorkspace:
      return "workspace";
    case MemoryClass::kBatch:
      return "batch";
    case MemoryClass::kPinnedHost:
      return "pinned host";
  }
  return "";
}

MemoryPlan::~MemoryPlan() { release(); }

void MemoryPlan::add(MemoryClass memory_class, std::string name, Tensor* tensor, DType dtype,
                     std::initializer_list<int64_t> shape) {
  *tensor = Tensor(nullptr, dtype, shape);
  int64_t& end = class_bytes_[static_cast<int>(memory_class)];
  buffers_.push_back({memory_class, std::move(name), end, tensor->num_bytes(), tensor});
  end += align(tensor->num_bytes());
}

void MemoryPlan::allocate(Backend& backend) {
  assert(!is_allocated_ && "the tensors of a plan are not known after its first allocation");
  backend_ = &backend;
  try {
    for (int i = 0; i < kNumMemoryClasses; ++i) {
      if (class_bytes_[i] == 0) continue;
      memory_[i] = backend.allocate(class_bytes_[i], memory_of(static_cast<MemoryClass>(i)));
    }
  } catch (...) {
    release();
    throw;
  }
  is_allocated_ = true;
  for (Buffer& buffer : buffers_) {
    char* base = static_cast<char*>(memory_[static_cast<int>(buffer.memory_class)]);
    if (buffer.num_bytes > 0) *buffer.tensor = buffer.tensor->with_data(base + buffer.offset_bytes);
    buffer.tensor = nullptr;  // it may be gone from now on
  }
}

void MemoryPlan::release() {
  for (int i = 0; i < kNumMemoryClasses; ++i) {
    if (memory_[i]) backend_->release(memory_[i], memory_of(static_cast<MemoryClass>(i)));
    memory_[i] = nullptr;
  }
}

int64_t MemoryPlan::class_bytes(MemoryClass memory_class) const {
  return class_bytes_[static_cast<int>(memory_class)];
}

int64_t MemoryPlan::device_bytes() const {
  int64_t sum = 0;
  for (int i = 0; i < kNumMemoryClasses; ++i) {
    if (memory_of(static_cast<MemoryClass>(i)) == Memory::kDevice) sum += class_bytes_[i];
  }
  return sum;
}

// Returns the kinds of buffers in the order of the plan, with their sizes where there are several.
// Those below 1 % of the class are added up.
std::string MemoryPlan::kinds_of(MemoryClass memory_class) const {
  std::vector<std::pair<std::string, int64_t>> kinds;
  for (const Buffer& buffer : buffers_) {
    if (buffer.memory_class != memory_class) continue;
    const std::string kind = kind_of(buffer.name);
    const auto same = [&](const auto& other) { return other.first == kind; };
    const auto it = std::find_if(kinds.begin(), kinds.end(), same);
    if (it == kinds.end()) {
      kinds.emplace_back(kind, buffer.num_bytes);
    } else {
      it->second += buffer.num_bytes;
    }
  }
  std::string text;
  const auto add = [&](const std::string& kind, int64_t num_bytes) {
    char size[32] = "";
    if (kinds.size() > 1) std::snprintf(size, sizeof size, " %.2f", to_mib(num_bytes));
    text += (text.empty() ? "" : ", ") + kind + size;
  };
  int64_t small = 0;
  for (const auto& [kind, num_bytes] : kinds) {
    if (num_bytes * 100 < class_bytes(memory_class)) {
      small += num_bytes;
    } else {
      add(kind, num_bytes);
    }
  }
  if (small > 0) add("others", small);
  return text;
}

std::string MemoryPlan::to_string() const {
  std::string text = "memory plan (MiB)\n";
  char line[256];
  for (int i = 0; i < kNumMemoryClasses; ++i) {
    const auto memory_class = static_cast<MemoryClass>(i);
    if (class_bytes_[i] == 0) continue;
    std::snprintf(line, sizeof line, "  %-12s %12.2f  ", name_of(memory_class),
                  to_mib(class_bytes_[i]));
    text += line + kinds_of(memory_class) + "\n";
  }
  std::snprintf(line, sizeof line, "  %-12s %12.2f\n", "device total", to_mib(device_bytes()));
  return text + line;
}

}  // namespace weft
