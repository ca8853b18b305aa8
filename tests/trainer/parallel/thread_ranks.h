// Ranks as threads of one process: the network between them is memory.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "trainer/parallel/process_groups.h"
#include "trainer/parallel/transport_group.h"

namespace weft {

struct ThreadNetwork {
  struct Parcel {
    const void* data = nullptr;
    int64_t num_bytes = 0;
    bool is_taken = false;
  };
  explicit ThreadNetwork(int num_ranks) : inboxes(static_cast<size_t>(num_ranks)) {
    for (int rank = 0; rank < num_ranks; ++rank) places.push_back("thread " + std::to_string(rank));
  }
  std::mutex mutex;
  std::vector<std::deque<RankMessage>> inboxes;
  std::map<std::tuple<int, int, int>, std::deque<std::shared_ptr<Parcel>>> parcels;
  std::vector<std::string> places;
};

// Bytes are copied by the receiver, with the network's mutex held.
class ThreadTransport final : public RankTransport {
 public:
  ThreadTransport(ThreadNetwork& network, int rank) : network_(network), rank_(rank) {}
  int rank() const override { return rank_; }
  int num_ranks() const override { return static_cast<int>(network_.inboxes.size()); }
  const std::string& place_of(int rank) const override {
    return network_.places.at(static_cast<size_t>(rank));
  }
  void send(int to, int tag, std::string bytes) override {
    const std::lock_guard lock(network_.mutex);
    network_.inboxes.at(static_cast<size_t>(to)).push_back({rank_, tag, std::move(bytes)});
  }
  bool is_all_sent() override { return true; }
  std::optional<RankMessage> receive() override {
    const std::lock_guard lock(network_.mutex);
    auto& inbox = network_.inboxes.at(static_cast<size_t>(rank_));
    if (inbox.empty()) return std::nullopt;
    RankMessage message = std::move(inbox.front());
    inbox.pop_front();
    return message;
  }
  void exchange(std::span<const RankBuffer> buffers, int channel) override {
    const std::lock_guard lock(network_.mutex);
    channel_ = channel;
    for (const RankBuffer& buffer : buffers) {
      if (!buffer.sends) {
        wanted_.push_back(buffer);
        continue;
      }
      sent_.push_back(std::make_shared<ThreadNetwork::Parcel>(
          ThreadNetwork::Parcel{buffer.data, buffer.num_bytes, false}));
      network_.parcels[{rank_, buffer.peer, channel}].push_back(sent_.back());
    }
  }
  bool is_exchanged() override {
    const std::lock_guard lock(network_.mutex);
    while (!wanted_.empty()) {
      auto& queue = network_.parcels[{wanted_.front().peer, rank_, channel_}];
      if (queue.empty()) return false;
      EXPECT_EQ(queue.front()->num_bytes, wanted_.front().num_bytes);
      std::memcpy(wanted_.front().data, queue.front()->data,
                  static_cast<size_t>(queue.front()->num_bytes));
      queue.front()->is_taken = true;
      queue.pop_front();
      wanted_.pop_front();
    }
    for (const auto& parcel : sent_) {
      if (!parcel->is_taken) return false;
    }
    sent_.clear();
    return true;
  }
  void end() override {}
  void abort(int exit_code) override { ::_exit(exit_code); }

 private:
  ThreadNetwork& network_;
  const int rank_;
  int channel_ = 0;
  std::deque<RankBuffer> wanted_;
  std::vector<std::shared_ptr<ThreadNetwork::Parcel>> sent_;
};

// Runs `body` on as many threads as there are ranks and waits for all of them.
inline void run_ranks(int num_ranks, const std::function<void(HostGroup&)>& body,
                      std::chrono::milliseconds timeout = std::chrono::minutes(5)) {
  ThreadNetwork network(num_ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < num_ranks; ++rank) {
    threads.emplace_back([&, rank] {
      TransportGroup group(std::make_unique<ThreadTransport>(network, rank),
                           {timeout, [](const std::string& message) {
                              std::fprintf(stderr, "error: %s\n", message.c_str());
                            }});
      body(group);
      group.end();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// The same with the communicators of a topology.
inline void run_topology(const Topology& topology,
                         const std::function<void(ProcessGroups&)>& body) {
  run_ranks(topology.world_size(), [&](HostGroup& host) {
    ProcessGroups groups = create_host_process_groups(host, topology);
    body(groups);
  });
}

}  // namespace weft
