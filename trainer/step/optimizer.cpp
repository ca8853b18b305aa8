#include "trainer/step/optimizer.h"

#include <algorithm>

namespace weft {
Optimizer::Optimizer(Backend& backend, const ProcessGroups& groups, const ParameterTable& table,
                     const ArenaShards& shards, DType dtype, const OptimizerOptions& options,
                     MemoryPlan& plan)
    : backend_(backend),
      groups_(groups),
      table_(table),
      shards_(shards),
      dtype_(dtype),
      options_(options) {
  const int64_t counted_end =
      groups.layout.tp_rank == 0 ? shards.padded_elements() : table.replicated_begin();
  const bool has_copy = groups.layout.pp_rank > 0 && table.tied().count > 0;
  // Replicated, one call updates the whole arena.
  const std::vector<ArenaRange> whole{{0, shards.padded_elements()}};
  int64_t state_first = 0;
  for (const ArenaRange& bucket : shards.is_sharded() ? shards.buckets() : whole) {
    const ArenaRange own = shards.own_part(bucket);
    parts_.push_back({own, {state_first, own.count}});
    if (has_copy) {
      count(parts_.back(), {0, table.tied().first});
      count(parts_.back(), {table.tied().end(), counted_end - table.tied().end()});
    } else {
      count(parts_.back(), {0, counted_end});
    }
    state_first += own.count;
  }
  const int64_t n = shards.own_elements();
  const auto kClass = MemoryClass::kOptimizer;
  if (has_master()) plan.add(kClass, "master", &master_, DType::kFloat32, {n});
  plan.add(kClass, "exp_avg", &exp_avg_, DType::kFloat32, {n});
  plan.add(kClass, "exp_avg_sq", &exp_avg_sq_, DType::kFloat32, {n});
  plan.add(kClass, "decay flags", &decays_, DType::kUInt8,
           {shards.padded_elements() / kOptimizerBlock});
  plan.add(kClass, "norm", &range_sums_, DType::kFloat32,
           {std::max<int64_t>(1, static_cast<int64_t>(counted_.size()))});
  plan.add(kClass, "norm sum", &sum_, DType::kFloat32, {1});
}

void Optimizer::count(const Part& part, ArenaRange counted) {
  const int64_t first = std::max(part.arena.first, counted.first);
  const int64_t num = std::min(part.arena.end(), counted.end()) - first;
  if (num > 0)
    counted_.push_back({{first, num}, {part.state.first + first - part.arena.first, num}});
}

void Optimizer::bind(Tensor parameters, Tensor gradients) {
  parameters_ = parameters;
  gradients_ = gradients;
  if (!has_master()) master_ = parameters;
  std::vector<uint8_t> flags = table_.decay_flags();
  flags.resize(static_cast<size_t>(decays_.num_elements()), 0);
  backend_.copy(decays_.data(), flags.data(), decays_.num_bytes(), Stream::kCompute);
}

// fp32 models keep their masters in the arena of parameters.
Tensor Optimizer::master_of(const Part& part) const {
  return has_master() ? range_of(master_, part.state) : range_of(parameters_, part.arena);
}

// Sums over the elements that this rank counts, then over the ranks that hold others. The result is that of
// the values divided by `divisor`.
void Optimizer::sum_of_squares(Tensor out, Tensor values, bool is_state, double divisor) {
  for (size_t i = 0; i < counted_.size(); ++i) {
    const Tensor sum = range_of(range_sums_, {static_cast<int64_t>(i), 1});
    backend_.sum_of_squares(sum,
                            range_of(values, is_state ? counted_[i].state : counted_[i].arena));
  }
  if (counted_.empty()) backend_.zero(range_sums_);
  backend_.sum(out, range_sums_, static_cast<float>(1.0 / (divisor * divisor)),
               /*accumulate=*/false);
  if (shards_.is_sharded()) groups_.data->all_reduce(out, Reduce::kSum, Stream::kCompute);
  if (groups_.model->size() > 1) groups_.model->all_reduce(out, Reduce::kSum, Stream::kCompute);
}

void Optimizer::gradient_norm(Tensor norm_and_clip, double loss_scale) {
  sum_of_squares(sum_, gradients_, /*is_state=*/false, loss_scale);
  backend_.clip_coefficient(norm_and_clip, sum_, options_.clip_grad);
  if (loss_scale == 1) return;
  const Tensor clip = range_of(norm_and_clip, {1, 1});
  backend_.sum(clip, clip, static_cast<float>(1.0 / loss_scale), /*accumulate=*/false);
}

void Optimizer::update(Tensor norm_and_clip, double learning_rate, int64_t step,
                       ParameterGatherer& gatherer) {
  for (size_t bucket = parts_.size(); bucket-- > 0;) {
    update_part(parts_[bucket], norm_and_clip, learning_rate, step);
    gatherer.gather(bucket);
  }
}

void Optimizer::parameters_from_masters(ParameterGatherer& gatherer) {
  if (!has_master()) return;
  for (size_t bucket = parts_.size(); bucket-- > 0;) {
    const Part& part = parts_[bucket];
    backend_.cast(range_of(parameters_, part.arena), range_of(master_, part.state));
    gatherer.gather(bucket);
  }
}

void Optimizer::update_part(const Part& part, Tensor norm_and_clip, double learning_rate,
                            int64_t step) {
  AdamW args;
  args.param = range_of(parameters_, part.arena);
  args.master = master_of(part);
  args.m = range_of(exp_avg_, part.state);
  args.v = range_of(exp_avg_sq_, part.state);
  args.grad = range_of(gradients_, part.arena);
  args.decays =
      range_of(decays_, {part.arena.first / kOptimizerBlock, part.arena.count / kOptimizerBlock});
  args.clip = norm_and_clip;
  args.lr = learning_rate;
  args.beta1 = options_.beta1;
  args.beta2 = options_.beta2;
  args.eps = options_.eps;
  args.weight_decay = options_.weight_decay;
  args.step = step;
  backend_.adamw(args);
}

std::vector<Optimizer::Piece> Optimizer::pieces_of(const Parameter& parameter,
                                                   int64_t num_elements) const {
  std::vector<Piece> pieces;
  for (const Part& part : parts_) {
    const int64_t first = std::max(parameter.arena_offset, part.arena.first);
    const int64_t end = std::min(parameter.arena_offset + num_elements, part.arena.end());
    if (first >= end) continue;
    pieces.push_back({first - parameter.arena_offset,
                      {first, end - first},
                      {part.state.first + first - part.arena.first, end - first}});
  }
  return pieces;
}

void Optimizer::parameters_sum_of_squares(Tensor out) {
  sum_of_squares(out, master_, /*is_state=*/has_master());
}

}  // namespace weft
