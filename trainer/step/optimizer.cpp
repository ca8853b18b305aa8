#include "trainer/step/optimizer.h"

namespace weft {
namespace {

Tensor range_of(Tensor tensor, int64_t first, int64_t count) {
  return Tensor(tensor.as<char>() + first * size_bytes(tensor.dtype()), tensor.dtype(), {count});
}

// Returns the arena's ranges of the parameters that rank `tp_rank` counts, with neighbours joined.
// The padding between them is zero and does no harm.
std::vector<std::pair<int64_t, int64_t>> counted_ranges(const ParameterTable& table, int tp_rank) {
  std::vector<std::pair<int64_t, int64_t>> ranges;
  const std::vector<Parameter>& all = table.all();
  for (size_t i = 0; i < all.size(); ++i) {
    if (tp_rank > 0 && all[i].split_dim < 0) continue;
    const int64_t first = all[i].arena_offset;
    const int64_t end = i + 1 < all.size() ? all[i + 1].arena_offset : table.arena_elements();
    if (!ranges.empty() && ranges.back().first + ranges.back().second == first) {
      ranges.back().second = end - ranges.back().first;
    } else {
      ranges.emplace_back(first, end - first);
    }
  }
  return ranges;
}

}  // namespace

Optimizer::Optimizer(Backend& backend, Communicator& tensor_parallel, const ParameterTable& table,
                     DType dtype, const OptimizerOptions& options, MemoryPlan& plan)
    : backend_(backend),
      tensor_parallel_(tensor_parallel),
      table_(table),
      dtype_(dtype),
      options_(options),
      counted_ranges_(counted_ranges(table, tensor_parallel.rank())) {
  const int64_t n = table.arena_elements();
  const auto kClass = MemoryClass::kOptimizer;
  if (has_master()) plan.add(kClass, "master", &master_, DType::kFloat32, {n});
  plan.add(kClass, "exp_avg", &exp_avg_, DType::kFloat32, {n});
  plan.add(kClass, "exp_avg_sq", &exp_avg_sq_, DType::kFloat32, {n});
  plan.add(kClass, "decay flags", &decays_, DType::kUInt8, {n / kOptimizerBlock});
  plan.add(kClass, "norm", &range_sums_, DType::kFloat32,
           {static_cast<int64_t>(counted_ranges_.size())});
  plan.add(kClass, "norm sum", &sum_, DType::kFloat32, {1});
}

void Optimizer::bind(Tensor parameters, Tensor gradients) {
  parameters_ = parameters;
  gradients_ = gradients;
  if (!has_master()) master_ = parameters;
  const std::vector<uint8_t> flags = table_.decay_flags();
  backend_.copy(decays_.data(), flags.data(), decays_.num_bytes(), Stream::kCompute);
}

void Optimizer::sum_of_squares(Tensor out, Tensor arena) {
  if (counted_ranges_.size() == 1) {
    backend_.sum_of_squares(out,
                            range_of(arena, counted_ranges_[0].first, counted_ranges_[0].second));
  } else {
    for (size_t i = 0; i < counted_ranges_.size(); ++i) {
      backend_.sum_of_squares(range_of(range_sums_, static_cast<int64_t>(i), 1),
                              range_of(arena, counted_ranges_[i].first, counted_ranges_[i].second));
    }
    backend_.sum(out, range_sums_, 1, /*accumulate=*/false);
  }
  if (tensor_parallel_.size() > 1) tensor_parallel_.all_reduce(out, Reduce::kSum);
}

void Optimizer::gradient_norm(Tensor norm_and_clip) {
  sum_of_squares(sum_, gradients_);
  backend_.clip_coefficient(norm_and_clip, sum_, options_.clip_grad);
}

void Optimizer::update(Tensor norm_and_clip, double learning_rate, int64_t step) {
  AdamW args;
  args.param = parameters_;
  args.master = master_;
  args.m = exp_avg_;
  args.v = exp_avg_sq_;
  args.grad = gradients_;
  args.decays = decays_;
  args.clip = norm_and_clip;
  args.lr = static_cast<float>(learning_rate);
  args.beta1 = options_.beta1;
  args.beta2 = options_.beta2;
  args.eps = options_.eps;
  args.weight_decay = options_.weight_decay;
  args.step = step;
  backend_.adamw(args);
}

void Optimizer::parameters_sum_of_squares(Tensor out) { sum_of_squares(out, master_); }

}  // namespace weft
