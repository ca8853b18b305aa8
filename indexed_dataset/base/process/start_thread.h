// Threads of which every program here needs some.
#pragma once

#include <system_error>
#include <thread>
#include <utility>

#include "indexed_dataset/base/process/exit_code.h"

namespace weft {

// A thread that calls f(). Throws LimitExceeded if there can be no more: "Resource temporarily
// unavailable" alone says neither what nor why.
template <typename F>
std::thread start_thread(F&& f) {
  try {
    return std::thread(std::forward<F>(f));
  } catch (const std::system_error& error) {
    throw LimitExceeded(
        std::string("cannot start another thread (") + error.code().message() +
        "): the limit of processes (ulimit -u) or of memory (ulimit -v) is reached; "
        "raise it, or give fewer threads (--workers, --num-workers, OMP_NUM_THREADS)");
  }
}

}  // namespace weft
