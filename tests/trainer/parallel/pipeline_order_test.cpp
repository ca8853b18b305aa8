// Pipelines whose stages follow pipeline_order() come to their end, do every work once and in
// Megatron's order, and are idle for no longer than 1F1B has to be.
#include "trainer/parallel/pipeline_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace weft {
namespace {

using Kind = PipelineWork::Kind;
using Order = std::vector<PipelineWork>;

struct Message {
  int peer = 0;
  bool sends = false, is_gradient = false;
  int64_t micro_batch = 0;
};

std::vector<Message> messages_of(const PipelineWork& work, int stage) {
  std::vector<Message> messages;
  messages.reserve(4);
  const auto add = [&](int64_t micro_batch, int peer, bool sends, bool is_gradient) {
    if (micro_batch >= 0) messages.push_back({peer, sends, is_gradient, micro_batch});
  };
  add(work.receives_input, stage - 1, false, false);
  add(work.sends_output, stage + 1, true, false);
  add(work.receives_gradient, stage + 1, false, true);
  add(work.sends_gradient, stage - 1, true, true);
  return messages;
}

// Stages whose exchanges block as those of NCCL do: a message moves when sender and receiver both
// stand at it, and a stage goes on when all messages of its exchange have moved. Forward takes one unit
// of time and backward two.
class Simulation {
 public:
  explicit Simulation(std::vector<Order> orders)
      : orders_(std::move(orders)),
        at_(orders_.size()),
        time_(orders_.size()),
        waiting_(orders_.size()) {}

  // Returns the time at which all stages have ended; -1 where they wait for each other for ever or a
  // message is not the one that the receiver expects.
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
        waiting_[stage] = messages_of(work, static_cast<int>(stage));
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
              other.micro_batch != message.micro_batch) {
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

  const std::vector<Order> orders_;
  std::vector<size_t> at_;
  std::vector<int64_t> time_;
  std::vector<std::vector<Message>> waiting_;  // messages of a stage's exchange that have not moved
};

std::vector<Order> orders_of(int num_stages, int64_t num_micro_batches, bool trains = true) {
  std::vector<Order> orders;
  for (int stage = 0; stage < num_stages; ++stage) {
    orders.push_back(trains ? pipeline_order(stage, num_stages, num_micro_batches)
                            : pipeline_order_of_evaluation(stage, num_stages, num_micro_batches));
  }
  return orders;
}

// "F0 F1 B0 F2 B1 B2"
std::string text_of(const Order& order) {
  std::string text;
  for (const PipelineWork& work : order) {
    if (work.kind == Kind::kExchange) continue;
    if (!text.empty()) text += ' ';
    text += work.kind == Kind::kForward ? 'F' : 'B';
    text += std::to_string(work.micro_batch);
  }
  return text;
}

template <typename Body>
void for_each_pipeline(const Body& body) {
  for (int p = 1; p <= 8; ++p) {
    for (int64_t m = 1; m <= 24; ++m) {
      SCOPED_TRACE(std::to_string(p) + " stages, " + std::to_string(m) + " micro-batches");
      body(p, m);
    }
  }
}

// (m + p - 1) forwards and backwards one after the other: the bubble is p - 1 of each.
TEST(PipelineOrder, StagesNeverWaitForEverAndAreIdleForTheBubble) {
  for_each_pipeline([](int p, int64_t m) {
    EXPECT_EQ(Simulation(orders_of(p, m)).run(), (m + p - 1) * 3);
    EXPECT_EQ(Simulation(orders_of(p, m, /*trains=*/false)).run(), m + p - 1);
  });
}

TEST(PipelineOrder, EveryWorkIsDoneOnceAndBackwardAfterForward) {
  for_each_pipeline([](int p, int64_t m) {
    for (int stage = 0; stage < p; ++stage) {
      int64_t num_forward = 0, num_backward = 0, num_exchanges = 0;
      for (const PipelineWork& work : pipeline_order(stage, p, m)) {
        switch (work.kind) {
          case Kind::kForward:
            ASSERT_EQ(work.micro_batch, num_forward++);
            break;
          case Kind::kBackward:
            ASSERT_EQ(work.micro_batch, num_backward++);
            break;
          case Kind::kExchange:
            ++num_exchanges;
        }
        ASSERT_LE(num_backward, num_forward);
        ASSERT_LE(num_forward - num_backward, pipeline_slots(stage, p, m));
      }
      EXPECT_EQ(num_forward, m);
      EXPECT_EQ(num_backward, m);
      EXPECT_EQ(num_exchanges == 0, p == 1);
    }
  });
}

// An input may not arrive in a slot before the backward of the micro-batch that lies there.
TEST(PipelineOrder, SlotsAreFreeWhenTheNextInputArrives) {
  for_each_pipeline([](int p, int64_t m) {
    for (int stage = 0; stage < p; ++stage) {
      int64_t num_backward = 0;
      for (const PipelineWork& work : pipeline_order(stage, p, m)) {
        if (work.kind == Kind::kBackward) ++num_backward;
        const int64_t begins = work.kind == Kind::kForward ? work.micro_batch : work.receives_input;
        ASSERT_LE(begins - pipeline_slots(stage, p, m), num_backward - 1);
      }
    }
  });
}

// forward_backward_pipelining_without_interleaving() in Megatron-LM: num_warmup_microbatches is
// min(p - r - 1, m).
TEST(PipelineOrder, IsMegatrons) {
  EXPECT_EQ(text_of(pipeline_order(0, 4, 6)), "F0 F1 F2 F3 B0 F4 B1 F5 B2 B3 B4 B5");
  EXPECT_EQ(text_of(pipeline_order(1, 4, 6)), "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 B4 B5");
  EXPECT_EQ(text_of(pipeline_order(3, 4, 6)), "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5");
  EXPECT_EQ(text_of(pipeline_order(0, 4, 2)), "F0 F1 B0 B1");
  EXPECT_EQ(text_of(pipeline_order(0, 1, 3)), "F0 B0 F1 B1 F2 B2");
  EXPECT_EQ(pipeline_slots(0, 4, 6), 4);
  EXPECT_EQ(pipeline_slots(3, 4, 6), 1);
  EXPECT_EQ(pipeline_slots(0, 4, 2), 2);
}

}  // namespace
}  // namespace weft
