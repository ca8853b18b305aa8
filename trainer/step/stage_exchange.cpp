#include "trainer/step/stage_exchange.h"

#include <array>
#include <span>

namespace weft {
namespace {

// Returns what this rank sends or receives of a tensor: the tensor itself, or its part of it. With
// sequence parallelism the ranks of a stage hold different rows, else all hold the same numbers.
// [Narayanan et al. 2021, arXiv:2104.04473, section 4.1: scatter/gather]
Tensor exchanged_part(Tensor whole, const ParallelLayout& layout, bool scatters) {
  const int64_t tp_size = layout.num_row_shares() > 1 ? 1 : layout.tp_size;
  if (!scatters || tp_size == 1 || whole.num_elements() % tp_size != 0) return whole;
  const int64_t count = whole.num_elements() / tp_size;
  return range_of(whole, {layout.tp_rank * count, count});
}

}  // namespace

// The ranks of a pipeline group are its stages. Interleaved, they are a ring. Two stages may then
// send each other two tensors at once, which a communicator matches by their order: activations
// come first. The tensor-parallel ranks of a stage exchange at the same place of their order, so
// all gather what has arrived in the same order.
void exchange_between_stages(const PipelineWork& work, const ProcessGroups& groups, Model& model,
                             bool scatters) {
  const int p = groups.layout.pp_size, rank = groups.layout.pp_rank;
  const int before = (rank + p - 1) % p, after = (rank + 1) % p;
  std::array<Transfer, 4> transfers;
  size_t count = 0;
  std::array<Tensor, 2> received;
  size_t num_received = 0;
  const auto add = [&](Tensor tensor, int peer, bool sends) {
    transfers[count++] = {exchanged_part(tensor, groups.layout, scatters), peer, sends};
    if (!sends) received[num_received++] = tensor;
  };
  const PipelineItem &input = work.receives_input, &gradient = work.receives_gradient;
  if (input.is_there()) add(model.input(input.slot), before, false);
  if (work.sends_output.is_there()) add(model.output(), after, true);
  if (gradient.is_there()) add(model.output_gradient(gradient.gradient_slot), after, false);
  if (work.sends_gradient.is_there()) add(model.input_gradient(), before, true);
  groups.pipeline->exchange(std::span(transfers).first(count), Stream::kCompute);
  for (const Tensor& whole : std::span(received).first(num_received)) {
    const Tensor part = exchanged_part(whole, groups.layout, scatters);
    if (part.num_elements() == whole.num_elements()) continue;
    groups.tensor->all_gather(whole, part, Stream::kCompute);
  }
}

}  // namespace weft
