#include "trainer/step/optimizer.h"

#include <algorithm>
#include <utility>

#include "kernels/numbers/split_master.h"

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
  if (options.muon) muon_.emplace(backend, groups, table, shards, *options.muon, plan);
  const int64_t n = shards.own_elements();
  int64_t num_second_moments = 0;
  for (const Part& part : parts_) {
    std::vector<Segment> segments = segments_of(part);
    for (Segment& segment : segments) {
      segment.second_moment_first = num_second_moments;
      if (!segment.is_matrix) num_second_moments += segment.part.state.count;
    }
    segments_.push_back(std::move(segments));
  }
  const auto kClass = MemoryClass::kOptimizer;
  const auto state = options.offloads_state ? MemoryClass::kPinnedHost : kClass;
  if (is_split()) {
    plan.add(state, "master's remainder", &remainder_, DType::kUInt8, {remainder_bytes(n)});
  } else if (has_masters()) {
    plan.add(state, "master", &master_, DType::kFloat32, {n});
  }
  const DType moment = options.has_bf16_moments ? DType::kBFloat16 : DType::kFloat32;
  plan.add(state, muon_ ? "momentum and exp_avg" : "exp_avg", &exp_avg_, moment, {n});
  plan.add(state, "exp_avg_sq", &exp_avg_sq_, moment, {most_second_moments()});
  const int64_t num_blocks = shards.padded_elements() / kOptimizerBlock;
  plan.add(kClass, "decay flags", &decays_, DType::kUInt8, {num_blocks});
  if (options.has_bf16_moments)
    plan.add(kClass, "block numbers", &block_numbers_, DType::kInt32, {num_blocks});
  plan.add(kClass, "norm", &range_sums_, DType::kFloat32,
           {std::max<int64_t>(1, static_cast<int64_t>(counted_.size()))});
  plan.add(kClass, "norm sum", &sum_, DType::kFloat32, {1});
}

// Returns the number of AdamW's elements on the rank that has the most. Each rank takes memory for
// so many, so that a plan of one tells that of all.
int64_t Optimizer::most_second_moments() const {
  if (!muon_) return shards_.own_elements();
  const int num_ranks = shards_.is_sharded() ? groups_.layout.dp_size : 1;
  int64_t most = 0;
  for (int rank = 0; rank < num_ranks; ++rank) {
    int64_t count = 0;
    for (const ArenaRange& bucket : shards_.buckets()) {
      const ArenaRange part = shards_.part_of(bucket, rank);
      for (const Segment& segment : segments_of({part, part}))
        count += segment.is_matrix ? 0 : segment.part.arena.count;
    }
    most = std::max(most, count);
  }
  return most;
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
}

void Optimizer::fill_tables(const std::vector<int32_t>& block_numbers) {
  const auto upload = [&](Tensor to, auto values) {
    values.resize(static_cast<size_t>(to.num_elements()), 0);
    backend_.copy(to.data(), values.data(), to.num_bytes(), Stream::kCompute);
  };
  upload(decays_, table_.decay_flags());
  if (options_.has_bf16_moments) upload(block_numbers_, block_numbers);
}

Tensor Optimizer::remainder_of(const Part& part) const {
  return range_of(remainder_,
                  {remainder_bytes(part.state.first), remainder_bytes(part.state.count)});
}

Tensor Optimizer::master_of(const Piece& piece) const {
  if (dtype_ == DType::kFloat16) return range_of(master_, piece.state);
  return range_of(is_split() ? gradients_ : parameters_, piece.arena);
}

void Optimizer::join_masters() {
  if (!is_split() || parameters_.empty()) return;
  for (const Part& part : parts_)
    backend_.run(JoinMasters{.master = range_of(gradients_, part.arena),
                             .param = range_of(parameters_, part.arena),
                             .remainder = remainder_of(part)});
}

// Sums over the elements that this rank counts, then over the ranks that hold others. The result is
// that of the values divided by `divisor`.
void Optimizer::sum_of_squares(Tensor out, Tensor values, bool is_state, double divisor) {
  for (size_t i = 0; i < counted_.size(); ++i) {
    const Tensor sum = range_of(range_sums_, {static_cast<int64_t>(i), 1});
    backend_.run(SumOfSquares{
        .out = sum, .inp = range_of(values, is_state ? counted_[i].state : counted_[i].arena)});
  }
  if (counted_.empty()) backend_.run(Zero{.out = range_sums_});
  backend_.run(Sum{.out = out,
                   .inp = range_sums_,
                   .scale = static_cast<float>(1.0 / (divisor * divisor)),
                   .accumulate = false});
  if (shards_.is_sharded()) groups_.data->all_reduce(out, Reduce::kSum, Stream::kCompute);
  if (groups_.model->size() > 1) groups_.model->all_reduce(out, Reduce::kSum, Stream::kCompute);
}

void Optimizer::gradient_norm(Tensor norm_and_clip, double loss_scale) {
  sum_of_squares(sum_, gradients_, /*is_state=*/false, loss_scale);
  backend_.run(ClipCoefficient{
      .clip = norm_and_clip, .sum_of_squares = sum_, .max_norm = options_.clip_grad});
  if (loss_scale == 1) return;
  const Tensor clip = range_of(norm_and_clip, {1, 1});
  backend_.run(Sum{.out = clip,
                   .inp = clip,
                   .scale = static_cast<float>(1.0 / loss_scale),
                   .accumulate = false});
}

void Optimizer::update(Tensor norm_and_clip, const UpdateRates& rates, int64_t step,
                       ParameterGatherer& gatherer) {
  UpdateRates of_word_tables = rates;
  of_word_tables.learning_rate = rates.of_word_tables.value_or(rates.learning_rate);
  if (muon_) run_muon(norm_and_clip);
  for (size_t bucket = parts_.size(); bucket-- > 0;) {
    if (!muon_ && !rates.of_word_tables) {  // one rule for all
      update_segment({parts_[bucket], parts_[bucket].state.first}, norm_and_clip, rates, step);
    } else {
      for (const Segment& segment : segments_[bucket]) {
        if (segment.is_matrix)
          muon_update(segment.part, rates);
        else
          update_segment(segment, norm_and_clip, segment.is_word_table ? of_word_tables : rates,
                         step);
      }
    }
    gatherer.gather(bucket);
  }
}

// Turns the gradients of Muon's matrices into their updates.
void Optimizer::run_muon(Tensor norm_and_clip) {
  for (const std::vector<Segment>& segments : segments_) {
    for (const Segment& segment : segments) {
      if (!segment.is_matrix) continue;
      backend_.run(MuonMomentum{.m = range_of(exp_avg_, segment.part.state),
                                .grad = range_of(gradients_, segment.part.arena),
                                .clip = norm_and_clip,
                                .beta = muon_->options().momentum,
                                .nesterov = muon_->options().nesterov});
    }
  }
  muon_->orthogonalize(gradients_);
}

void Optimizer::muon_update(const Part& part, const UpdateRates& rates) {
  MuonUpdate args;
  args.param = range_of(parameters_, part.arena);
  if (is_split()) {
    args.remainder = remainder_of(part);
  } else {
    args.master = has_masters() ? range_of(master_, part.state) : args.param;
  }
  args.update = range_of(gradients_, part.arena);
  args.lr = rates.learning_rate;
  args.weight_decay = rates.weight_decay;
  backend_.run(args);
}

// Cuts a part at the word tables and at Muon's matrices, all of which begin with whole blocks.
std::vector<Optimizer::Segment> Optimizer::segments_of(const Part& part) const {
  std::vector<Segment> segments;
  int64_t at = part.arena.first;
  const auto add = [&](int64_t end, bool is_matrix, bool is_word_table) {
    end = std::clamp(end, at, part.arena.end());
    if (end == at) return;
    const int64_t state_first = part.state.first + at - part.arena.first;
    segments.push_back(
        {{{at, end - at}, {state_first, end - at}}, state_first, is_matrix, is_word_table});
    at = end;
  };
  for (const Parameter& parameter : table_.all()) {
    const bool is_matrix = is_updated_by_muon(parameter);
    if (!parameter.is_word_table && !is_matrix) continue;
    const int64_t num_blocks = (parameter.num_elements + kOptimizerBlock - 1) / kOptimizerBlock;
    add(parameter.arena_offset, false, false);
    add(parameter.arena_offset + num_blocks * kOptimizerBlock, is_matrix, parameter.is_word_table);
  }
  add(part.arena.end(), false, false);
  return segments;
}

void Optimizer::parameters_from_masters(ParameterGatherer& gatherer) {
  if (!has_masters()) return;
  for (size_t bucket = parts_.size(); bucket-- > 0;) {
    const Part& part = parts_[bucket];
    const Tensor own = range_of(parameters_, part.arena);
    if (is_split()) {
      backend_.run(SplitMasters{.param = own,
                                .remainder = remainder_of(part),
                                .master = range_of(gradients_, part.arena)});
    } else {
      backend_.run(Cast{.dst = own, .src = range_of(master_, part.state)});
    }
    gatherer.gather(bucket);
  }
}

void Optimizer::update_segment(const Segment& segment, Tensor norm_and_clip,
                               const UpdateRates& rates, int64_t step) {
  const Part& part = segment.part;
  AdamW args;
  args.param = range_of(parameters_, part.arena);
  if (is_split()) {
    args.remainder = remainder_of(part);
  } else {
    args.master = has_masters() ? range_of(master_, part.state) : args.param;
  }
  args.m = range_of(exp_avg_, part.state);
  args.v = range_of(exp_avg_sq_, {segment.second_moment_first, part.state.count});
  args.grad = range_of(gradients_, part.arena);
  const ArenaRange blocks{part.arena.first / kOptimizerBlock, part.arena.count / kOptimizerBlock};
  args.decays = range_of(decays_, blocks);
  if (options_.has_bf16_moments) args.block_numbers = range_of(block_numbers_, blocks);
  args.seed = options_.seed;
  args.clip = norm_and_clip;
  args.lr = rates.learning_rate;
  args.beta1 = options_.beta1;
  args.beta2 = options_.beta2;
  args.eps = options_.eps;
  args.weight_decay = rates.weight_decay;
  args.step = step;
  backend_.run(args);
}

std::vector<Optimizer::Piece> Optimizer::pieces_of(const Parameter& parameter,
                                                   int64_t num_elements) const {
  std::vector<Piece> pieces;
  for (const std::vector<Segment>& segments : segments_) {
    for (const Segment& segment : segments) {  // none begins within a parameter, but with its part
      const Part& part = segment.part;
      const int64_t first = std::max(parameter.arena_offset, part.arena.first);
      const int64_t end = std::min(parameter.arena_offset + num_elements, part.arena.end());
      if (first >= end) continue;
      const int64_t offset = first - part.arena.first;
      pieces.push_back({first - parameter.arena_offset,
                        {first, end - first},
                        {part.state.first + offset, end - first},
                        {segment.second_moment_first + offset, end - first}});
    }
  }
  return pieces;
}

void Optimizer::parameters_sum_of_squares(Tensor out) {
  join_masters();
  const Tensor masters = is_split() ? gradients_ : has_masters() ? master_ : parameters_;
  sum_of_squares(out, masters, /*is_state=*/dtype_ == DType::kFloat16);
}

}  // namespace weft
