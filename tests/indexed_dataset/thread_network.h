// Ranks as threads of one process, for tests: the network between them is memory.
#pragma once

#include <unistd.h>

#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "indexed_dataset/base/ranks/rank_transport.h"

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
class ThreadTransport : public RankTransport {
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
      if (queue.front()->num_bytes != wanted_.front().num_bytes)
        throw std::logic_error("two ranks name different sizes for one exchange");
      if (const int64_t num_bytes = queue.front()->num_bytes; num_bytes > 0)
        std::memcpy(wanted_.front().data, queue.front()->data, static_cast<size_t>(num_bytes));
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

}  // namespace weft
