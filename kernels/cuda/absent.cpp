// Stands in for the CUDA backend where the toolkit was not found at build time.
#include <stdexcept>

#include "kernels/backend.h"
#include "kernels/flash_kernels.h"

namespace weft {

namespace {
constexpr const char* kWhy =
    "this build has no CUDA backend (the CUDA toolkit was not found when it was configured); "
    "install the toolkit and build again, or use --device cpu";
}

std::unique_ptr<Backend> create_cuda_backend(int) { throw std::invalid_argument(kWhy); }

int num_cuda_devices(std::string* why) {
  if (why != nullptr) *why = kWhy;
  return 0;
}

std::string flash_kernels() { throw std::invalid_argument(kWhy); }

}  // namespace weft
