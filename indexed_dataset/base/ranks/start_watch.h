// Ends this process where MPI does not start in time.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

#include "indexed_dataset/base/ranks/rank_transport.h"

namespace weft {

// Watches the start of MPI as long as it lives. MPI_Init_thread() and the first collective calls
// wait for all ranks, and nothing can tell them to stop: after the time limit the process ends.
class StartWatch {
 public:
  explicit StartWatch(const StartLimit& limit);
  StartWatch(const StartWatch&) = delete;
  StartWatch& operator=(const StartWatch&) = delete;
  ~StartWatch();

 private:
  void watch();

  const StartLimit limit_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool has_started_ = false;
  std::thread thread_;
};

}  // namespace weft
