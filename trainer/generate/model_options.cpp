#include "trainer/generate/model_options.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>

#include "trainer/plan/train_setup.h"

namespace weft {

void ModelOptions::declare(OptionSet& options) {
  options.text("--load", load.folder,
               "checkpoint folder (weft-train's --save), or a Hugging Face folder of GPT-2, BLOOM, "
               "LLaMA, Mistral, Qwen2 or Qwen3");
  options.integer("--ckpt-step", load.step, "iteration of the checkpoint; default: the latest");
  tokenizer.declare(options);
  options.choice("--device", device, {{"auto", "auto"}, {"cpu", "cpu"}, {"cuda", "cuda"}},
                 "where the model runs; auto is a GPU where there is one");
  options.choice("--dtype", dtype,
                 {{"auto", "auto"}, {"fp32", "fp32"}, {"bf16", "bf16"}, {"fp16", "fp16"}},
                 "type of weights and activations; auto is bf16 on a GPU and fp32 on a CPU");
}

void ModelOptions::validate(OptionSet& options) const {
  if (load.folder.empty()) options.problem("--load is required");
  tokenizer.validate(options);
}

std::unique_ptr<Backend> ModelOptions::create_backend() const {
  return weft::create_backend(choose_device(device).kind, /*local_rank=*/0);
}

DType ModelOptions::type_on(const Backend& backend) const {
  if (dtype == "auto") return inference_dtype(backend);
  if (dtype == "fp32") return DType::kFloat32;
  return dtype == "bf16" ? DType::kBFloat16 : DType::kFloat16;
}

double number_of(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = error == std::errc{} && end == text.data() + text.size();
  return is_number ? value : std::numeric_limits<double>::quiet_NaN();
}

void check_number(OptionSet& options, const std::string& name, const std::string& text, double low,
                  double high) {
  const double value = number_of(text);
  if (value >= low && value <= high) return;
  options.problem(
      fmt::format("{} must be a number from {} to {}, not '{}'", name, low, high, text));
}

}  // namespace weft
