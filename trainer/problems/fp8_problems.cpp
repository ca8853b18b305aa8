// Checks what fp8 products need: flags that mean something together, and sizes that the products
// take.
#include <string>
#include <vector>

#include "trainer/config/model_shape.h"
#include "trainer/problems/problem_list.h"

namespace weft {
namespace {

// All sizes that products sum over, of which there is one in each direction.
void check_fp8_sizes(const Config& c, ProblemList& p) {
  const int64_t tp = c.tensor_model_parallel_size;
  const ModelShape shape = model_shape(c, /*vocab_size=*/1);
  const auto check = [&](const char* what, int64_t size) {
    p.add_if(size % kFp8SizeMultiple != 0,
             "--fp8-format: {} are {}; fp8 products need a multiple of {}", what, size,
             kFp8SizeMultiple);
  };
  check("--micro-batch-size times --seq-length", c.micro_batch_size * c.seq_length);
  check("the columns of --hidden-size", shape.hidden_size);
  check("the columns of a rank's attention", shape.num_heads * shape.head_size / tp);
  check("the columns of a rank's queries, keys and values", shape.qkv_size() / tp);
  check("the columns of a rank's --ffn-hidden-size", shape.ffn_size / tp);
}

// Returns the flags of fp8 scales that differ from the default, but for the recipe.
std::vector<std::string> flags_of_delayed_fp8(const Config& c) {
  const Config usual;
  std::vector<std::string> flags;
  const auto add = [&](const char* flag, const auto& value, const auto& usual_value) {
    if (value != usual_value) flags.push_back(fmt::format("{} {}", flag, value));
  };
  add("--fp8-margin", c.fp8_margin, usual.fp8_margin);
  add("--fp8-amax-history-len", c.fp8_amax_history_len, usual.fp8_amax_history_len);
  add("--fp8-amax-compute-algo", c.fp8_amax_compute_algo, usual.fp8_amax_compute_algo);
  return flags;
}

}  // namespace

void check_fp8(const Config& c, bool has_shape, ProblemList& p) {
  p.positive(c.fp8_shadow_interval, "--fp8-shadow-interval");
  if (!c.has_fp8()) {
    p.add_if(c.no_fp8_wgrad, "--no-fp8-wgrad needs --fp8-format");
    p.add_if(c.fp8_shadow_interval.has_value(), "--fp8-shadow-interval needs --fp8-format");
    return;
  }
  const int num_formats = (c.fp8_format.empty() ? 0 : 1) + (c.fp8_plain ? 1 : 0) +
                          (c.fp8_e4m3 ? 1 : 0) + (c.fp8_hybrid ? 1 : 0);
  p.add_if(num_formats > 1, "--fp8-format, --fp8, --fp8-hybrid and --fp8-e4m3 exclude each other");
  p.add_if(!c.fp8_format.empty() && c.fp8_format != "hybrid" && c.fp8_format != "e4m3",
           "--fp8-format {} is none of hybrid, e4m3", c.fp8_format);
  p.add_if(!c.bf16, "--fp8-format needs --bf16, in which everything but the products is");
  p.add_if(c.fp8_recipe != "delayed" && c.fp8_recipe != "tensorwise",
           "--fp8-recipe {} is none of delayed, tensorwise", c.fp8_recipe);
  p.add_if(c.fp8_amax_compute_algo != "most_recent" && c.fp8_amax_compute_algo != "max",
           "--fp8-amax-compute-algo {} is none of most_recent, max", c.fp8_amax_compute_algo);
  p.add_if(c.fp8_margin < 0 || c.fp8_margin > 32, "--fp8-margin must be from 0 to 32 (got {})",
           c.fp8_margin);
  p.add_if(c.fp8_amax_history_len < 1 || c.fp8_amax_history_len > 65536,
           "--fp8-amax-history-len must be from 1 to 65536 (got {})", c.fp8_amax_history_len);
  p.add_if(
      c.has_curriculum(),
      "--fp8-format with sequences that grow is not built: products need whole multiples of {} "
      "tokens",
      kFp8SizeMultiple);
  if (has_shape) check_fp8_sizes(c, p);
}

void warn_of_fp8_flags(const Config& config, std::vector<std::string>& list) {
  for (const std::string& flag : flags_of_delayed_fp8(config)) {
    if (!config.has_fp8()) {
      list.push_back(flag + " has no effect without --fp8-format");
    } else if (config.fp8_recipe == "tensorwise") {
      list.push_back(flag + " has no effect: --fp8-recipe is tensorwise");
    }
  }
  if (config.fp8_shadow_interval && config.train_iters &&
      *config.fp8_shadow_interval > *config.train_iters)
    list.push_back(
        fmt::format("--fp8-shadow-interval {} measures nothing: the run ends after {} iterations",
                    *config.fp8_shadow_interval, *config.train_iters));
  if (!config.has_fp8() && config.fp8_recipe != Config().fp8_recipe)
    list.push_back("--fp8-recipe " + config.fp8_recipe + " has no effect without --fp8-format");
}

}  // namespace weft
