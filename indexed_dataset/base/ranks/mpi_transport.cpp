#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <condition_variable>
#include <cstdio>
#include <list>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "indexed_dataset/base/process/crash_point.h"
#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/process/start_thread.h"
#include "indexed_dataset/base/ranks/rank_transport.h"

namespace weft {
namespace {

// The launcher takes part in the end of a process. If it does not answer for so long, SIGALRM ends
// the process without it.
constexpr unsigned kPatienceWithLauncherS = 60;
// MPI counts in int; a larger buffer travels in parts.
constexpr int64_t kPartBytes = 1 << 30;

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int size = 0;
  MPI_Error_string(code, text, &size);
  throw RunFailed(static_cast<int>(ExitCode::kPeerLost), std::string(call) + ": " + text);
}

using std::chrono::milliseconds;

// The watch counts such intervals: one in which this process was suspended counts once, however
// long the suspension lasted.
constexpr milliseconds kInterval{500};

std::string lost_rank_message(const StartLimit& limit) {
  char host[256] = "?";
  ::gethostname(host, sizeof host - 1);
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%g", static_cast<double>(limit.timeout.count()) / 1e3);
  return "process " + std::to_string(::getpid()) + " on " + host +
         ": the ranks have not all started MPI within " + seconds + " s (" + limit.option +
         "): one of them is stopped, or its machine or the network to it is lost";
}

// Watches the start of MPI as long as it lives. MPI_Init_thread() and the first collective calls
// wait for all ranks, and nothing can tell them to stop: after the time limit the process ends.
class StartWatch {
 public:
  explicit StartWatch(const StartLimit& limit)
      : limit_(limit), thread_(start_thread([this] { watch(); })) {}
  StartWatch(const StartWatch&) = delete;
  StartWatch& operator=(const StartWatch&) = delete;
  ~StartWatch() {
    {
      const std::lock_guard lock(mutex_);
      has_started_ = true;
    }
    ended_.notify_all();
    thread_.join();
  }

 private:
  void watch() {
    std::unique_lock lock(mutex_);
    for (milliseconds left = limit_.timeout; left.count() > 0; left -= kInterval) {
      if (ended_.wait_for(lock, std::min(left, kInterval), [this] { return has_started_; })) return;
    }
    limit_.print_error(lost_rank_message(limit_));
    ::_exit(static_cast<int>(ExitCode::kPeerLost));
  }

  const StartLimit limit_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool has_started_ = false;
  std::thread thread_;
};

class MpiTransport final : public RankTransport {
 public:
  explicit MpiTransport(const StartLimit& limit) {
    const StartWatch watch(limit);
    crash_point("mpi_starts");
    int provided = MPI_THREAD_SINGLE;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
    check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    crash_point("mpi_has_started");
    if (provided < MPI_THREAD_SERIALIZED) {
      throw UsageError("this MPI cannot be called from more than one thread");
    }
    check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(MPI_COMM_WORLD, &num_ranks_), "MPI_Comm_size");
    check(MPI_Comm_dup(MPI_COMM_WORLD, &buffers_), "MPI_Comm_dup");
    gather_places();
  }

  int rank() const override { return rank_; }
  int num_ranks() const override { return num_ranks_; }
  const std::string& place_of(int rank) const override {
    return places_.at(static_cast<size_t>(rank));
  }

  void send(int to, int tag, std::string bytes) override {
    if (bytes.size() > INT_MAX) throw std::logic_error("a message between ranks is over 2 GiB");
    Transfer& transfer = sending_.emplace_back();
    transfer.message = {to, tag, std::move(bytes)};
    check(MPI_Isend(transfer.message.bytes.data(), static_cast<int>(transfer.message.bytes.size()),
                    MPI_BYTE, to, tag, MPI_COMM_WORLD, &transfer.request),
          "MPI_Isend");
  }

  bool is_all_sent() override {
    sending_.remove_if([](Transfer& transfer) { return is_done(transfer); });
    return sending_.empty();
  }

  std::optional<RankMessage> receive() override {
    is_all_sent();
    begin_receiving();
    for (auto at = receiving_.begin(); at != receiving_.end(); ++at) {
      if (!is_done(*at)) continue;  // the sender may stop still in the middle of a long message
      RankMessage message = std::move(at->message);
      receiving_.erase(at);
      return message;
    }
    return std::nullopt;
  }

  void exchange(std::span<const RankBuffer> buffers, int channel) override {
    for (const RankBuffer& buffer : buffers) {
      for (int64_t done = 0; done < buffer.num_bytes; done += kPartBytes) {
        char* part = static_cast<char*>(buffer.data) + done;
        const auto size = static_cast<int>(std::min(kPartBytes, buffer.num_bytes - done));
        MPI_Request& request = exchanging_.emplace_back(MPI_REQUEST_NULL);
        if (buffer.sends) {
          check(MPI_Isend(part, size, MPI_BYTE, buffer.peer, channel, buffers_, &request),
                "MPI_Isend");
        } else {
          check(MPI_Irecv(part, size, MPI_BYTE, buffer.peer, channel, buffers_, &request),
                "MPI_Irecv");
        }
      }
    }
  }

  bool is_exchanged() override {
    int is_done = 0;
    check(MPI_Testall(static_cast<int>(exchanging_.size()), exchanging_.data(), &is_done,
                      MPI_STATUSES_IGNORE),
          "MPI_Testall");
    if (is_done != 0) exchanging_.clear();
    return is_done != 0;
  }

  void end() override {
    ::alarm(kPatienceWithLauncherS);
    check(MPI_Finalize(), "MPI_Finalize");
    ::alarm(0);
  }

  void abort(int exit_code) override {
    ::alarm(kPatienceWithLauncherS);
    MPI_Abort(MPI_COMM_WORLD, exit_code);
    ::_exit(exit_code);
  }

 private:
  struct Transfer {
    RankMessage message;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  static bool is_done(Transfer& transfer) {
    int is_done = 0;
    check(MPI_Test(&transfer.request, &is_done, MPI_STATUS_IGNORE), "MPI_Test");
    return is_done != 0;
  }

  void begin_receiving() {
    int is_there = 0;
    MPI_Message handle = MPI_MESSAGE_NULL;
    MPI_Status status;
    check(MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &is_there, &handle, &status),
          "MPI_Improbe");
    if (is_there == 0) return;
    int num_bytes = 0;
    check(MPI_Get_count(&status, MPI_BYTE, &num_bytes), "MPI_Get_count");
    Transfer& transfer = receiving_.emplace_back();
    transfer.message = {status.MPI_SOURCE, status.MPI_TAG,
                        std::string(static_cast<size_t>(num_bytes), '\0')};
    check(
        MPI_Imrecv(transfer.message.bytes.data(), num_bytes, MPI_BYTE, &handle, &transfer.request),
        "MPI_Imrecv");
  }

  void gather_places() {
    using Place = std::array<char, 320>;
    Place own{};
    std::array<char, 256> host{};
    if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
    std::snprintf(own.data(), own.size(), "%s, process %ld", host.data(), long{::getpid()});
    std::vector<Place> all(static_cast<size_t>(num_ranks_));
    check(MPI_Allgather(own.data(), own.size(), MPI_BYTE, all.data(), own.size(), MPI_BYTE,
                        MPI_COMM_WORLD),
          "MPI_Allgather");
    for (const Place& place : all) places_.emplace_back(place.data());
  }

  int rank_ = 0, num_ranks_ = 1;
  std::vector<std::string> places_;          // by rank
  std::list<Transfer> sending_, receiving_;  // lists: MPI holds addresses of their elements
  MPI_Comm buffers_ = MPI_COMM_NULL;         // no message can be taken for a buffer
  std::vector<MPI_Request> exchanging_;
};

}  // namespace

std::unique_ptr<RankTransport> make_mpi_transport(std::string_view /*way_without_mpi*/,
                                                  const StartLimit& limit) {
  return std::make_unique<MpiTransport>(limit);
}

}  // namespace weft
