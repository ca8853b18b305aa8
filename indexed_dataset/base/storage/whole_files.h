// Files and folders as a whole, by the rules of file_io.h: renamed, removed, synced, read, mapped.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace weft {

// Removes a file, which may be absent, and syncs the folder. Throws std::system_error.
void remove_file(const std::filesystem::path& path);
// Makes the names of new files in `folder` survive a power cut. Throws std::system_error.
void sync_folder(const std::filesystem::path& folder);
// Renames `from` to `to` and syncs the folder, so that the new name survives a power cut.
void commit_rename(const std::filesystem::path& from, const std::filesystem::path& to);
// Exchanges two names in one step and syncs the folder of `second`. Returns false, and has changed
// nothing, where the file system cannot do that (NFS, Lustre). Throws std::system_error.
bool exchange_names(const std::filesystem::path& first, const std::filesystem::path& second);
// A symbolic link is followed, or opening it fails (ELOOP); the latter is for files that no user
// makes.
enum class Links { kFollow, kRefuse };
// The whole file. Throws std::system_error.
std::string read_file(const std::filesystem::path& path, Links links = Links::kFollow);

// The same of a file that must be a regular one. A pipe that nobody writes to would be waited for,
// and a signal would not end that. Throws std::system_error.
std::string read_regular_file(const std::filesystem::path& path, Links links = Links::kFollow);

// A read-only memory map of a whole regular file (empty files give an empty span). Move-only. A
// file that shrinks meanwhile, or whose disk fails, ends the program: see bus_error.h.
class MappedFile {
 public:
  MappedFile() = default;
  explicit MappedFile(const std::filesystem::path& path);  // throws std::system_error
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();
  std::span<const std::byte> bytes() const { return {data_, size_bytes_}; }
  // The time of the file's last change when it was mapped, in nanoseconds since 1970.
  int64_t modified_ns() const { return modified_ns_; }
  // From now on the kernel reads no more than what is touched or asked for: readers that jump
  // would wait for, and fill the page cache with, what it reads around each page otherwise.
  void expect_random_reads() const;
  // Asks the kernel to bring bytes [begin, begin + count) into the page cache, and does not wait.
  void will_need(size_t begin, size_t count) const;

 private:
  const std::byte* data_ = nullptr;
  size_t size_bytes_ = 0;
  int64_t modified_ns_ = 0;
};

}  // namespace weft
