// TCP connections between rank 0 and the other machines of a run. Nothing travels over them after
// the start: the kernel closes that of a process that ends, however it was killed, and the peer
// sees it at once.
//
//   rank 0                          the lowest rank of another machine
//   offer()          ->             connect(offer), to the first address of it that answers
//                    -> KEY
//   accept()         <- KEY RANK
//
// Machines that find no way to rank 0 (IPv4) have no connection.
#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace weft {

// closed() may be called from another thread than the others.
class PeerConnections {
 public:
  PeerConnections() = default;
  PeerConnections(const PeerConnections&) = delete;
  PeerConnections& operator=(const PeerConnections&) = delete;
  ~PeerConnections();

  // Begins to listen. Returns "KEY PORT ADDRESS..." for connect(), or "" where that cannot be.
  std::string offer();
  // Waits until all of these ranks have connected, for `longest` at most, and listens no longer.
  void accept(const std::set<int>& ranks, std::chrono::milliseconds longest);
  // Connects to the process of the offer, which is rank 0, as `rank`. It takes `longest` at most.
  void connect(const std::string& offer, int rank, std::chrono::milliseconds longest);

  // Returns the ranks whose connections have closed, each once.
  std::vector<int> closed();

 private:
  std::mutex mutex_;
  std::map<int, int> sockets_;  // by rank; with mutex_ held
  int listener_ = -1;
  std::string key_;
};

}  // namespace weft
