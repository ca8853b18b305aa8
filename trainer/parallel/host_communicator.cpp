#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <stdexcept>

#include "kernels/numbers/bfloat16.h"
#include "kernels/numbers/float16.h"
#include "trainer/parallel/arena.h"
#include "trainer/parallel/communicator.h"

namespace weft {
namespace {

// A NaN counts as less than any number, wherever it stands: the maximum must not depend on the
// order of ranks.
float greater(float a, float b) { return a < b || a != a ? b : a; }

class HostCommunicator final : public Communicator {
 public:
  HostCommunicator(HostGroup& host, std::vector<int> ranks, int channel, std::string name)
      : host_(host),
        ranks_(std::move(ranks)),
        channel_(channel),
        name_(std::move(name)),
        rank_(static_cast<int>(std::find(ranks_.begin(), ranks_.end(), host.rank()) -
                               ranks_.begin())) {
    assert(rank_ < size());
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(ranks_.size()); }

  void all_reduce(Tensor inout, Reduce reduce, Stream /*stream*/) override {
    const FlightRecorder::Scope scope(host_.recorder(), label("all-reduce", inout));
    std::vector<ArenaRange> parts;
    const int64_t n = inout.num_elements();
    for (int64_t r = 0; r < size(); ++r) {
      parts.push_back({n * r / size(), n * (r + 1) / size() - n * r / size()});
    }
    reduce_part(inout, parts, reduce, at(inout, parts[static_cast<size_t>(rank_)].first));
    gather_parts(inout, parts);
  }

  void reduce_scatter(Tensor out, Tensor inp, Stream /*stream*/) override {
    const FlightRecorder::Scope scope(host_.recorder(), label("reduce-scatter", inp));
    check_parts(inp, out, size());
    reduce_part(inp, equal_parts(out.num_elements()), Reduce::kSum, out.as<char>());
  }

  void all_gather(Tensor out, Tensor inp, Stream /*stream*/) override {
    const FlightRecorder::Scope scope(host_.recorder(), label("all-gather", out));
    check_parts(out, inp, size());
    char* own = at(out, rank_ * inp.num_elements());
    if (own != inp.data()) std::memmove(own, inp.data(), static_cast<size_t>(inp.num_bytes()));
    gather_parts(out, equal_parts(inp.num_elements()));
  }

  void broadcast(Tensor inout, int root, Stream /*stream*/) override {
    const FlightRecorder::Scope scope(host_.recorder(), label("broadcast", inout));
    std::vector<RankBuffer> buffers;
    if (rank_ != root) buffers.push_back(buffer(root, false, inout.data(), inout.num_bytes()));
    for (int peer = 0; peer < size() && rank_ == root; ++peer) {
      if (peer != root) buffers.push_back(buffer(peer, true, inout.data(), inout.num_bytes()));
    }
    host_.exchange(buffers, channel_);
  }

  void exchange(std::span<const Transfer> transfers, Stream /*stream*/) override {
    const FlightRecorder::Scope scope(host_.recorder(), "exchange over " + name_ + " ranks");
    std::vector<RankBuffer> buffers;
    for (const Transfer& t : transfers) {
      buffers.push_back(buffer(t.peer, t.sends, t.tensor.data(), t.tensor.num_bytes()));
    }
    host_.exchange(buffers, channel_);
  }

 private:
  std::string label(const char* operation, Tensor tensor) const {
    return fmt::format("{} of {} bytes over {} ranks", operation, tensor.num_bytes(), name_);
  }
  static char* at(Tensor tensor, int64_t element) {
    return tensor.as<char>() + element * size_bytes(tensor.dtype());
  }
  RankBuffer buffer(int peer, bool sends, void* data, int64_t num_bytes) const {
    return {ranks_[static_cast<size_t>(peer)], sends, data, num_bytes};
  }
  std::vector<ArenaRange> equal_parts(int64_t count) const {
    std::vector<ArenaRange> parts;
    for (int64_t r = 0; r < size(); ++r) parts.push_back({r * count, count});
    return parts;
  }

  // Sends every other rank its part and writes the sum, or maximum, of this rank's part to `out`.
  void reduce_part(Tensor inp, const std::vector<ArenaRange>& parts, Reduce reduce, char* out) {
    const int64_t bytes = size_bytes(inp.dtype());
    const ArenaRange own = parts[static_cast<size_t>(rank_)];
    received_.resize(static_cast<size_t>(size() * own.count * bytes));
    std::vector<RankBuffer> buffers;
    std::vector<const char*> by_rank;
    for (int peer = 0; peer < size(); ++peer) {
      const ArenaRange part = parts[static_cast<size_t>(peer)];
      char* from_peer = received_.data() + peer * own.count * bytes;
      by_rank.push_back(peer == rank_ ? at(inp, own.first) : from_peer);
      if (peer == rank_) continue;
      buffers.push_back(buffer(peer, false, from_peer, own.count * bytes));
      buffers.push_back(buffer(peer, true, at(inp, part.first), part.count * bytes));
    }
    host_.exchange(buffers, channel_);
    if (inp.dtype() == DType::kFloat32) {
      combine<float>(reinterpret_cast<float*>(out), by_rank, own.count, reduce);
    } else if (inp.dtype() == DType::kBFloat16) {
      combine<BFloat16>(reinterpret_cast<BFloat16*>(out), by_rank, own.count, reduce);
    } else if (inp.dtype() == DType::kFloat16) {
      combine<Float16>(reinterpret_cast<Float16*>(out), by_rank, own.count, reduce);
    } else {
      throw std::invalid_argument("communicator: only fp32, bf16 and fp16 are summed");
    }
  }

  template <typename T>
  static void combine(T* out, const std::vector<const char*>& by_rank, int64_t count,
                      Reduce reduce) {
    constexpr int64_t kBlock = 4096;  // fits into the first-level cache
    float sums[kBlock];
    for (int64_t first = 0; first < count; first += kBlock) {
      const int64_t n = std::min(kBlock, count - first);
      for (size_t rank = 0; rank < by_rank.size(); ++rank) {
        const T* values = reinterpret_cast<const T*>(by_rank[rank]) + first;
        for (int64_t i = 0; i < n; ++i) {
          const auto value = static_cast<float>(values[i]);
          sums[i] = rank == 0                ? value
                    : reduce == Reduce::kSum ? sums[i] + value
                                             : greater(sums[i], value);
        }
      }
      for (int64_t i = 0; i < n; ++i) out[first + i] = T(sums[i]);
    }
  }

  void gather_parts(Tensor whole, const std::vector<ArenaRange>& parts) {
    const int64_t bytes = size_bytes(whole.dtype());
    const ArenaRange own = parts[static_cast<size_t>(rank_)];
    std::vector<RankBuffer> buffers;
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank_) continue;
      const ArenaRange part = parts[static_cast<size_t>(peer)];
      buffers.push_back(buffer(peer, false, at(whole, part.first), part.count * bytes));
      buffers.push_back(buffer(peer, true, at(whole, own.first), own.count * bytes));
    }
    host_.exchange(buffers, channel_);
  }

  HostGroup& host_;
  const std::vector<int> ranks_;
  const int channel_;
  const std::string name_;
  const int rank_;
  std::vector<char> received_;  // kept from call to call
};

}  // namespace

std::unique_ptr<Communicator> create_host_communicator(HostGroup& host, std::vector<int> ranks,
                                                       int channel, std::string name) {
  return std::make_unique<HostCommunicator>(host, std::move(ranks), channel, std::move(name));
}

}  // namespace weft
