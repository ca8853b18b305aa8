#include "trainer/model/recompute.h"

#include <algorithm>

namespace weft {

RecomputeOptions recompute_options(const Config& config) {
  if (config.recomputes_parts()) {
    const auto has = [&](const char* module) {
      return std::find(config.recompute_modules.begin(), config.recompute_modules.end(), module) !=
             config.recompute_modules.end();
    };
    return {.norms = has("layernorm"), .activation = has("activation"), .mlp = has("mlp")};
  }
  if (!config.recomputes_layers()) return {};
  using Method = RecomputeOptions::Method;
  return {.method = config.recompute_method == "block" ? Method::kBlock : Method::kUniform,
          .num_layers = config.recompute_num_layers.value_or(1)};
}

}  // namespace weft
