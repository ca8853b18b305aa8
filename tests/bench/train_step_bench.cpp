// Time of a whole training step on random tokens: tok/s, model TFLOP/s, memory, where the time
// goes.
//
//   weft_train_step_bench --device cuda        GPT-2 124M, 64 x 1024, bf16
//   weft_train_step_bench --device cuda --num-layers 24 --hidden-size 2304 ...
//       --num-attention-heads 24 --seq-length 2048 --micro-batch-size 8 --padded-vocab-size 51200
//                                              the 1.7B of arXiv:2104.04473, table 1
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "kernels/numbers/philox.h"
#include "trainer/step/trainer.h"

namespace weft {
namespace {

struct Options {
  std::string device = "cuda", dtype = "bf16", gemm_algorithm_cache;
  int64_t num_layers = 12, hidden_size = 768, num_heads = 12, seq_length = 1024;
  int64_t padded_vocab_size = 50304, micro_batch_size = 64, num_micro_batches = 1;
  float dropout = 0;
  bool sample_losses = false, fp32_residual = false, muon = false;
  int64_t recompute_uniform = 0, recompute_block = 0, logits_chunk = 0;
  std::vector<std::string> recompute_modules;
  int num_steps = 20, num_warmup_steps = 5;

  void declare(CLI::App& app) {
    app.add_option("--device", device, "cuda or cpu")->capture_default_str();
    app.add_option("--dtype", dtype, "bf16, fp32, or on a CPU fp16")
        ->check(CLI::IsMember({"bf16", "fp16", "fp32"}))
        ->capture_default_str();
    app.add_option("--num-layers", num_layers)->capture_default_str();
    app.add_option("--hidden-size", hidden_size)->capture_default_str();
    app.add_option("--num-attention-heads", num_heads)->capture_default_str();
    app.add_option("--seq-length", seq_length)->capture_default_str();
    app.add_option("--padded-vocab-size", padded_vocab_size)->capture_default_str();
    app.add_option("--micro-batch-size", micro_batch_size)->capture_default_str();
    app.add_option("--num-micro-batches", num_micro_batches)->capture_default_str();
    app.add_option("--dropout", dropout, "of attention and hidden units")->capture_default_str();
    app.add_flag("--fp32-residual-connection", fp32_residual, "as weft-train's");
    app.add_flag("--muon", muon, "the matrices of layers by Muon, with weft-train's defaults");
    app.add_flag("--sample-losses", sample_losses,
                 "keep the loss of each sample, as training does");
    app.add_option("--recompute-uniform", recompute_uniform, "layers of a recomputed group");
    app.add_option("--recompute-block", recompute_block, "layers that are recomputed one by one");
    app.add_option("--recompute-modules", recompute_modules, "parts of every layer")
        ->check(CLI::IsMember({"layernorm", "activation", "mlp"}));
    app.add_option("--logits-chunk", logits_chunk, "tokens whose logits are in memory at a time");
    app.add_option("--steps", num_steps, "timed steps")->capture_default_str();
    app.add_option("--warmup-steps", num_warmup_steps)->capture_default_str();
    app.add_option("--gemm-algorithm-cache", gemm_algorithm_cache, "file; empty: none");
  }

  TrainerOptions trainer() const {
    TrainerOptions options;
    ModelShape& shape = options.shape;
    shape.num_layers = num_layers;
    shape.hidden_size = hidden_size;
    shape.num_heads = num_heads;
    shape.head_size = hidden_size / num_heads;
    shape.ffn_size = 4 * hidden_size;
    shape.seq_length = shape.max_positions = seq_length;
    shape.vocab_size = shape.padded_vocab_size = padded_vocab_size;
    shape.micro_batch_size = micro_batch_size;
    shape.attention_dropout = shape.hidden_dropout = dropout;
    if (sample_losses) options.num_sample_losses = num_micro_batches * micro_batch_size;
    using Method = RecomputeOptions::Method;
    if (recompute_uniform > 0) options.recompute = {Method::kUniform, recompute_uniform};
    if (recompute_block > 0) options.recompute = {Method::kBlock, recompute_block};
    for (const std::string& module : recompute_modules) {
      (module == "mlp"          ? options.recompute.mlp
       : module == "activation" ? options.recompute.activation
                                : options.recompute.norms) = true;
    }
    options.logits_chunk = logits_chunk;
    shape.dtype = dtype == "bf16"   ? DType::kBFloat16
                  : dtype == "fp16" ? DType::kFloat16
                                    : DType::kFloat32;
    shape.has_fp32_residual = fp32_residual;
    if (muon)
      options.optimizer.muon = {.extra_scale = 0.2,
                                .iterations = newton_schulz_iterations("quintic", 5)};
    return options;
  }
};

// Random tokens in pinned memory, the same for every step.
struct PinnedBatch {
  PinnedBatch(Backend& backend, const Options& options) {
    const int64_t n = options.num_micro_batches * options.micro_batch_size * options.seq_length;
    auto* memory = static_cast<int32_t*>(backend.allocate(2 * n * 4, Memory::kPinnedHost));
    const auto vocab = static_cast<uint32_t>(options.padded_vocab_size);
    for (int64_t i = 0; i < 2 * n; ++i) {
      memory[i] = static_cast<int32_t>(philox_word(1, 2, static_cast<uint64_t>(i)) % vocab);
    }
    batch.num_micro_batches = options.num_micro_batches;
    batch.tokens = memory;
    batch.targets = memory + n;
  }
  GlobalBatch batch;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void print(const Options& options, const ModelShape& shape, const std::vector<StepResult>& results,
           double total_s) {
  std::vector<double> forward, backward, optimizer, sum;
  for (const StepResult& r : results) {
    forward.push_back(static_cast<double>(r.forward_ms));
    backward.push_back(static_cast<double>(r.backward_ms));
    optimizer.push_back(static_cast<double>(r.optimizer_ms));
    sum.push_back(forward.back() + backward.back() + optimizer.back());
  }
  const double s_per_step = total_s / static_cast<double>(results.size());
  const auto tokens = static_cast<double>(options.num_micro_batches * options.micro_batch_size *
                                          options.seq_length);
  std::printf("%.2f ms/step | %.0f tok/s | %.4g model TFLOP/s | loss %.4f | grad norm %.4f\n",
              1e3 * s_per_step, tokens / s_per_step,
              model_flops(shape, tokens) / s_per_step * 1e-12, results.back().loss,
              results.back().grad_norm);
  std::printf("median on the device: forward %.2f + backward %.2f + optimizer %.2f = %.2f ms\n",
              median(forward), median(backward), median(optimizer), median(sum));
}

int run(const Options& options) {
  const std::unique_ptr<Backend> backend =
      options.device == "cuda" ? create_cuda_backend(0) : create_cpu_backend();
  std::printf("%s\n", backend->description().c_str());
  const int64_t total = backend->total_memory_bytes();
  Trainer trainer(*backend, options.trainer());
  std::printf("%lld parameters\n%s", static_cast<long long>(trainer.parameters().num_parameters()),
              trainer.plan().to_string().c_str());
  std::fputs(trainer.tune(options.gemm_algorithm_cache).c_str(), stdout);
  trainer.allocate();
  trainer.initialize_parameters();
  const PinnedBatch batch(*backend, options);

  const StepOptions step_options{.learning_rate = 1e-4};
  for (int step = 0; step < options.num_warmup_steps; ++step) {
    trainer.step(batch.batch, step_options);
    trainer.result();
  }
  // As in training: the next step is enqueued before the last one's result is read.
  std::vector<StepResult> results;
  backend->synchronize();
  const auto start = std::chrono::steady_clock::now();
  for (int step = 0; step < options.num_steps; ++step) {
    trainer.step(batch.batch, step_options);
    if (step > 0) results.push_back(trainer.result());
  }
  results.push_back(trainer.result());
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  print(options, trainer.shape(), results, elapsed.count());
  std::printf("device memory in use, by all processes and the context: %.2f GiB\n",
              static_cast<double>(total - backend->free_memory_bytes()) / (1 << 30));
  return 0;
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  CLI::App app("times a training step on random tokens");
  weft::Options options;
  options.declare(app);
  CLI11_PARSE(app, argc, argv);
  try {
    return weft::run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
