// The one thin layer for files that must survive: every call can be made to fail by tests
// (io_fault.h), and every error names the path. Complete-or-absent files are written under another
// name, synced and renamed: small ones as NAME.XXXXXXXX.part; large ones under an exact name, so
// that a killed program leaves one only; a marker or a state beside it says whose it is.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "indexed_dataset/base/storage/io_fault.h"
#include "indexed_dataset/base/storage/whole_files.h"

namespace weft {

// A file read at offsets, from any number of threads. Against a MappedFile: a disk that fails or a
// file that shrinks meanwhile gives an exception with the path and not a signal. Move-only.
class InputFile {
 public:
  InputFile() = default;
  explicit InputFile(std::filesystem::path path,
                     Links links = Links::kFollow);  // throws std::system_error
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;
  ~InputFile();
  // Exactly these bytes. Throws std::system_error; std::runtime_error if the file ends before.
  void read_at(void* data, size_t size_bytes, int64_t offset_bytes) const;
  // From now on bytes behind the end are zeros: a file that has lost its end is as one that has
  // lost a page.
  void read_zeros_behind_end() { has_zeros_behind_end_ = true; }
  int64_t size_bytes() const { return size_bytes_; }  // when it was opened
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int fd_ = -1;
  int64_t size_bytes_ = 0;
  bool has_zeros_behind_end_ = false;
};

// A file written from front to back or at offsets; descriptor closed by the destructor, errors
// there are ignored: call close() to see them. A symbolic link is never written through (ELOOP):
// one that somebody planted would lead to another file. All members throw std::system_error with
// the path in the message.
class OutputFile {
 public:
  OutputFile() = default;
  // Creates or truncates; with `keep`, opens an existing file for writing without truncating it.
  explicit OutputFile(std::filesystem::path path, bool keep = false);
  // A file that another process has made; std::system_error if it is not there (any more).
  static OutputFile existing(std::filesystem::path path);
  // A new file beside `final_path`, for what will be renamed to it: FINAL_PATH.XXXXXXXX.part with
  // random digits, which no file had before, so that no file is overwritten. Only its owner can
  // open one that `is_private`, from its first instant (mode 0600).
  static OutputFile create_part(const std::filesystem::path& final_path, bool is_private = false);
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&& other) noexcept;
  ~OutputFile();

  void append(const void* data, size_t size_bytes);  // at the end of what was appended so far
  // pwrite, whole. Thread-safe among calls of write_at and preallocate.
  void write_at(const void* data, size_t size_bytes, int64_t offset_bytes);
  // Asks for space without changing the file's size, where the file system can: fewer fragments
  // when several threads write. Whatever is refused here is met by the write itself.
  void preallocate(int64_t offset_bytes, int64_t size_bytes);
  void truncate(int64_t size_bytes);
  // Has the kernel write out what was appended, and waits until at most `max_bytes` of it are not
  // on the disk. A large file is then written at an even pace, and sync() is short. It does not
  // replace sync(), and does nothing where the file system has no such call.
  void bound_unwritten(int64_t max_bytes);
  void sync();   // fdatasync
  void close();  // throws if the kernel reports a late error
  int64_t size_bytes() const { return size_bytes_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  void note_end(int64_t end_bytes);  // the file reaches at least so far

  std::filesystem::path path_;
  int fd_ = -1;
  int64_t size_bytes_ = 0;
  int64_t written_out_bytes_ = 0;  // what bound_unwritten() has waited for
};

// The name of a part is so much longer than the final one.
inline constexpr int kPartNameBytes = 14;

// Writes and syncs a whole small file under a name that no program takes for complete yet.
void write_synced_file(const std::filesystem::path& path, std::string_view content);

// Writes a whole small file: OutputFile::create_part, fsync, rename, folder sync. Only its owner
// may read one that is `is_private` (mode 0600).
void write_file_atomically(const std::filesystem::path& path, std::string_view content,
                           bool is_private = false);

}  // namespace weft
