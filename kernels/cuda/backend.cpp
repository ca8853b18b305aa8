#include "kernels/cuda/backend.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <stdexcept>

#include "kernels/cuda/device/check.h"
#include "kernels/cuda_scratch.h"

namespace weft {
namespace cuda {
namespace {

// bf16 tensor cores and asynchronous copies begin with Ampere.
constexpr int kMinimumMajor = 8;

cudaDeviceProp properties_of(int device_idx) {
  std::string why;
  const int count = num_cuda_devices(&why);
  if (count == 0) throw std::invalid_argument("no usable CUDA device: " + why);
  if (device_idx < 0 || device_idx >= count)
    throw std::invalid_argument("there is no CUDA device " + std::to_string(device_idx) + " (" +
                                std::to_string(count) +
                                " found); start no more ranks per node than it has GPUs");
  cudaDeviceProp properties;
  CUDA_CHECK(cudaGetDeviceProperties(&properties, device_idx));
  return properties;
}

}  // namespace

CudaBackend::CudaBackend(int device_idx)
    : device_idx_(device_idx), properties_(properties_of(device_idx)) {
  CUDA_CHECK(cudaSetDevice(device_idx));
  CUDA_CHECK(cudaStreamCreateWithFlags(&context_.stream, cudaStreamNonBlocking));
  CUDA_CHECK(cudaStreamCreateWithFlags(&copy_, cudaStreamNonBlocking));
  int lowest = 0, highest = 0;
  CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
  CUDA_CHECK(cudaStreamCreateWithPriority(&communication_, cudaStreamNonBlocking, highest));
  CUDA_CHECK(cudaStreamCreateWithPriority(&reduction_, cudaStreamNonBlocking, highest));
  gemm_ = std::make_unique<Gemm>(context_.stream, properties_.name);
  context_.gemm = gemm_.get();
  context_.num_multiprocessors = properties_.multiProcessorCount;
  work_counter_ = std::make_unique<WorkCounter>();
  context_.work_counter = work_counter_->data();
}

CudaBackend::~CudaBackend() {
  cudaDeviceSynchronize();
  gemm_.reset();
  work_counter_.reset();
  for (const cudaEvent_t event : events_) cudaEventDestroy(event);
  for (const auto& [data, memory] : allocations_) {
    if (memory == Memory::kDevice) {
      cudaFree(data);
    } else {
      cudaFreeHost(data);
    }
  }
  cudaStreamDestroy(context_.stream);
  cudaStreamDestroy(communication_);
  cudaStreamDestroy(reduction_);
  cudaStreamDestroy(copy_);
}

std::string CudaBackend::description() const {
  return std::string(properties_.name) + " (sm_" + std::to_string(properties_.major) +
         std::to_string(properties_.minor) + ", " + std::to_string(total_memory_bytes() >> 30) +
         " GiB)";
}

// As nvidia-smi -L prints it.
std::string CudaBackend::device_id() const {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text = "GPU-";
  for (size_t i = 0; i < sizeof properties_.uuid.bytes; ++i) {
    const auto byte = static_cast<unsigned char>(properties_.uuid.bytes[i]);
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

int64_t CudaBackend::total_memory_bytes() const {
  return static_cast<int64_t>(properties_.totalGlobalMem);
}

int64_t CudaBackend::free_memory_bytes() const {
  size_t free_bytes = 0, total_bytes = 0;
  CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
  return static_cast<int64_t>(free_bytes);
}

bool CudaBackend::has_fp8_products() const {
  return properties_.major * 10 + properties_.minor >= 89;  // compute capability 8.9
}

void* CudaBackend::allocate(int64_t num_bytes, Memory memory) {
  void* data = nullptr;
  const size_t size = static_cast<size_t>(std::max<int64_t>(num_bytes, 1));
  const cudaError_t error = memory == Memory::kDevice
                                ? cudaMalloc(&data, size)
                                : cudaHostAlloc(&data, size, cudaHostAllocDefault);
  if (error == cudaErrorMemoryAllocation && memory == Memory::kPinnedHost) {
    cudaGetLastError();  // clears the error, which is not sticky
    throw std::bad_alloc();
  }
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    throw DeviceOutOfMemory("CUDA: " + std::to_string(size >> 20) + " MiB are wanted on " +
                            description() + ", which has " +
                            std::to_string(free_memory_bytes() >> 20) +
                            " MiB free; use a smaller micro-batch or a smaller model");
  }
  CUDA_CHECK(error);
  allocations_.emplace(data, memory);
  if (memory == Memory::kDevice) {
    CUDA_CHECK(cudaMemsetAsync(data, 0, size, context_.stream));
    CUDA_CHECK(cudaStreamSynchronize(context_.stream));  // the copy stream may use it next
  } else {
    std::memset(data, 0, size);
  }
  return data;
}

void CudaBackend::release(void* data, Memory memory) {
  if (data == nullptr) return;
  const auto it = allocations_.find(data);
  if (it == allocations_.end() || it->second != memory)
    throw std::invalid_argument(
        "release: this memory was not allocated here, or is of the other kind");
  allocations_.erase(it);
  CUDA_CHECK(memory == Memory::kDevice ? cudaFree(data) : cudaFreeHost(data));
}

void CudaBackend::copy(void* dst, const void* src, int64_t num_bytes, Stream stream) {
  CUDA_CHECK(cudaMemcpyAsync(dst, src, static_cast<size_t>(num_bytes), cudaMemcpyDefault,
                             stream_of(stream)));
}

EventId CudaBackend::create_event() {
  CUDA_CHECK(cudaEventCreateWithFlags(&events_.emplace_back(), cudaEventDisableTiming));
  return static_cast<EventId>(events_.size()) - 1;
}

EventId CudaBackend::create_timed_event() {
  CUDA_CHECK(cudaEventCreate(&events_.emplace_back()));
  return static_cast<EventId>(events_.size()) - 1;
}

cudaEvent_t CudaBackend::event_of(EventId event) const {
  if (event < 0 || static_cast<size_t>(event) >= events_.size())
    throw std::invalid_argument("there is no event " + std::to_string(event));
  return events_[static_cast<size_t>(event)];
}

void CudaBackend::record(EventId event, Stream stream) {
  CUDA_CHECK(cudaEventRecord(event_of(event), stream_of(stream)));
}

void CudaBackend::wait(Stream stream, EventId event) {
  CUDA_CHECK(cudaStreamWaitEvent(stream_of(stream), event_of(event), 0));
}

void CudaBackend::synchronize(EventId event) {
  CUDA_CHECK(cudaEventSynchronize(event_of(event)));
#ifndef NDEBUG
  work_counter_->check(context_.stream);
#endif
}

void CudaBackend::synchronize() {
  CUDA_CHECK(cudaDeviceSynchronize());
  work_counter_->check(context_.stream);
}

bool CudaBackend::has_happened(EventId event) {
  const cudaError_t error = cudaEventQuery(event_of(event));
  if (error == cudaErrorNotReady) {
    cudaGetLastError();  // clears the answer, which is no failure
    return false;
  }
  CUDA_CHECK(error);
  return true;
}

float CudaBackend::elapsed_ms(EventId start, EventId stop) {
  float ms = 0.0F;
  CUDA_CHECK(cudaEventElapsedTime(&ms, event_of(start), event_of(stop)));
  return ms;
}

// Other threads may use the device meanwhile: training saves and communicates.
std::function<void()> CudaBackend::repeatable(const std::function<void()>& enqueue) {
  const cudaStream_t stream = context_.stream;
  cudaGraph_t graph = nullptr;
  CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  try {
    enqueue();
  } catch (...) {
    cudaStreamEndCapture(stream, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();  // The recording has failed for the reason that is thrown.
    throw;
  }
  CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t recording = nullptr;
  const cudaError_t error = cudaGraphInstantiate(&recording, graph, 0);
  cudaGraphDestroy(graph);
  CUDA_CHECK(error);
  return [stream, owned = std::shared_ptr<CUgraphExec_st>(recording, cudaGraphExecDestroy)] {
    CUDA_CHECK(cudaGraphLaunch(owned.get(), stream));
  };
}

int64_t CudaBackend::workspace_bytes(std::span<const AnyOperation> operations) const {
  for (const AnyOperation& operation : operations) {
    if (std::holds_alternative<Fp8Product>(operation) && !has_fp8_products())
      throw std::invalid_argument(
          "fp8 products: " + description() +
          " has none; compute capability 8.9 is needed (Ada, Hopper); leave "
          "--fp8-format out");
  }
  return cuda::workspace_bytes(operations, properties_.multiProcessorCount);
}

void CudaBackend::set_workspace(void* data, int64_t num_bytes) {
  const bool none = data == nullptr && num_bytes == 0;
  if (!none && (data == nullptr || reinterpret_cast<uintptr_t>(data) % 256 != 0 ||
                num_bytes < Gemm::kWorkspaceBytes))
    throw std::invalid_argument(
        "set_workspace: needs what workspace_bytes says, aligned to 256 bytes");
  gemm_->set_workspace(data);
  context_.scratch_data = none ? nullptr : static_cast<char*>(data) + Gemm::kWorkspaceBytes;
  context_.scratch_bytes = none ? 0 : num_bytes - Gemm::kWorkspaceBytes;
}

}  // namespace cuda

std::unique_ptr<Backend> create_cuda_backend(int device_idx) {
  return std::make_unique<cuda::CudaBackend>(device_idx);
}

int num_cuda_devices(std::string* why) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  std::string reason;
  if (error != cudaSuccess) {
    cudaGetLastError();  // clears the error: asking is no failure
    count = 0;
    reason = std::string(cudaGetErrorString(error)) +
             "; check nvidia-smi and CUDA_VISIBLE_DEVICES, or use --device cpu";
  } else if (count == 0) {
    reason = "no CUDA device is visible; check CUDA_VISIBLE_DEVICES, or use --device cpu";
  }
  for (int device = 0; device < count; ++device) {
    int major = 0;
    CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
    if (major >= cuda::kMinimumMajor) continue;
    reason = "CUDA device " + std::to_string(device) + " has compute capability " +
             std::to_string(major) +
             ".x and 8.0 is needed; hide it with CUDA_VISIBLE_DEVICES, or " + "use --device cpu";
    count = device;  // the devices before it keep their numbers
  }
  if (why != nullptr) *why = reason;
  return count;
}

}  // namespace weft
