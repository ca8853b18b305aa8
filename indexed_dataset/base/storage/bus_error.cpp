#include "indexed_dataset/base/storage/bus_error.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <mutex>
#include <new>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "indexed_dataset/base/process/exit_code.h"

namespace weft {
namespace {

// The signal handler may neither lock nor allocate. So it goes through blocks that stay where they
// are for ever, and an entry is published by its `begin`.
struct Mapping {
  std::atomic<uintptr_t> begin{0};  // 0: free
  size_t size_bytes = 0;
  std::array<char, 1024> path{};
};
struct Block {
  std::array<Mapping, 256> mappings;
  std::atomic<Block*> next{nullptr};
};
Block first_block;

// All other code finds entries by it: a run of thousands of datasets has tens of thousands.
struct Registry {
  std::mutex mutex;
  std::unordered_map<const void*, Mapping*> used;
  std::vector<Mapping*> free;
  Block* last = nullptr;
};
// It lives for ever, because static objects may hold maps.
Registry& registry() {
  static auto* const registry = new Registry;
  return *registry;
}

// Returns a free entry; the caller holds the mutex.
Mapping* take_entry(Registry& all) {
  if (all.free.empty()) {
    all.free.reserve(all.used.size() + first_block.mappings.size());  // for all entries
    Block* added = all.last ? new Block : &first_block;
    for (Mapping& mapping : added->mappings) all.free.push_back(&mapping);
    if (all.last) all.last->next = added;
    all.last = added;
  }
  Mapping* entry = all.free.back();
  all.free.pop_back();
  return entry;
}

const Mapping* find_mapping(uintptr_t address) {
  for (const Block* block = &first_block; block != nullptr; block = block->next) {
    for (const Mapping& mapping : block->mappings) {
      const uintptr_t begin = mapping.begin.load(std::memory_order_acquire);
      if (begin > 0 && address >= begin && address - begin < mapping.size_bytes) return &mapping;
    }
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

void add_mapping(const void* begin, size_t size_bytes, const std::filesystem::path& path) noexcept
    try {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  Mapping*& entry = all.used[begin];
  if (entry == nullptr) entry = take_entry(all);
  entry->size_bytes = size_bytes;
  const std::string_view name = path.native();
  const size_t length = std::min(name.size(), entry->path.size() - 1);
  std::memcpy(entry->path.data(), name.data(), length);
  entry->path[length] = '\0';
  entry->begin.store(reinterpret_cast<uintptr_t>(begin), std::memory_order_release);
} catch (const std::bad_alloc&) {
  // Without memory the map has no name.
}

void remove_mapping(const void* begin) noexcept {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const auto found = all.used.find(begin);
  if (found == all.used.end()) return;
  if (Mapping* entry = found->second) {
    entry->begin.store(0, std::memory_order_release);
    all.free.push_back(entry);  // there is room: it was taken from here
  }
  all.used.erase(found);
}

}  // namespace weft
