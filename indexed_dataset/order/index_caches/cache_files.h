// The caches of indexes and of blends share this: the folder, the lock of a writer, and the stamp
// (index_cache.h).
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>

namespace weft {

// Building takes a minute at most; a process that waits longer names the process that holds the
// lock.
inline constexpr std::chrono::minutes kCacheLockPatience{10};

// The stamp of files that a writer has begun to replace.
inline constexpr const char* kBegunStamp = "{\"begun\": true}\n";

// Returns the text of a stamp, or "" where there is none. Throws std::system_error if it cannot be
// read.
std::string find_stamp(const std::filesystem::path& path);

// Returns the XXH3 of these bytes as a stamp tells it.
std::string xxh3_text(std::span<const std::byte> bytes);

// Throws std::system_error in words of --data-cache-path.
void create_cache_folder(const std::filesystem::path& folder);

// Returns what `open` returns. Files that another process replaces meanwhile, and damaged ones,
// count as absent, which is a value of its type without contents. Other errors, such as a disk that
// fails, are thrown.
template <typename Open>
auto open_or_nothing(Open open) -> decltype(open()) {
  try {
    return open();
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::no_such_file_or_directory) throw;
  } catch (const std::runtime_error&) {
  } catch (const nlohmann::ordered_json::exception&) {
  }
  return {};
}

}  // namespace weft
