#include "trainer/parallel/pipeline_order.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <set>
#include <utility>

namespace weft {
namespace {

// Gives out the lowest free number.
class Slots {
 public:
  int64_t take() {
    if (free_.empty()) return num_++;
    return free_.extract(free_.begin()).value();
  }
  void release(int64_t slot) { free_.insert(slot); }

 private:
  int64_t num_ = 0;
  std::set<int64_t> free_;
};

// Collects the work of one stage, leaves out what its place in the pipeline has no use for, and
// gives each item its slots.
class Order {
 public:
  Order(int stage, const PipelineShape& shape, bool trains)
      : is_first_(stage == 0),
        is_last_(stage + 1 == shape.pp_size),
        last_chunk_(shape.num_chunks - 1),
        trains_(trains) {
    assert(stage >= 0 && stage < shape.pp_size);
  }
  void forward(PipelineItem item) {
    if (!item.is_there()) return;
    take(slots_, slot_of_, item.slot, item);
    if (has_embedding(item)) take(embedding_slots_, embedding_slot_of_, item.embedding_slot, item);
    list_.push_back({.kind = PipelineWork::Kind::kForward, .item = item});
    if (trains_) return;
    release(slots_, slot_of_, item);
    if (has_embedding(item)) release(embedding_slots_, embedding_slot_of_, item);
  }
  void backward(PipelineItem item) {
    if (!item.is_there()) return;
    item.slot = release(slots_, slot_of_, item);
    // The gradient of the model's output comes from no other stage.
    if (gradient_slot_of_.contains({item.chunk, item.micro_batch}))
      item.gradient_slot = release(gradient_slots_, gradient_slot_of_, item);
    if (has_embedding(item))
      item.embedding_slot = release(embedding_slots_, embedding_slot_of_, item);
    list_.push_back({.kind = PipelineWork::Kind::kBackward, .item = item});
  }
  void exchange(PipelineWork work) {
    work.kind = PipelineWork::Kind::kExchange;
    if (is_first_) keep_unless(0, {&work.receives_input, &work.sends_gradient});
    if (is_last_) keep_unless(last_chunk_, {&work.sends_output, &work.receives_gradient});
    PipelineItem &input = work.receives_input, &gradient = work.receives_gradient;
    if (input.is_there()) take(slots_, slot_of_, input.slot, input);
    if (gradient.is_there()) {
      take(gradient_slots_, gradient_slot_of_, gradient.gradient_slot, gradient);
    }
    const bool is_empty = !input.is_there() && !work.sends_output.is_there() &&
                          !gradient.is_there() && !work.sends_gradient.is_there();
    if (!is_empty) list_.push_back(work);
  }
  std::vector<PipelineWork> take() { return std::move(list_); }

 private:
  using Places = std::map<std::pair<int64_t, int64_t>, int64_t>;  // by chunk and micro-batch

  bool has_embedding(const PipelineItem& item) const { return is_first_ && item.chunk == 0; }
  // The model begins or ends with that chunk: nothing lies beyond.
  static void keep_unless(int64_t chunk, std::initializer_list<PipelineItem*> items) {
    for (PipelineItem* item : items) {
      if (item->chunk == chunk) *item = {};
    }
  }
  // An item that has a slot keeps it.
  static void take(Slots& slots, Places& places, int64_t& slot, const PipelineItem& item) {
    const auto [place, is_new] = places.try_emplace({item.chunk, item.micro_batch}, -1);
    if (is_new) place->second = slots.take();
    slot = place->second;
  }
  static int64_t release(Slots& slots, Places& places, const PipelineItem& item) {
    const int64_t slot = places.extract({item.chunk, item.micro_batch}).mapped();
    slots.release(slot);
    return slot;
  }

  const bool is_first_, is_last_;
  const int64_t last_chunk_;
  const bool trains_;
  Slots slots_, gradient_slots_, embedding_slots_;
  Places slot_of_, gradient_slot_of_, embedding_slot_of_;
  std::vector<PipelineWork> list_;
};

PipelineItem item(int64_t micro_batch, int64_t chunk = 0) {
  return {.micro_batch = micro_batch, .chunk = chunk};
}

void append_one_chunk(Order& order, int64_t num_first, int64_t m) {
  for (int64_t i = 0; i < num_first; ++i) {
    order.exchange({.receives_input = item(i)});
    order.forward(item(i));
    order.exchange({.sends_output = item(i)});
  }
  if (num_first < m) order.exchange({.receives_input = item(num_first)});
  for (int64_t i = num_first; i < m; ++i) {
    const PipelineItem oldest = item(i - num_first);
    order.forward(item(i));
    order.exchange({.sends_output = item(i), .receives_gradient = oldest});
    order.backward(oldest);
    order.exchange({.receives_input = item(i + 1 < m ? i + 1 : -1), .sends_gradient = oldest});
  }
  for (int64_t i = m - num_first; i < m; ++i) {
    order.exchange({.receives_gradient = item(i)});
    order.backward(item(i));
    order.exchange({.sends_gradient = item(i)});
  }
}

// --- interleaved ---
//
// All stages go in steps of a forward and a backward, after each of which they exchange. Stage r
// does the forward that the last stage will do p - 1 - r steps later, and the backward that it has
// done p - 1 - r steps before: so what a stage sends after a step is what its neighbour begins the
// next step with. From the last stage to the first one it is there when it is needed, because a
// group comes to a chunk p steps or more after it came to the chunk before.

struct Step {
  PipelineItem forward = {}, backward = {};
};

// A group of micro-batches, which takes as many steps as there are stages, at least, in each chunk.
struct Group {
  int64_t first = 0, count = 0, num_steps = 0;
  // Returns the item of step `i` of those that the group takes in all chunks, in the order
  // `chunk_at`.
  PipelineItem at(int64_t i, int64_t chunk) const {
    const int64_t in_group = i % num_steps;
    return in_group < count ? item(first + in_group, chunk) : PipelineItem{};
  }
};

std::vector<Group> groups_of(const PipelineShape& shape, int64_t m) {
  std::vector<Group> groups;
  for (int64_t first = 0; first < m; first += shape.group_size) {
    const int64_t count = std::min(shape.group_size, m - first);
    groups.push_back({first, count, std::max<int64_t>(count, shape.pp_size)});
  }
  return groups;
}

// Returns the steps of the last stage. The forward of the last chunk, which ends with the loss, and
// its backward are one step, so that the logits of one micro-batch are in memory at a time. Beside
// the other backwards of a group are the other forwards of the group after it.
std::vector<Step> steps_of_last_stage(const PipelineShape& shape, int64_t m, bool trains) {
  const std::vector<Group> groups = groups_of(shape, m);
  const int64_t last_chunk = shape.num_chunks - 1;
  std::vector<Step> steps;
  for (size_t g = 0; g <= groups.size(); ++g) {
    const Group before = g > 0 && trains ? groups[g - 1] : Group{};
    const Group next = g < groups.size() ? groups[g] : Group{};
    const int64_t num_backwards = last_chunk * before.num_steps,
                  num_forwards = last_chunk * next.num_steps;
    const int64_t num_steps = std::max(num_backwards, num_forwards);
    for (int64_t i = 0; i < num_steps; ++i) {
      Step step;
      const int64_t forward = i - (num_steps - num_forwards);
      if (forward >= 0) step.forward = next.at(forward, forward / next.num_steps);
      if (i < num_backwards) step.backward = before.at(i, last_chunk - 1 - i / before.num_steps);
      steps.push_back(step);
    }
    for (int64_t i = 0; i < next.num_steps; ++i) {
      const PipelineItem head = next.at(i, last_chunk);
      steps.push_back({head, trains ? head : PipelineItem{}});
    }
  }
  return steps;
}

void append_chunks(Order& order, int stage, const PipelineShape& shape, int64_t m, bool trains) {
  const std::vector<Step> steps = steps_of_last_stage(shape, m, trains);
  const auto num_steps = static_cast<int64_t>(steps.size());
  const int last = shape.pp_size - 1, ahead = last - stage;
  const auto step_of_last = [&](int64_t s) {
    return s >= 0 && s < num_steps ? steps[static_cast<size_t>(s)] : Step{};
  };
  const auto forward_at = [&](int64_t s) { return step_of_last(s + ahead).forward; };
  const auto backward_at = [&](int64_t s) { return step_of_last(s - ahead).backward; };
  for (int64_t s = -ahead - 1; s < num_steps + ahead; ++s) {
    order.forward(forward_at(s));
    order.backward(backward_at(s));
    PipelineWork work{.receives_input = forward_at(s + 1),
                      .sends_output = forward_at(s),
                      .receives_gradient = backward_at(s + 1),
                      .sends_gradient = backward_at(s)};
    // The ring: a chunk of the first stage takes what the last stage sends, for the chunk after it.
    if (stage == 0) {
      work.receives_input = step_of_last(s).forward;
      const bool ends = work.receives_input.chunk + 1 == shape.num_chunks;
      work.receives_input.chunk += 1;
      if (ends) work.receives_input = {};
    }
    if (stage == last) {
      work.receives_gradient = step_of_last(s - last).backward;
      const bool ends = work.receives_gradient.chunk == 0;
      work.receives_gradient.chunk -= 1;
      if (ends) work.receives_gradient = {};
    }
    order.exchange(work);
  }
}

}  // namespace

std::vector<PipelineWork> pipeline_order(int stage, const PipelineShape& shape,
                                         int64_t num_micro_batches) {
  Order order(stage, shape, /*trains=*/true);
  const int64_t m = num_micro_batches;
  if (shape.num_chunks > 1) {
    append_chunks(order, stage, shape, m, /*trains=*/true);
  } else {
    append_one_chunk(order, std::min<int64_t>(shape.pp_size - stage - 1, m), m);
  }
  return order.take();
}

std::vector<PipelineWork> pipeline_order_of_evaluation(int stage, const PipelineShape& shape,
                                                       int64_t num_micro_batches) {
  Order order(stage, shape, /*trains=*/false);
  if (shape.num_chunks > 1) {
    append_chunks(order, stage, shape, num_micro_batches, /*trains=*/false);
    return order.take();
  }
  for (int64_t i = 0; i < num_micro_batches; ++i) {
    order.exchange({.receives_input = item(i)});
    order.forward(item(i));
    order.exchange({.sends_output = item(i)});
  }
  return order.take();
}

int64_t pipeline_slots(int stage, const PipelineShape& shape, int64_t num_micro_batches) {
  const int64_t p = shape.pp_size, m = num_micro_batches;
  if (shape.num_chunks == 1) return std::min<int64_t>(p - stage, m);
  const int64_t waiting = stage == 0 ? shape.group_size - p : 0;  // inputs that came early
  const int64_t in_flight =
      (shape.num_chunks - 1) * shape.group_size + 2 * (p - stage) - 1 + waiting;
  return m > in_flight / shape.num_chunks ? in_flight : shape.num_chunks * m;
}

// The first stage is p - 1 forwards ahead of the last one, and as many backwards behind it. With
// two chunks the backwards of a group in the first chunk begin beside the forwards of the next
// group.
int64_t pipeline_embedding_slots(int stage, const PipelineShape& shape, int64_t num_micro_batches) {
  if (stage > 0) return 0;
  const int64_t p = shape.pp_size, m = num_micro_batches, group = shape.group_size;
  if (shape.num_chunks == 1) return std::min<int64_t>(p, m);
  const int64_t of_next = shape.num_chunks == 2 ? std::min(group, 2 * p - 1) : group;
  return std::min(m, group + of_next);
}

int64_t pipeline_gradient_slots(int stage, const PipelineShape& shape) {
  if (shape.num_chunks == 1) return 0;
  return stage + 1 == shape.pp_size ? shape.group_size - shape.pp_size + 1 : 1;
}

}  // namespace weft
