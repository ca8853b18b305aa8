#include "tests/trainer/recording_backend.h"

#include <memory>

#include "kernels/forwarding_backend.h"

namespace weft {

std::vector<Pass> passes;

namespace {

class RecordingBackend final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  using ForwardingBackend::run;
  void run(const EmbeddingForward& op) override {
    const auto* ids = op.tokens.as<const int32_t>();
    passes.push_back({{ids, ids + op.tokens.num_elements()}, false});
    ForwardingBackend::run(op);
  }
  void run(const CrossEntropy& op) override {
    if (op.loss_mask) {
      const auto* values = op.loss_mask.as<const float>();
      passes.back().mask.assign(values, values + op.loss_mask.num_elements());
    }
    ForwardingBackend::run(op);
  }
  void run(const EmbeddingBackward& op) override {
    passes.back().trains = true;
    ForwardingBackend::run(op);
  }
};

}  // namespace

// The linker leads the trainer's calls of create_cpu_backend() to the first of these (--wrap).
std::unique_ptr<Backend> create_recording_backend(int num_threads) asm(
    "__wrap__ZN4weft18create_cpu_backendEi");
std::unique_ptr<Backend> create_real_cpu_backend(int num_threads) asm(
    "__real__ZN4weft18create_cpu_backendEi");
std::unique_ptr<Backend> create_recording_backend(int num_threads) {
  return std::make_unique<RecordingBackend>(create_real_cpu_backend(num_threads));
}

}  // namespace weft
