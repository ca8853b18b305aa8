// A lock on an output name, so that two runs never write the same files. A text file:
//
//   process 4711 on node3                    the owner, for people and for mounts without flock
//   merge may leave d.bin.part               files beside it that this or an earlier owner began, by
//   merge may leave d.idx.part               the name of its command
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace weft {

// Holds NAME, locked, while it lives; the file is removed afterwards, unless files that it names
// are still there. The kernel drops the lock of a dead process, so a file that a killed run left
// behind is simply taken over.
//
// Some mounts have no flock (Lustre without "-o flock"). There the existence of the file is the
// lock: one that a killed process of this host left is taken over, one of another host must be
// removed by hand, which the message says.
class LockFile {
 public:
  // Throws LockedByAnotherRun naming host and process of the owner, if it still holds the lock
  // after `patience`: a killed process keeps its locks until the kernel has taken it apart, which
  // takes seconds for one that uses a GPU. std::invalid_argument if the file is not a lock file of
  // ours (Cargo.lock); it is left alone. std::system_error if the file cannot be made.
  explicit LockFile(std::filesystem::path path, std::chrono::milliseconds patience = {});
  ~LockFile();
  LockFile(const LockFile&) = delete;

  // Returns the command that was killed when it had begun to write `file`; nothing if none says so.
  std::optional<std::string> find_writer(const std::filesystem::path& file) const;
  // Says in the file, before they are made, that `command` writes these files beside it: the
  // program that takes the lock after a kill knows by that which command left them. Throws
  // std::system_error.
  void add_files(const std::string& command, const std::vector<std::filesystem::path>& files);
  // For an owner that comes to its end and leaves them on purpose: they keep the lock no longer.
  void release_files(const std::vector<std::filesystem::path>& files) noexcept;

 private:
  struct Leftover {
    std::string command, name;
  };
  enum class Attempt { kLocked, kHeldByAnother, kAgain };
  Attempt try_lock();
  Attempt try_lock_by_name(bool is_new);
  void refuse_foreign_file() const;
  [[noreturn]] void throw_locked() const;
  void read_leftovers(const std::string& text);
  bool may_be_named(const Leftover& leftover) const;
  bool is_there(const Leftover& leftover) const noexcept;
  bool write_text() const;

  std::filesystem::path path_;
  int fd_ = -1;
  bool has_flock_ = true;
  std::string text_before_;  // of the file that was taken over by its name
  std::vector<Leftover> leftovers_;
};

}  // namespace weft
