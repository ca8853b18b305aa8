// The checks of the sizes of the model and of its shares, and of what backward recomputes.
#include <limits>

#include "trainer/problems/problem_list.h"

namespace weft {

namespace {

// Gated linear units, rotary positions and groups of queries.
void check_llamas_options(const Config& c, ProblemList& p) {
  p.add_if(c.swiglu && !c.glu_activation.empty(),
           "--swiglu and --glu-activation {} exclude each other", c.glu_activation);
  p.add_if(!c.glu_activation.empty() && c.glu() == Glu::kNone,
           "--glu-activation {} is none of swiglu, geglu, reglu, liglu", c.glu_activation);
  const bool is_gated = c.swiglu || !c.glu_activation.empty();
  for (const auto& [is_given, flag] :
       {std::pair{c.relu, "--relu"}, {c.squared_relu, "--squared-relu"}}) {
    p.add_if(is_given && is_gated, "{} and {} exclude each other", flag,
             c.swiglu ? "--swiglu" : "--glu-activation");
  }
  p.add_if(c.relu && c.squared_relu, "--relu and --squared-relu exclude each other");
  p.add_if(c.hidden_size > 0 && c.ffn_size() == 0,
           "--swiglu makes the feed-forward size of --hidden-size {} 0; give --ffn-hidden-size",
           c.hidden_size);
  const std::string& type = c.position_embedding_type;
  p.add_if(
      type != "learned_absolute" && type != "absolute" && type != "none" && type != "rope" &&
          type != "rotary" && type != "alibi",
      "--position-embedding-type {} is none of learned_absolute, absolute, rope, rotary, alibi, "
      "none",
      type);
  p.add_if(
      c.use_rotary_position_embeddings && type == "alibi",
      "--use-rotary-position-embeddings and --position-embedding-type alibi exclude each other");
  p.add_if(!(c.rotary_base > 1), "--rotary-base must be above 1 (got {})", c.rotary_base);
  p.add_if(c.use_rope_scaling && !c.has_rotary_positions(),
           "--use-rope-scaling needs --position-embedding-type rope");
  p.add_if(!(c.rope_scaling_factor >= 1), "--rope-scaling-factor must be 1 or more (got {})",
           c.rope_scaling_factor);
  p.add_if(c.rope_scaling_factor != 8 && !c.use_rope_scaling,
           "--rope-scaling-factor {} needs --use-rope-scaling", c.rope_scaling_factor);
  const bool is_share = c.rotary_percent > 0 && c.rotary_percent <= 1;
  p.add_if(!is_share, "--rotary-percent must be in (0, 1] (got {})", c.rotary_percent);
  if (is_share && c.has_rotary_positions() && c.num_attention_heads > 0 && c.head_size() > 0) {
    p.add_if(c.rotary_size() < 2 || c.rotary_size() % 2 != 0,
             "rotary positions turn pairs, and {} elements of a head of {} make none "
             "(--rotary-percent {}); change --kv-channels or --rotary-percent",
             c.rotary_size(), c.head_size(), c.rotary_percent);
  }
  p.add_if(c.num_query_groups != 1 && !c.group_query_attention,
           "--num-query-groups {} needs --group-query-attention", c.num_query_groups);
  p.add_if(c.num_query_groups < 1, "--num-query-groups must be positive (got {})",
           c.num_query_groups);
  p.add_if(c.num_query_groups > 0 && c.num_attention_heads % c.num_query_groups != 0,
           "--num-attention-heads {} is not a multiple of --num-query-groups {}: every group has "
           "equally many heads; change one of them",
           c.num_attention_heads, c.num_query_groups);
}

}  // namespace

// These limits are far above anything that can be trained. Below them no size, count or offset
// overflows.
void check_limits(const Config& c, ProblemList& p) {
  constexpr int64_t kWidth = 1 << 24, kCount = std::numeric_limits<int32_t>::max();
  const size_t before = p.list.size();
  p.at_most(c.num_layers, 1 << 16, "--num-layers");
  p.at_most(c.hidden_size, kWidth, "--hidden-size");
  p.at_most(c.num_attention_heads, kWidth, "--num-attention-heads");
  p.at_most(c.num_query_groups, kWidth, "--num-query-groups");
  p.at_most(c.kv_channels.value_or(0), kWidth, "--kv-channels");
  p.at_most(c.ffn_hidden_size.value_or(0), kWidth, "--ffn-hidden-size");
  p.at_most(c.seq_length, kCount, "--seq-length");
  p.at_most(c.max_position_embeddings.value_or(0), kCount, "--max-position-embeddings");
  p.at_most(c.vocab_size.value_or(0), kCount, "--vocab-size");
  p.at_most(c.pad_vocab_size_to.value_or(0), kCount, "--pad-vocab-size-to");
  p.at_most(c.make_vocab_size_divisible_by, kCount, "--make-vocab-size-divisible-by");
  p.at_most(c.micro_batch_size, kCount, "--micro-batch-size");
  p.at_most(c.global_batch_size.value_or(0), kCount, "--global-batch-size");
  if (p.list.size() != before || c.num_attention_heads <= 0) return;
  const auto wide = [](int64_t value) { return static_cast<double>(value); };
  const double L = wide(c.num_layers), C = wide(c.hidden_size), F = wide(c.ffn_size()),
               A = wide(c.num_attention_heads) * wide(c.head_size()), V = wide(kCount),
               N = wide(c.micro_batch_size) * wide(c.seq_length);
  const double bytes =
      18 * (L * (4 * A + 3 * F + 9) * C + 2 * V * C) + 4 * N * (L * (5 * C + 4 * A + 3 * F) + V);
  p.add_if(
      bytes > 9e18,
      "the model or its micro-batch is too large to be counted in bytes; "
      "check --num-layers {}, --hidden-size {}, --ffn-hidden-size {}, --micro-batch-size {} and --seq-length {}",
      c.num_layers, c.hidden_size, c.ffn_size(), c.micro_batch_size, c.seq_length);
}

void check_shape(const Config& c, ProblemList& p) {
  p.required(c.num_layers, "--num-layers");
  p.required(c.hidden_size, "--hidden-size");
  p.required(c.num_attention_heads, "--num-attention-heads");
  p.required(c.seq_length, "--seq-length");
  p.positive(c.ffn_hidden_size, "--ffn-hidden-size");
  p.positive(c.kv_channels, "--kv-channels");
  p.positive(c.vocab_size, "--vocab-size");
  p.add_if(c.eod_token_id.value_or(0) < 0, "--eod-token-id {} is no token id: give 0 or more",
           c.eod_token_id.value_or(0));
  p.positive(c.pad_vocab_size_to, "--pad-vocab-size-to");
  p.positive(c.make_vocab_size_divisible_by, "--make-vocab-size-divisible-by");
  p.add_if(
      !c.kv_channels && c.num_attention_heads > 0 && c.hidden_size % c.num_attention_heads != 0,
      "--hidden-size {} is not a multiple of --num-attention-heads {}; "
      "choose sizes that divide, or give --kv-channels",
      c.hidden_size, c.num_attention_heads);
  p.add_if(!c.max_position_embeddings && c.has_position_table(),
           "--max-position-embeddings is required (usually --seq-length, {})", c.seq_length);
  p.add_if(c.max_position_embeddings && c.has_position_table() &&
               *c.max_position_embeddings < c.seq_length,
           "--max-position-embeddings {} is smaller than --seq-length {}",
           c.max_position_embeddings.value_or(0), c.seq_length);
  p.add_if(c.seq_length == 1 && c.positions() > 1,
           "--seq-length 1 has one position, but --max-position-embeddings is {}: samples need 2 "
           "tokens at least",
           c.positions());
  p.add_if(c.pad_vocab_size_to && c.make_vocab_size_divisible_by > 0 &&
               *c.pad_vocab_size_to % c.make_vocab_size_divisible_by != 0,
           "--pad-vocab-size-to {} is not a multiple of --make-vocab-size-divisible-by {}",
           c.pad_vocab_size_to.value_or(0), c.make_vocab_size_divisible_by);
  p.add_if(c.pad_vocab_size_to && c.vocab_size && *c.pad_vocab_size_to < *c.vocab_size,
           "--pad-vocab-size-to {} is smaller than --vocab-size {}",
           c.pad_vocab_size_to.value_or(0), c.vocab_size.value_or(0));
  check_llamas_options(c, p);
  p.add_if(c.normalization != "LayerNorm" && c.normalization != "RMSNorm",
           "--normalization {} is none of LayerNorm, RMSNorm", c.normalization);
  p.add_if(!(c.layernorm_epsilon > 0), "--layernorm-epsilon must be positive (got {})",
           c.layernorm_epsilon);
  p.add_if(!(c.init_method_std > 0), "--init-method-std must be positive (got {})",
           c.init_method_std);
  const auto is_dropout = [](float value) { return value >= 0 && value < 1; };
  p.add_if(!is_dropout(c.attention_dropout), "--attention-dropout must be in [0, 1) (got {})",
           c.attention_dropout);
  p.add_if(!is_dropout(c.hidden_dropout), "--hidden-dropout must be in [0, 1) (got {})",
           c.hidden_dropout);
}

void check_shares(const Config& c, ProblemList& p) {
  const int64_t tp = c.tensor_model_parallel_size, pp = c.pipeline_model_parallel_size;
  p.required(tp, "--tensor-model-parallel-size");
  p.required(pp, "--pipeline-model-parallel-size");
  p.at_most(tp, kMostRanks, "--tensor-model-parallel-size");
  p.at_most(pp, kMostRanks, "--pipeline-model-parallel-size");
  if (tp < 1 || pp < 1 || tp > kMostRanks || pp > kMostRanks) return;
  p.add_if(c.world_size % (tp * pp) != 0,
           "the number of ranks, {}, is not a multiple of --tensor-model-parallel-size {} times "
           "--pipeline-model-parallel-size {}; start a multiple of {} (mpirun -n {} ...)",
           c.world_size, tp, pp, tp * pp, tp * pp);
  if (tp == 1) return;
  p.add_if(c.num_attention_heads % tp != 0,
           "--num-attention-heads {} is not a multiple of --tensor-model-parallel-size {}: every "
           "rank has equally many heads; change one of them",
           c.num_attention_heads, tp);
  p.add_if(c.group_query_attention && c.num_query_groups % tp != 0,
           "--num-query-groups {} is not a multiple of --tensor-model-parallel-size {}: every rank "
           "has equally many groups; change one of them",
           c.num_query_groups, tp);
  p.add_if(
      c.ffn_size() % tp != 0,
      "{} {} is not a multiple of --tensor-model-parallel-size {}: every rank has equally many "
      "columns of the feed-forward layer; change one of them",
      c.ffn_hidden_size ? "--ffn-hidden-size"
      : c.swiglu        ? "the feed-forward size of --swiglu"
                        : "the feed-forward size 4 * --hidden-size",
      c.ffn_size(), tp);
  p.add_if(
      c.pad_vocab_size_to.value_or(0) % tp != 0,
      "--pad-vocab-size-to {} is not a multiple of --tensor-model-parallel-size {}: every rank "
      "has equally many rows of the vocabulary; change it, or leave it out",
      c.pad_vocab_size_to.value_or(0), tp);
  p.add_if(c.shares_sequence() && c.micro_batch_size * c.seq_length % tp != 0,
           "--sequence-parallel: --micro-batch-size {} times --seq-length {} is not a multiple of "
           "--tensor-model-parallel-size {}: every rank has equally many tokens; change one of "
           "them, or leave --sequence-parallel out",
           c.micro_batch_size, c.seq_length, tp);
}

// [Megatron-LM megatron/core/transformer/transformer_config.py]
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
    const bool is_list = module.find(',') != std::string::npos;
    p.add_if(is_list, "--recompute-modules {}: separate the parts by blanks, as in layernorm mlp",
             module);
    if (is_list) continue;
    const bool is_elsewhere = module == "moe" || module == "moe_act" ||
                              module == "shared_experts" || module == "mla_up_proj";
    p.add_if(is_elsewhere, "--recompute-modules {}: the model has no such part; leave it out{}",
             module, module == "moe_act" ? ", or give activation" : "");
    const bool is_gelu = module == "gelu" || module == "swiglu" || module == "act";
    p.add_if(is_gelu, "--recompute-modules {}: the part is called activation here", module);
    p.add_if(!is_elsewhere && !is_gelu && module != "core_attn" && module != "layernorm" &&
                 module != "activation" && module != "mlp",
             "--recompute-modules {} is none of core_attn, layernorm, activation, mlp", module);
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
