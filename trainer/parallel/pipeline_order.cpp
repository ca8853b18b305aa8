#include "trainer/parallel/pipeline_order.h"

#include <algorithm>
#include <cassert>

namespace weft {
namespace {

// Collects the work of one stage and leaves out what its place in the pipeline has no use for.
class Order {
 public:
  Order(int stage, int num_stages) : has_before_(stage > 0), has_after_(stage + 1 < num_stages) {
    assert(stage >= 0 && stage < num_stages);
  }
  void forward(int64_t i) {
    list_.push_back({.kind = PipelineWork::Kind::kForward, .micro_batch = i});
  }
  void backward(int64_t i) {
    list_.push_back({.kind = PipelineWork::Kind::kBackward, .micro_batch = i});
  }
  void exchange(PipelineWork work) {
    work.kind = PipelineWork::Kind::kExchange;
    if (!has_before_) work.receives_input = work.sends_gradient = -1;
    if (!has_after_) work.sends_output = work.receives_gradient = -1;
    const bool is_empty = work.receives_input < 0 && work.sends_output < 0 &&
                          work.receives_gradient < 0 && work.sends_gradient < 0;
    if (!is_empty) list_.push_back(work);
  }
  std::vector<PipelineWork> take() { return std::move(list_); }

 private:
  const bool has_before_, has_after_;
  std::vector<PipelineWork> list_;
};

}  // namespace

std::vector<PipelineWork> pipeline_order(int stage, int num_stages, int64_t num_micro_batches) {
  Order order(stage, num_stages);
  const int64_t m = num_micro_batches;
  const int64_t num_first = std::min<int64_t>(num_stages - stage - 1, m);
  for (int64_t i = 0; i < num_first; ++i) {
    order.exchange({.receives_input = i});
    order.forward(i);
    order.exchange({.sends_output = i});
  }
  if (num_first < m) order.exchange({.receives_input = num_first});
  for (int64_t i = num_first; i < m; ++i) {
    const int64_t oldest = i - num_first;
    order.forward(i);
    order.exchange({.sends_output = i, .receives_gradient = oldest});
    order.backward(oldest);
    order.exchange({.receives_input = i + 1 < m ? i + 1 : -1, .sends_gradient = oldest});
  }
  for (int64_t i = m - num_first; i < m; ++i) {
    order.exchange({.receives_gradient = i});
    order.backward(i);
    order.exchange({.sends_gradient = i});
  }
  return order.take();
}

std::vector<PipelineWork> pipeline_order_of_evaluation(int stage, int num_stages,
                                                       int64_t num_micro_batches) {
  Order order(stage, num_stages);
  for (int64_t i = 0; i < num_micro_batches; ++i) {
    order.exchange({.receives_input = i});
    order.forward(i);
    order.exchange({.sends_output = i});
  }
  return order.take();
}

int64_t pipeline_slots(int stage, int num_stages, int64_t num_micro_batches) {
  return std::min<int64_t>(num_stages - stage, num_micro_batches);
}

}  // namespace weft
