// The checks of the flags of recomputation. [Megatron-LM megatron/core/transformer/transformer_config.py]
#include "trainer/config/problem_list.h"

namespace weft {

void check_recompute(const Config& c, ProblemList& p) {
  const std::string &granularity = c.recompute_granularity, &method = c.recompute_method;
  const bool is_full = granularity == "full";
  p.add_if(!granularity.empty() && !is_full, "--recompute-granularity {} is none of full",
           granularity);
  p.add_if(!method.empty() && method != "uniform" && method != "block",
           "--recompute-method {} is none of uniform, block", method);
  p.add_if(is_full && method.empty() && !c.checkpoint_activations,
           "--recompute-granularity full needs --recompute-method uniform or block");
  p.add_if(granularity.empty() && !c.checkpoint_activations && !method.empty(),
           "--recompute-method {} needs --recompute-granularity full", method);
  p.add_if(c.checkpoint_activations && method == "block",
           "--checkpoint-activations is --recompute-method uniform, and {} is given; leave one of "
           "them out",
           method);
  p.add_if(c.recompute_num_layers && !c.recomputes_layers(),
           "--recompute-num-layers {} needs --recompute-granularity full",
           c.recompute_num_layers.value_or(0));
  p.positive(c.recompute_num_layers, "--recompute-num-layers");
  p.add_if(c.recompute_num_layers.value_or(0) > c.num_layers,
           "--recompute-num-layers {} is more than --num-layers {}",
           c.recompute_num_layers.value_or(0), c.num_layers);
}

}  // namespace weft
