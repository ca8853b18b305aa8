#include "tests/trainer/recording_backend.h"

#include <memory>

#include "kernels/forwarding_backend.h"

namespace weft {

std::vector<Pass> passes;

namespace {

class RecordingBackend final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  void embedding_forward(Tensor out, Tensor tokens, Tensor word, int64_t first) override {
    const auto* ids = tokens.as<const int32_t>();
    passes.push_back({{ids, ids + tokens.num_elements()}, false});
    ForwardingBackend::embedding_forward(out, tokens, word, first);
  }
  void cross_entropy(Tensor losses, Tensor logits, Tensor targets, Tensor mask, int64_t vocabulary,
                     float gradient_scale, bool gradient) override {
    if (mask) {
      const auto* values = mask.as<const float>();
      passes.back().mask.assign(values, values + mask.num_elements());
    }
    ForwardingBackend::cross_entropy(losses, logits, targets, mask, vocabulary, gradient_scale,
                                     gradient);
  }
  void embedding_backward(Tensor dword, Tensor dout, Tensor tokens, int64_t first) override {
    passes.back().trains = true;
    ForwardingBackend::embedding_backward(dword, dout, tokens, first);
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
