#include "trainer/model/recompute.h"

namespace weft {

RecomputeOptions recompute_options(const Config& config) {
  if (!config.recomputes_layers()) return {};
  using Method = RecomputeOptions::Method;
  return {.method = config.recompute_method == "block" ? Method::kBlock : Method::kUniform,
          .num_layers = config.recompute_num_layers.value_or(1)};
}

}  // namespace weft
