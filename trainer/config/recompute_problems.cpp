// The checks of the flags of recomputation. [Megatron-LM megatron/core/transformer/transformer_config.py]
#include "trainer/config/problem_list.h"

namespace weft {

void check_recompute(const Config& c, ProblemList& p) {
  const std::string &granularity = c.recompute_granularity, &method = c.recompute_method;
  const bool is_full = granularity == "full", is_selective = c.recomputes_parts();
  p.add_if(!granularity.empty() && !is_full && granularity != "selective",
           "--recompute-granularity {} is none of full, selective", granularity);
  p.add_if(is_selective && c.recomputes_layers(),
           "whole layers and parts of them cannot both be recomputed: leave {} out",
           c.recompute_activations ? "--recompute-activations" : "--checkpoint-activations");
  p.add_if(!c.recompute_modules.empty() && !is_selective,
           "--recompute-modules needs --recompute-granularity selective");
  for (const std::string& module : c.recompute_modules) {
    const bool is_elsewhere = module == "moe" || module == "moe_act" ||
                              module == "shared_experts" || module == "mla_up_proj";
    p.add_if(is_elsewhere, "--recompute-modules {}: the model has no such part; leave it out",
             module);
    p.add_if(module == "gelu",
             "--recompute-modules gelu: what is kept does not tell GELU's output to the bit; give "
             "mlp, which computes the product before it again, too");
    p.add_if(!is_elsewhere && module != "gelu" && module != "core_attn" && module != "layernorm" &&
                 module != "mlp",
             "--recompute-modules {} is none of core_attn, layernorm, mlp", module);
  }
  p.add_if(!method.empty() && method != "uniform" && method != "block",
           "--recompute-method {} is none of uniform, block", method);
  p.add_if(is_full && method.empty() && !c.checkpoint_activations,
           "--recompute-granularity full needs --recompute-method uniform or block");
  p.add_if(!c.recomputes_layers() && !method.empty(),
           "--recompute-method {} needs --recompute-granularity full", method);
  p.add_if(c.checkpoint_activations && method == "block",
           "--checkpoint-activations is --recompute-method uniform, and {} is given; leave one of "
           "them out",
           method);
  p.add_if(c.recompute_num_layers && !c.recomputes_layers(),
           "--recompute-num-layers {} needs --recompute-granularity full",
           c.recompute_num_layers.value_or(0));
  p.positive(c.logits_chunk, "--logits-chunk");
  p.add_if(c.logits_chunk.value_or(0) % 16 != 0, "--logits-chunk {} is not a multiple of 16",
           c.logits_chunk.value_or(0));
  p.positive(c.recompute_num_layers, "--recompute-num-layers");
  p.add_if(c.recompute_num_layers.value_or(0) > c.num_layers,
           "--recompute-num-layers {} is more than --num-layers {}",
           c.recompute_num_layers.value_or(0), c.num_layers);
}

}  // namespace weft
