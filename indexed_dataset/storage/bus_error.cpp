#include "indexed_dataset/storage/bus_error.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string_view>

#include "indexed_dataset/process/exit_code.h"

namespace weft {
namespace {

// All of it is made for a signal handler, which may neither lock nor allocate: at fixed places,
// published by `begin`.
struct Mapping {
  std::atomic<uintptr_t> begin{0};  // 0: free; kBusy: being filled in
  size_t size_bytes = 0;
  std::array<char, 1024> path{};
};
constexpr uintptr_t kBusy = 1;
std::array<Mapping, 1024> mappings;

const Mapping* find_mapping(uintptr_t address) {
  for (const Mapping& mapping : mappings) {
    const uintptr_t begin = mapping.begin.load(std::memory_order_acquire);
    if (begin > kBusy && address >= begin && address - begin < mapping.size_bytes) return &mapping;
  }
  return nullptr;
}

// Other threads print meanwhile: a message of several writes would be torn by their lines.
void print(std::initializer_list<std::string_view> texts) {
  static std::array<char, 8192> line;
  size_t size = 0;
  for (const std::string_view text : texts) {
    const size_t length = std::min(text.size(), line.size() - size);
    std::memcpy(line.data() + size, text.data(), length);
    size += length;
  }
  if (::write(STDERR_FILENO, line.data(), size) < 0) return;  // standard error is gone, too
}

void on_bus_error(int signal, siginfo_t* info, void*) {
  const Mapping* mapping = find_mapping(reinterpret_cast<uintptr_t>(info->si_addr));
  if (mapping == nullptr) {
    std::signal(signal, SIG_DFL);  // the instruction is tried again
    return;
  }
  // Threads that meet the same wait here for the end.
  static std::atomic_flag has_begun;
  while (has_begun.test_and_set()) ::pause();
  struct stat status {};
  const bool is_shorter = ::stat(mapping->path.data(), &status) == 0 &&
                          static_cast<size_t>(status.st_size) < mapping->size_bytes;
  print(
      {"error: '", mapping->path.data(),
       is_shorter
           ? "' was made shorter while it was read; restore it, then run the same command again\n"
           : "' cannot be read any more: its disk or file system fails (Input/output error); when "
             "that works again, run the same command again\n"});
  ::_exit(static_cast<int>(ExitCode::kIo));
}

}  // namespace

void explain_bus_errors() {
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

void add_mapping(const void* begin, size_t size_bytes, const std::filesystem::path& path) noexcept {
  for (Mapping& mapping : mappings) {
    uintptr_t free = 0;
    if (!mapping.begin.compare_exchange_strong(free, kBusy)) continue;
    mapping.size_bytes = size_bytes;
    const std::string_view name = path.native();
    const size_t length = std::min(name.size(), mapping.path.size() - 1);
    std::memcpy(mapping.path.data(), name.data(), length);
    mapping.path[length] = '\0';
    mapping.begin.store(reinterpret_cast<uintptr_t>(begin), std::memory_order_release);
    return;
  }
}

void remove_mapping(const void* begin) noexcept {
  for (Mapping& mapping : mappings) {
    if (mapping.begin.load(std::memory_order_relaxed) != reinterpret_cast<uintptr_t>(begin))
      continue;
    mapping.begin.store(0, std::memory_order_release);
    return;
  }
}

}  // namespace weft
