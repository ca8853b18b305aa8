// Notices at once when a process of this machine ends.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace weft {

// Returns a text that is the same for two processes if they share a kernel and the numbers of its
// processes.
std::string machine_of_this_process();

// Watches the processes of other ranks through handles (pidfd_open(2), Linux 5.3), which become
// readable when they end. Without such handles no end is noticed here. Thread-safe.
class PeerProcesses {
 public:
  PeerProcesses() = default;
  PeerProcesses(const PeerProcesses&) = delete;
  PeerProcesses& operator=(const PeerProcesses&) = delete;
  ~PeerProcesses();

  void add(int rank, int64_t process);
  // Waits until a process ends, for `longest` at most. Returns the ranks whose processes have
  // ended; each is returned once.
  std::vector<int> wait_for_ends(std::chrono::milliseconds longest);

 private:
  std::mutex mutex_;
  std::map<int, int> handles_;  // by rank
};

}  // namespace weft
