#include "trainer/plan/limits.h"

#include <fmt/format.h>
#include <omp.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <fstream>
#include <limits>
#include <mutex>
#include <sstream>
#include <thread>
#include <vector>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/process/start_thread.h"

namespace weft {

namespace {

constexpr int64_t kMiB = 1 << 20;
// OpenBLAS maps a buffer for each thread that multiplies, and tries for ever if it gets none.
constexpr int64_t kBlasBufferBytes = 128 * kMiB;
constexpr int64_t kStackBytes = 8 * kMiB;
// Libraries, file maps and small allocations that come after the check.
constexpr int64_t kOtherBytes = 64 * kMiB;

// Returns the bytes that the process may still map, or the largest number where there is no limit.
int64_t address_space_left() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return std::numeric_limits<int64_t>::max();
  int64_t num_pages = 0;
  std::ifstream("/proc/self/statm") >> num_pages;
  return static_cast<int64_t>(limit.rlim_cur) - num_pages * sysconf(_SC_PAGESIZE);
}

void check_host_memory(int64_t plan_bytes, const HostNeeds& needs, int64_t free_bytes) {
  const int64_t memory_needed = plan_bytes + needs.index_bytes + needs.slot_bytes;
  if (needs.slot_bytes > free_bytes) {
    throw LimitExceeded(fmt::format(
        "the slots of the data loaders need {:.2f} GiB of host memory, which has {:.2f} GiB free; lower "
        "--global-batch-size or --seq-length, or name fewer groups for validation and test",
        to_gib(needs.slot_bytes), to_gib(free_bytes)));
  }
  if (needs.index_bytes > free_bytes) {
    throw LimitExceeded(fmt::format(
        "the index of the samples needs {:.2f} GiB of host memory, which has {:.2f} GiB "
        "free; lower --train-iters or --train-samples, or --eval-iters",
        to_gib(needs.index_bytes), to_gib(free_bytes)));
  }
  const int64_t address_needed = memory_needed + omp_get_max_threads() * kBlasBufferBytes +
                                 needs.num_loader_threads * kStackBytes + kOtherBytes;
  const int64_t left = address_space_left();
  if (address_needed <= left) return;
  throw LimitExceeded(
      fmt::format("this run needs {:.2f} GiB of address space, and the process may have {:.2f} GiB "
                  "more (ulimit -v); raise the limit, or lower --micro-batch-size, the model or "
                  "OMP_NUM_THREADS",
                  to_gib(address_needed), to_gib(std::max<int64_t>(left, 0))));
}

}  // namespace

int64_t free_host_bytes() { return create_cpu_backend(1)->free_memory_bytes(); }

int64_t sample_index_bytes(const DatasetTargetSizes& sizes,
                           std::span<const DatasetIdentity> datasets, int64_t seq_length) {
  const double samples = static_cast<double>(sizes.train_samples) +
                         static_cast<double>(sizes.valid_samples) +
                         static_cast<double>(sizes.test_samples);
  double sequences = 0, tokens = 0;
  for (const DatasetIdentity& dataset : datasets) {
    sequences += static_cast<double>(dataset.num_sequences);
    tokens += static_cast<double>(dataset.num_tokens);
  }
  const double epochs = 1 + samples * static_cast<double>(seq_length) / std::max(1.0, tokens);
  // 4 bytes for each sequence of each epoch, 12 for each sample (indexed_dataset/order/samples),
  // and 10 for each sample of a blend (indexed_dataset/order/blends).
  const double per_sample = datasets.size() > 1 ? 22 : 12;
  return static_cast<int64_t>(std::min(9e18, 4 * sequences * epochs + per_sample * samples));
}

void check_device_memory(int64_t needed_bytes, int64_t free_bytes, const std::string& device,
                         const MemoryAdvice& advice) {
  if (needed_bytes <= free_bytes) return;
  throw LimitExceeded(
      fmt::format("this run needs {:.2f} GiB on {}, which has {:.2f} GiB free; {} (--dry-run shows "
                  "the plan)",
                  to_gib(needed_bytes), device, to_gib(free_bytes), advice(free_bytes)));
}

void check_snapshot_memory(int64_t needed_bytes, int64_t free_bytes, const std::string& host) {
  if (needed_bytes <= free_bytes) return;
  throw LimitExceeded(fmt::format(
      "--async-save needs {:.2f} GiB of memory on {} for the copies that its ranks write, and "
      "{:.2f} GiB are free; leave --async-save out, or spread the ranks over more hosts",
      to_gib(needed_bytes), host, to_gib(std::max<int64_t>(free_bytes, 0))));
}

void check_memory(const MemoryPlan& plan, const Backend& backend, const HostNeeds& needs,
                  const MemoryAdvice& advice) {
  const int64_t needed = plan.device_bytes(), available = backend.free_memory_bytes();
  const int64_t pinned = plan.class_bytes(MemoryClass::kPinnedHost);
  check_device_memory(needed, available, backend.description(), advice);
  if (backend.kind() == DeviceKind::kCpu) {
    check_host_memory(needed + pinned, needs, available);
  } else {
    check_host_memory(pinned, needs, free_host_bytes());
  }
}

int64_t host_bytes(const MemoryPlan& plan, const Backend& backend, const HostNeeds& needs) {
  const bool is_on_host = backend.kind() == DeviceKind::kCpu;
  return plan.class_bytes(MemoryClass::kPinnedHost) + needs.index_bytes + needs.slot_bytes +
         (is_on_host ? plan.device_bytes() : 0);
}

int64_t num_ranks_on_host(const HostGroup& ranks) {
  int64_t count = 0;
  for (int rank = 0; rank < ranks.size(); ++rank)
    count += ranks.host_of(rank) == ranks.host_of(ranks.rank()) ? 1 : 0;
  return count;
}

void check_host_share(int64_t needed_bytes, int64_t share_bytes, const std::string& profile) {
  if (needed_bytes <= share_bytes) return;
  throw LimitExceeded(fmt::format(
      "each rank needs {:.2f} GiB of its host's memory, and host_memory_mib of --device-profile {} says "
      "{:.2f} GiB; lower --micro-batch-size or the model, or leave out --optimizer-offload or "
      "--async-save if they are given",
      to_gib(needed_bytes), profile, to_gib(share_bytes)));
}

void check_memory_of_host(int64_t num_ranks, int64_t needed_bytes, int64_t free_bytes,
                          const std::string& host) {
  if (needed_bytes <= free_bytes) return;
  throw LimitExceeded(fmt::format(
      "the {} ranks on {} need {:.2f} GiB of its memory together, and {:.2f} GiB are free; lower "
      "--micro-batch-size or the model, leave out --optimizer-offload if it is given, or start fewer ranks "
      "on a host",
      num_ranks, host, to_gib(needed_bytes), to_gib(free_bytes)));
}

void check_memory_of_hosts(HostGroup& ranks, int64_t needed_bytes, int64_t free_bytes) {
  const std::string& host = ranks.host_of(ranks.rank());
  int64_t num_ranks = 0, needed_on_host = 0, free_on_host = free_bytes;
  const std::vector<std::string> by_rank =
      ranks.all_gather(fmt::format("{} {}", needed_bytes, free_bytes));
  for (int rank = 0; rank < ranks.size(); ++rank) {
    if (ranks.host_of(rank) != host) continue;
    int64_t needed = 0, free = 0;
    std::istringstream(by_rank[static_cast<size_t>(rank)]) >> needed >> free;
    ++num_ranks;
    needed_on_host += needed;
    free_on_host = std::min(free_on_host, free);
  }
  check_memory_of_host(num_ranks, needed_on_host, free_on_host, host);
}

void check_threads(int64_t num_loader_threads) {
  // OpenMP's threads and those of the CPU backend are as many each.
  const int64_t count = num_loader_threads + 2 * omp_get_max_threads();
  std::mutex mutex;
  std::condition_variable released;
  bool may_end = false;
  std::vector<std::thread> threads;
  const auto end_all = [&] {
    {
      const std::lock_guard lock(mutex);
      may_end = true;
    }
    released.notify_all();
    for (std::thread& thread : threads) thread.join();
  };
  try {
    threads.reserve(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
      threads.push_back(start_thread([&] {
        std::unique_lock lock(mutex);
        released.wait(lock, [&] { return may_end; });
      }));
    }
  } catch (...) {
    end_all();
    throw;
  }
  end_all();
}

}  // namespace weft
