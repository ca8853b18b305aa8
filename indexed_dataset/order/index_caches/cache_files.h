// The caches of indexes and of blends share this: the folder, the lock of a writer, the stamp, and
// the look at files that Megatron itself wrote (index_cache.h).
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>

namespace weft {

// Building takes a minute at most; a process that waits longer names the process that holds the
// lock.
inline constexpr std::chrono::minutes kCacheLockPatience{10};

// Returns the text of a stamp, or "" where there is none. Throws std::system_error if it cannot be
// read.
std::string find_stamp(const std::filesystem::path& path);

// Returns the XXH3 of these bytes as a stamp tells it.
std::string xxh3_text(std::span<const std::byte> bytes);

// Throws std::system_error in words of --data-cache-path.
void create_cache_folder(const std::filesystem::path& folder);

// Returns what `map` returns of an array that Megatron itself wrote, and nothing where there is
// none: where `array` is absent, or a writer of Weft's has written the files that this stamp
// belongs to, or is at it. Throws std::runtime_error that names the array where `map` throws, as
// for data that were replaced since.
template <typename Map>
auto find_of_megatron(const std::filesystem::path& array, const std::filesystem::path& stamp,
                      const std::string& what, Map map) -> std::optional<decltype(map())> {
  // The lock is looked for first: a writer gives the stamp its name before it removes the lock, so
  // that one which ends between the two looks has left a stamp.
  const auto is_of_weft = [&] {
    return std::filesystem::exists(stamp.string() + ".lock") || std::filesystem::exists(stamp);
  };
  if (!std::filesystem::exists(array) || is_of_weft()) return std::nullopt;
  try {
    auto mapped = map();
    // A writer may have begun meanwhile.
    if (is_of_weft()) return std::nullopt;
    return mapped;
  } catch (const std::system_error&) {
    throw;
  } catch (const std::exception& error) {
    throw std::runtime_error(
        array.string() + ": this index cache of the run does not fit " + what + " (" +
        error.what() +
        "): were the data replaced since, or are the arguments of another run? To have the index "
        "built from the arguments, move the file away");
  }
}

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
