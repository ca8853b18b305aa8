// Pipelines whose stages follow pipeline_order() come to their end, do every work once and in
// Megatron's order, and are idle for no longer than 1F1B has to be, interleaved or not.
#include "trainer/parallel/pipeline_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace weft {
namespace {

using Kind = PipelineWork::Kind;
using Order = std::vector<PipelineWork>;

struct Message {
  int peer = 0;
  bool sends = false, is_gradient = false;
  int64_t micro_batch = 0;
  int64_t boundary = 0;  // between this stage of the whole model and the one before it
};

// The list has the order in which the trainer hands transfers to a communicator, which matches
// those of two ranks in their order.
std::vector<Message> messages_of(const PipelineWork& work, int stage, const PipelineShape& shape) {
  std::vector<Message> messages;
  messages.reserve(4);
  const int p = shape.pp_size, before = (stage + p - 1) % p, after = (stage + 1) % p;
  const auto add = [&](const PipelineItem& item, int peer, bool sends, bool is_gradient) {
    if (!item.is_there()) return;
    const int64_t here = item.chunk * p + stage;
    messages.push_back(
        {peer, sends, is_gradient, item.micro_batch, sends == is_gradient ? here : here + 1});
  };
  add(work.receives_input, before, false, false);
  add(work.sends_output, after, true, false);
  add(work.receives_gradient, after, false, true);
  add(work.sends_gradient, before, true, true);
  return messages;
}

// Stages whose exchanges block as those of NCCL do: a message moves when sender and receiver both
// stand at it, and a stage goes on when all messages of its exchange have moved. Forward takes one
// unit of time and backward two.
class Simulation {
 public:
  Simulation(const PipelineShape& shape, std::vector<Order> orders)
      : shape_(shape),
        orders_(std::move(orders)),
        at_(orders_.size()),
        time_(orders_.size()),
        waiting_(orders_.size()) {}

  // Returns the time at which all stages have ended; -1 where they wait for each other for ever or
  // a message is not the one that the receiver expects.
  int64_t run() {
    for (size_t stage = 0; stage < orders_.size(); ++stage) go_on(stage);
    while (move_one()) {
    }
    for (size_t stage = 0; stage < orders_.size(); ++stage) {
      if (at_[stage] != orders_[stage].size()) return -1;
    }
    return *std::max_element(time_.begin(), time_.end());
  }

 private:
  // Works until the next exchange.
  void go_on(size_t stage) {
    for (; at_[stage] < orders_[stage].size(); ++at_[stage]) {
      const PipelineWork& work = orders_[stage][at_[stage]];
      if (work.kind == Kind::kExchange) {
        waiting_[stage] = messages_of(work, static_cast<int>(stage), shape_);
        return;
      }
      time_[stage] += work.kind == Kind::kForward ? 1 : 2;
    }
  }
  bool move_one() {
    for (size_t from = 0; from < waiting_.size(); ++from) {
      for (size_t i = 0; i < waiting_[from].size(); ++i) {
        const Message message = waiting_[from][i];
        if (!message.sends) continue;
        const auto to = static_cast<size_t>(message.peer);
        for (size_t j = 0; j < waiting_[to].size(); ++j) {
          const Message& other = waiting_[to][j];
          if (other.sends || other.peer != static_cast<int>(from)) continue;
          if (other.is_gradient != message.is_gradient ||
              other.micro_batch != message.micro_batch || other.boundary != message.boundary) {
            return false;
          }
          time_[from] = time_[to] = std::max(time_[from], time_[to]);
          waiting_[from].erase(waiting_[from].begin() + static_cast<std::ptrdiff_t>(i));
          waiting_[to].erase(waiting_[to].begin() + static_cast<std::ptrdiff_t>(j));
          for (const size_t stage : {from, to}) {
            if (!waiting_[stage].empty()) continue;
            ++at_[stage];
            go_on(stage);
          }
          return true;
        }
      }
    }
    return false;
  }

  const PipelineShape shape_;
  const std::vector<Order> orders_;
  std::vector<size_t> at_;
  std::vector<int64_t> time_;
  std::vector<std::vector<Message>> waiting_;  // messages of a stage's exchange that have not moved
};

std::vector<Order> orders_of(const PipelineShape& shape, int64_t num_micro_batches,
                             bool trains = true) {
  std::vector<Order> orders;
  for (int stage = 0; stage < shape.pp_size; ++stage) {
    orders.push_back(trains ? pipeline_order(stage, shape, num_micro_batches)
                            : pipeline_order_of_evaluation(stage, shape, num_micro_batches));
  }
  return orders;
}

int64_t simulated_time(const PipelineShape& shape, int64_t num_micro_batches, bool trains = true) {
  return Simulation(shape, orders_of(shape, num_micro_batches, trains)).run();
}

// "F0 F1 B0 F2 B1 B2"; with two chunks those of the second are "f0" and "b0".
std::string text_of(const Order& order) {
  std::string text;
  for (const PipelineWork& work : order) {
    if (work.kind == Kind::kExchange) continue;
    if (!text.empty()) text += ' ';
    const bool is_first = work.item.chunk == 0;
    text += work.kind == Kind::kForward ? (is_first ? 'F' : 'f') : (is_first ? 'B' : 'b');
    text += std::to_string(work.item.micro_batch);
  }
  return text;
}

template <typename Body>
void for_each_pipeline(const Body& body) {
  for (int p = 1; p <= 8; ++p) {
    for (int64_t m = 1; m <= 24; ++m) {
      SCOPED_TRACE(std::to_string(p) + " stages, " + std::to_string(m) + " micro-batches");
      body(PipelineShape{.pp_size = p}, m);
    }
  }
}

// Groups of p micro-batches and more, of which the last one may be smaller, even than p.
template <typename Body>
void for_each_interleaved_pipeline(const Body& body) {
  for (int p = 2; p <= 6; ++p) {
    for (int64_t chunks = 2; chunks <= 4; ++chunks) {
      for (int64_t group = p; group <= p + 3; ++group) {
        for (int64_t m = 1; m <= 3 * p + 2; ++m) {
          SCOPED_TRACE(std::to_string(p) + " stages, " + std::to_string(chunks) + " chunks, " +
                       std::to_string(m) + " micro-batches in groups of " + std::to_string(group));
          body(PipelineShape{p, chunks, group}, m);
        }
      }
    }
  }
}

template <typename Body>
void for_each_stage(const PipelineShape& shape, const Body& body) {
  for (int stage = 0; stage < shape.pp_size; ++stage) body(stage);
}

// (m + p - 1) forwards and backwards one after the other: the bubble is p - 1 of each.
TEST(PipelineOrder, StagesNeverWaitForEverAndAreIdleForTheBubble) {
  for_each_pipeline([](const PipelineShape& shape, int64_t m) {
    const int64_t p = shape.pp_size;
    EXPECT_EQ(simulated_time(shape, m), (m + p - 1) * 3);
    EXPECT_EQ(simulated_time(shape, m, /*trains=*/false), m + p - 1);
  });
}

// The same of chunks: (p - 1) / v of a stage's work. A last group that is smaller makes some steps
// uneven; stages wait for those of the others.
TEST(PipelineOrder, InterleavedStagesNeverWaitForEverAndTheBubbleIsSmaller) {
  for_each_interleaved_pipeline([](const PipelineShape& shape, int64_t m) {
    const int64_t p = shape.pp_size, works = m * shape.num_chunks;
    const int64_t time = simulated_time(shape, m), last_group = m % shape.group_size;
    ASSERT_GE(time, (works + p - 1) * 3);
    if (last_group == 0) {
      EXPECT_EQ(time, (works + p - 1) * 3);
    } else if (last_group >= p) {
      EXPECT_LE(time, (works + 2 * (p - 1)) * 3);
    }
    const int64_t evaluation = simulated_time(shape, m, /*trains=*/false);
    ASSERT_GE(evaluation, works + p - 1);
    if (last_group == 0 || last_group >= p) {
      EXPECT_EQ(evaluation, works + p - 1);
    }
  });
}

// Each forward and backward once, backward after forward, both in the order of micro-batches in
// each chunk: so gradients have the sums of one chunk. Chunks end in the order of the gradients'
// arena, the last one first.
void expect_every_work_once(const Order& order, const PipelineShape& shape, int64_t m, int stage) {
  std::vector<int64_t> num_forward(static_cast<size_t>(shape.num_chunks)),
      num_backward = num_forward;
  int64_t num_exchanges = 0, in_flight = 0, ended = shape.num_chunks;
  for (const PipelineWork& work : order) {
    const auto chunk = static_cast<size_t>(work.item.chunk);  // of an exchange 0
    switch (work.kind) {
      case Kind::kForward:
        ASSERT_EQ(work.item.micro_batch, num_forward[chunk]++);
        ++in_flight;
        break;
      case Kind::kBackward:
        ASSERT_EQ(work.item.micro_batch, num_backward[chunk]++);
        --in_flight;
        if (work.item.micro_batch + 1 == m) {
          ASSERT_EQ(work.item.chunk, --ended);
        }
        break;
      case Kind::kExchange:
        ++num_exchanges;
    }
    ASSERT_LE(num_backward[chunk], num_forward[chunk]);
    ASSERT_LE(in_flight, pipeline_slots(stage, shape, m));
  }
  for (const auto& counts : {num_forward, num_backward}) {
    for (const int64_t count : counts) EXPECT_EQ(count, m);
  }
  EXPECT_EQ(num_exchanges == 0, shape.pp_size == 1);
}

TEST(PipelineOrder, EveryWorkIsDoneOnceAndBackwardAfterForward) {
  const auto check = [](const PipelineShape& shape, int64_t m) {
    for_each_stage(shape, [&](int stage) {
      expect_every_work_once(pipeline_order(stage, shape, m), shape, m, stage);
    });
  };
  for_each_pipeline(check);
  for_each_interleaved_pipeline(check);
}

// The tensors of a stage: nothing arrives in a place whose tensor is still to be read or sent, and
// each work finds its own there.
class Places {
 public:
  Places(int stage, const PipelineShape& shape, int64_t num_micro_batches)
      : stage_(stage),
        shape_(shape),
        num_slots_(pipeline_slots(stage, shape, num_micro_batches)),
        num_embedding_slots_(pipeline_embedding_slots(stage, shape, num_micro_batches)),
        num_gradient_slots_(pipeline_gradient_slots(stage, shape)) {}

  void run(const PipelineWork& work, bool trains) {
    const PipelineItem& item = work.item;
    switch (work.kind) {
      case Kind::kForward:
        if (begins_model(item)) {
          put(slots_, num_slots_, item.slot, item);
          put(embeddings_, num_embedding_slots_, item.embedding_slot, item);
        }
        EXPECT_EQ(slots_[item.slot], id_of(item));
        if (!trains) {
          slots_.erase(item.slot);
          embeddings_.erase(item.embedding_slot);
        }
        EXPECT_EQ(output_, Id()) << "not sent yet";
        if (!ends_model(item)) output_ = id_of(item);
        break;
      case Kind::kBackward:
        EXPECT_EQ(slots_[item.slot], id_of(item));
        slots_.erase(item.slot);
        if (begins_model(item)) {
          EXPECT_EQ(embeddings_[item.embedding_slot], id_of(item));
          embeddings_.erase(item.embedding_slot);
        }
        if (!ends_model(item)) {
          EXPECT_EQ(gradients_[item.gradient_slot], id_of(item));
          gradients_.erase(item.gradient_slot);
        }
        EXPECT_EQ(input_gradient_, Id()) << "not sent yet";
        if (!begins_model(item)) input_gradient_ = id_of(item);
        break;
      case Kind::kExchange:
        exchange(work);
    }
  }
  size_t num_embeddings() const { return embeddings_.size(); }
  bool are_empty() const {
    return slots_.empty() && embeddings_.empty() && gradients_.empty() && output_ == Id() &&
           input_gradient_ == Id();
  }

 private:
  using Id = std::pair<int64_t, int64_t>;  // chunk, and micro-batch from 1 on
  static Id id_of(const PipelineItem& item) { return {item.chunk, item.micro_batch + 1}; }
  bool begins_model(const PipelineItem& item) const { return stage_ == 0 && item.chunk == 0; }
  bool ends_model(const PipelineItem& item) const {
    return stage_ + 1 == shape_.pp_size && item.chunk + 1 == shape_.num_chunks;
  }
  static void put(std::map<int64_t, Id>& slots, int64_t num, int64_t slot,
                  const PipelineItem& item) {
    EXPECT_GE(slot, 0);
    EXPECT_LT(slot, num);
    EXPECT_TRUE(slots.try_emplace(slot, id_of(item)).second) << "the slot is in use";
  }
  void exchange(const PipelineWork& work) {
    if (work.receives_input.is_there())
      put(slots_, num_slots_, work.receives_input.slot, work.receives_input);
    if (work.receives_gradient.is_there()) {
      // Without slots it takes the place of the input's gradient.
      if (num_gradient_slots_ == 0) {
        EXPECT_EQ(input_gradient_, Id());
      }
      put(gradients_, std::max<int64_t>(1, num_gradient_slots_),
          work.receives_gradient.gradient_slot, work.receives_gradient);
    }
    if (work.sends_output.is_there()) {
      EXPECT_EQ(std::exchange(output_, {}), id_of(work.sends_output));
    }
    if (work.sends_gradient.is_there()) {
      EXPECT_EQ(std::exchange(input_gradient_, {}), id_of(work.sends_gradient));
    }
  }

  const int stage_;
  const PipelineShape shape_;
  const int64_t num_slots_, num_embedding_slots_, num_gradient_slots_;
  std::map<int64_t, Id> slots_, embeddings_, gradients_;
  Id output_, input_gradient_;
};

TEST(PipelineOrder, NoTensorIsLostAndSlotsSuffice) {
  const auto check = [](const PipelineShape& shape, int64_t m) {
    for_each_stage(shape, [&](int stage) {
      for (const bool trains : {true, false}) {
        Places places(stage, shape, m);
        const Order order = trains ? pipeline_order(stage, shape, m)
                                   : pipeline_order_of_evaluation(stage, shape, m);
        for (const PipelineWork& work : order) places.run(work, trains);
        EXPECT_TRUE(places.are_empty());
      }
    });
  };
  for_each_pipeline(check);
  for_each_interleaved_pipeline(check);
}

// The logits and their gradients lie in one place.
TEST(PipelineOrder, BackwardFollowsForwardInTheLastChunkOfTheLastStage) {
  for_each_interleaved_pipeline([](const PipelineShape& shape, int64_t m) {
    const Order order = pipeline_order(shape.pp_size - 1, shape, m);
    for (size_t i = 0; i < order.size(); ++i) {
      const PipelineItem& item = order[i].item;
      if (order[i].kind != Kind::kForward || item.chunk + 1 < shape.num_chunks) continue;
      ASSERT_EQ(order[i + 1].kind, Kind::kBackward);
      ASSERT_EQ(order[i + 1].item.micro_batch, item.micro_batch);
      ASSERT_EQ(order[i + 1].item.chunk, item.chunk);
    }
  });
}

// forward_backward_pipelining_without_interleaving() in Megatron-LM: num_warmup_microbatches is
// min(p - r - 1, m).
TEST(PipelineOrder, IsMegatrons) {
  const PipelineShape four{.pp_size = 4};
  EXPECT_EQ(text_of(pipeline_order(0, four, 6)), "F0 F1 F2 F3 B0 F4 B1 F5 B2 B3 B4 B5");
  EXPECT_EQ(text_of(pipeline_order(1, four, 6)), "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 B4 B5");
  EXPECT_EQ(text_of(pipeline_order(3, four, 6)), "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5");
  EXPECT_EQ(text_of(pipeline_order(0, four, 2)), "F0 F1 B0 B1");
  EXPECT_EQ(text_of(pipeline_order(0, {}, 3)), "F0 B0 F1 B1 F2 B2");
  EXPECT_EQ(pipeline_slots(0, four, 6), 4);
  EXPECT_EQ(pipeline_slots(3, four, 6), 1);
  EXPECT_EQ(pipeline_slots(0, four, 2), 2);
}

// forward_backward_pipelining_with_interleaving(): 2 (p - r - 1) + (v - 1) N forwards come first,
// then a forward and a backward in turn; get_schedule_table() tells which.
TEST(PipelineOrder, InterleavedIsMegatrons) {
  for_each_interleaved_pipeline([](const PipelineShape& shape, int64_t m) {
    if (m % shape.group_size != 0) return;
    const int64_t works = m * shape.num_chunks, in_round = shape.group_size * shape.num_chunks;
    const auto at = [&](int64_t k, bool is_forward) {
      const int64_t chunk = k % in_round / shape.group_size;
      return std::pair(is_forward ? chunk : shape.num_chunks - 1 - chunk,
                       k / in_round * shape.group_size + k % shape.group_size);
    };
    for_each_stage(shape, [&](int stage) {
      const int64_t num_first = std::min(
          works, 2 * (shape.pp_size - stage - 1) + (shape.num_chunks - 1) * shape.group_size);
      int64_t num_forward = 0, num_backward = 0;
      for (const PipelineWork& work : pipeline_order(stage, shape, m)) {
        const auto id = std::pair(work.item.chunk, work.item.micro_batch);
        if (work.kind == Kind::kForward) {
          ASSERT_EQ(id, at(num_forward++, true));
          ASSERT_EQ(num_backward, std::max<int64_t>(0, num_forward - 1 - num_first));
        } else if (work.kind == Kind::kBackward) {
          ASSERT_EQ(id, at(num_backward++, false));
          ASSERT_EQ(num_forward, std::min(works, num_first + num_backward));
        }
      }
    });
  });
}

TEST(PipelineOrder, InterleavedForTwoStagesIsThatOfTheHeader) {
  const PipelineShape two{.pp_size = 2, .num_chunks = 2, .group_size = 2};
  EXPECT_EQ(text_of(pipeline_order(0, two, 4)), "F0 F1 f0 f1 F2 b0 F3 b1 f2 B0 f3 B1 b2 b3 B2 B3");
  EXPECT_EQ(text_of(pipeline_order(1, two, 4)), "F0 F1 f0 b0 f1 b1 F2 B0 F3 B1 f2 b2 f3 b3 B2 B3");
  EXPECT_EQ(text_of(pipeline_order_of_evaluation(1, two, 4)), "F0 F1 f0 f1 F2 F3 f2 f3");
}

// More of them would be memory that no micro-batch uses.
TEST(PipelineOrder, FullBatchesUseAllEmbeddingSlots) {
  const auto check = [](const PipelineShape& shape, int64_t m) {
    if (m % shape.group_size != 0) return;
    Places places(0, shape, m);
    size_t most = 0;
    for (const PipelineWork& work : pipeline_order(0, shape, m)) {
      places.run(work, /*trains=*/true);
      most = std::max(most, places.num_embeddings());
    }
    EXPECT_EQ(most, pipeline_embedding_slots(0, shape, m));
  };
  for_each_pipeline(check);
  for_each_interleaved_pipeline(check);
}

// In units of a chunk, of which a stage of one chunk keeps p v.
TEST(PipelineOrder, TheFirstStageKeepsThePublishedShareMore) {
  for (const int p : {2, 4, 8}) {
    for (const int64_t v : {2, 3, 4}) {
      EXPECT_EQ(pipeline_slots(0, {p, v, p}, 1000), p * v + p - 1);
      EXPECT_EQ(pipeline_slots(p - 1, {p, v, p}, 1000), (v - 1) * p + 1);
    }
  }
}

}  // namespace
}  // namespace weft
