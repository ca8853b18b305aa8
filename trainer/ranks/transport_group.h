// The ranks of a run over a RankTransport (MPI), with a thread in each process that watches them.
//
//   other ranks        rank 0
//   round       ->            what this rank gives to all_gather() or max()
//               <-     round  what comes of it
//   alive       ->            every second or oftener: the operation in which this rank waits
//               <-     alive
//   failed      ->            this rank fails, or has seen that another one is gone
//               <-     end    how the run ends: every process is ended at once
//
// One process prints the reason, in one line that names rank, host and process, and writes
// failure.json: rank 0, or the first rank that is left where rank 0 itself is lost. The run ends
//   - with the exit code of a rank that fails;
//   - with kPeerLost (13) if a process is gone: ranks of its machine see that at once, and rank 0
//     within two seconds;
//   - with kHang (12) if a process alone does not get on with a step for the time limit;
//   - with kHang (12) if a rank is silent for the time limit, as a stopped process or a lost
//     machine is, or if ranks wait for others in one operation for longer than that.
// Time in which a process itself did not run (a suspended job) is not counted as silence of others.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "indexed_dataset/base/ranks/rank_transport.h"
#include "trainer/ranks/host_group.h"
#include "trainer/ranks/peer_connections.h"
#include "trainer/ranks/peer_processes.h"
#include "trainer/ranks/rank_progress.h"

namespace weft {

struct TransportGroupOptions {
  std::chrono::milliseconds timeout{600'000};  // --distributed-timeout-minutes
  // Says why the run ends, from any thread, in the one process whose task that is.
  std::function<void(const std::string& message)> print_error = [](const std::string&) {};
  bool watches = true;  // a thread does; a process alone may do without
};

class TransportGroup final : public HostGroup {
 public:
  TransportGroup(std::unique_ptr<RankTransport> transport, TransportGroupOptions options);
  // Fails with kInternalError unless end() was called; a process alone just ends.
  ~TransportGroup() override;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string name_of(int rank) const override;
  const std::string& host_of(int rank) const override;
  std::vector<std::string> gather(std::string_view mine) override;
  std::vector<std::string> all_gather(std::string_view mine) override;
  void max(std::span<int64_t> values) override;
  void exchange(std::span<const RankBuffer> buffers, int channel) override;
  FlightRecorder& recorder() override { return recorder_; }
  void set_failure_folder(const std::filesystem::path& folder) override;
  void end() override;
  void fail(int exit_code, const std::string& message) override;

 private:
  using Clock = std::chrono::steady_clock;
  using Lock = std::unique_lock<std::mutex>;
  struct Place {
    std::string host, machine;  // processes of one `machine` can see each other's end
    int64_t process = 0;
  };
  struct Peer {
    Clock::time_point last_heard, last_told;
    bool is_gone = false;
    bool is_closed = false;  // its connection is: it is gone, unless it is heard again
    RankProgress progress;   // rank 0: as it was told
  };
  struct Failure {
    int exit_code = 0;
    std::string message;
  };

  // Rank 0 combines the texts of all ranks into the one that all of them get.
  using Combine = std::function<std::string(const std::vector<std::string>& by_rank)>;
  std::string round(const char* name, std::string mine, const Combine& combine);
  void gather_places();
  void watch_places(const std::string& offer);
  void wait_until(const std::function<bool()>& is_there);

  // All with mutex_ held.
  enum Tag : int { kRound = 1, kAlive, kFailed, kEnd };
  void pump();
  void handle(RankMessage& message);
  void send(int to, int tag, std::string bytes = {});

  // Ends the thread.
  void stop_watching();
  // The thread, and with mutex_ held what it does (transport_watch.cpp).
  void watch();
  void say_alive(Clock::time_point now);
  void forgive_own_pause(Clock::time_point now);
  void check_processes(Lock& lock, Clock::time_point now);
  void check_silence(Lock& lock, Clock::time_point now);
  void check_waiting(Lock& lock);
  bool is_reporter() const;
  // Tells all ranks, prints, writes failure.json and ends all processes.
  [[noreturn]] void conclude(Lock& lock, const Failure& failure);
  [[noreturn]] void report(Lock& lock, const Failure& failure);
  [[noreturn]] void end_process(Lock& lock, int exit_code);
  void write_failure(const Failure& failure) const;
  void write_operations() const;

  std::unique_ptr<RankTransport> transport_;  // used with mutex_ held
  const TransportGroupOptions options_;
  const int rank_, size_;
  FlightRecorder recorder_;

  mutable std::mutex mutex_;
  std::vector<Place> places_;
  std::vector<Peer> peers_;
  PeerProcesses processes_;                      // those of this machine
  PeerConnections connections_;                  // to other machines
  std::vector<std::deque<std::string>> rounds_;  // rank 0: by rank; other ranks: results, in [0]
  std::optional<Failure> failed_;                // rank 0: what another rank has told first
  std::optional<Failure> end_;                   // other ranks: what rank 0 has told
  std::optional<Clock::time_point> gone_at_;     // when this rank saw that a process is gone
  std::filesystem::path failure_folder_;
  Clock::time_point last_watched_;
  bool is_ending_ = false;

  std::thread thread_;
};

// Creates the group of a process that is alone. Its thread ends the process with kHang where an
// operation that it has recorded lasts longer than the time limit: a step, or a wait for the
// device.
std::unique_ptr<HostGroup> create_lone_host_group(TransportGroupOptions options);

}  // namespace weft
