#include "trainer/ranks/peer_processes.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>

namespace weft {

std::string machine_of_this_process() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  char name[64] = "";
  const ssize_t size = ::readlink("/proc/self/ns/pid", name, sizeof name - 1);
  return boot + " " + std::string(name, size > 0 ? static_cast<size_t>(size) : 0);
}

PeerProcesses::~PeerProcesses() {
  for (const auto& [rank, handle] : handles_) ::close(handle);
}

void PeerProcesses::add([[maybe_unused]] int rank, [[maybe_unused]] int64_t process) {
#ifdef SYS_pidfd_open
  const long handle = ::syscall(SYS_pidfd_open, static_cast<pid_t>(process), 0U);
  if (handle < 0) return;
  const std::lock_guard lock(mutex_);
  handles_[rank] = static_cast<int>(handle);
#endif
}

std::vector<int> PeerProcesses::wait_for_ends(std::chrono::milliseconds longest) {
  std::vector<pollfd> polled;
  std::vector<int> ranks;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [rank, handle] : handles_) {
      polled.push_back({handle, POLLIN, 0});
      ranks.push_back(rank);
    }
  }
  std::vector<int> ended;
  if (::poll(polled.data(), polled.size(), static_cast<int>(longest.count())) <= 0) return ended;
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < polled.size(); ++i) {
    if (polled[i].revents == 0) continue;
    ended.push_back(ranks[i]);
    ::close(polled[i].fd);
    handles_.erase(ranks[i]);
  }
  return ended;
}

}  // namespace weft
