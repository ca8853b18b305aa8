#include "preprocess/run/work_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <iterator>
#include <optional>
#include <random>
#include <regex>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "indexed_dataset/base/process/crash_point.h"
#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/base/storage/file_system.h"
#include "indexed_dataset/base/storage/free_space.h"
#include "preprocess/ledger/ledger_link.h"
#include "preprocess/rank/spill_file.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr char kMarker[] = "weft-data.work";
constexpr char kMarkerText[] =
    "weft-data keeps unfinished work in this folder. The command that began it goes on with it, and "
    "removes the folder at its end.\n";

constexpr char kRanks[] = "ranks";
// Clients of shared file systems may know for some seconds that a new file is not there.
constexpr std::chrono::seconds kFileIsSeenWithin{10};

[[noreturn]] void refuse(const fs::path& path, const std::string& why) {
  throw UsageError("'" + path.string() + "' " + why +
                   "; the run would keep its unfinished work there: move it away, or "
                   "choose another --output-prefix");
}

// NFS keeps a removed file that is still open under a name of its own.
constexpr char kNamesOfARun[] =
    R"((journal|commit|ranks)((\.[0-9a-f]{8})?\.part)?)"
    R"(|\d+\.(bin|idx|bounds|sources|checksums|manifest\.json)((\.[0-9a-f]{8})?\.part)?)"
    R"(|\.nfs[0-9a-f]{8,}|weft-data\.work)";

bool is_of_a_run(const std::string& name) {
  static const std::regex names(kNamesOfARun);
  return std::regex_match(name, names) || is_spill_name(name);
}

struct stat status_of(const fs::path& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) {
    throw std::system_error(errno, std::generic_category(), "cannot stat '" + path.string() + "'");
  }
  return status;
}

// The owner that files of this process have in `folder`: not always this user, since NFS servers
// give files of root to another one.
uid_t owner_of_new_files(const fs::path& folder) {
  std::string name = folder / ".weft-owner-XXXXXX";
  const int fd = ::mkstemp(name.data());
  if (fd < 0) return ::geteuid();
  struct stat status {};
  const bool is_known = ::fstat(fd, &status) == 0;
  ::unlink(name.c_str());
  ::close(fd);
  return is_known ? status.st_uid : ::geteuid();
}

class OwnerCheck {
 public:
  explicit OwnerCheck(fs::path around) : around_(std::move(around)) {}
  bool is_own(uid_t owner) {
    if (owner == ::geteuid()) return true;
    if (!other_) other_ = owner_of_new_files(around_);
    return owner == *other_;
  }

 private:
  fs::path around_;
  std::optional<uid_t> other_;
};

}  // namespace

fs::path work_folder(const fs::path& output_prefix) { return output_prefix.string() + ".work"; }

void check_work_folder(const fs::path& folder) {
  if (!fs::exists(fs::symlink_status(folder))) return;
  const struct stat status = status_of(folder);
  if (!S_ISDIR(status.st_mode))
    refuse(folder, S_ISLNK(status.st_mode) ? "is a link" : "is no folder");
  OwnerCheck owner(folder_of(folder));
  if (!owner.is_own(status.st_uid)) {
    refuse(folder, "belongs to another user (" + std::to_string(status.st_uid) + ")");
  }
  struct stat around {};
  if (::stat(folder_of(folder).c_str(), &around) == 0 &&
      (status.st_mode & ~around.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    refuse(folder, "can be written to by other users");
  }
  bool is_empty = true;
  for (const auto& entry : fs::directory_iterator(folder)) {
    is_empty = false;
    struct stat file {};
    if (::lstat(entry.path().c_str(), &file) != 0 && errno == ENOENT) continue;
    if (S_ISLNK(file.st_mode)) refuse(entry.path(), "is a link");
    if (S_ISREG(file.st_mode) && !owner.is_own(file.st_uid)) {
      refuse(entry.path(), "belongs to another user (" + std::to_string(file.st_uid) + ")");
    }
  }
  if (is_empty || fs::exists(folder / kMarker)) return;
  refuse(folder, "holds files, but not '" + std::string(kMarker) +
                     "', which this version of weft-data puts into a folder of its own");
}

void make_work_folder(const fs::path& folder) {
  if (::mkdir(folder.c_str(), 0755) == 0) {
    sync_folder(folder_of(folder));
  } else if (errno != EEXIST) {
    throw std::system_error(errno, std::generic_category(),
                            "cannot create folder '" + folder.string() + "'");
  }
  crash_point("folder_made");
  check_work_folder(folder);
  if (fs::exists(folder / kMarker)) return;
  OutputFile marker(folder / kMarker);
  sync_folder(folder);
  marker.append(kMarkerText, std::size(kMarkerText) - 1);
  marker.close();
  crash_point("folder_marked");
}

void remove_work_folder(const fs::path& folder) {
  check_work_folder(folder);
  if (!fs::exists(folder)) return;
  std::vector<fs::path> rest;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!is_of_a_run(name) || entry.is_directory()) {
      refuse(entry.path(), "was not made by weft-data");
    }
    if (name != "commit" && name != kMarker) rest.push_back(entry.path());
  }
  remove_file(folder / "journal");
  crash_point("journal_removed");
  // A commit that lacks some of its files would be taken for one that has given them their names.
  remove_file(folder / "commit");
  crash_point("commit_removed");
  std::error_code is_still_open;
  for (const fs::path& path : rest) {
    crash_point("work_file_removed");
    if (path.filename().string().starts_with(".nfs")) {
      fs::remove(path, is_still_open);
    } else {
      fs::remove(path);
    }
  }
  crash_point("work_removed");
  // Files that are still open on NFS are removed by the next run.
  if (std::distance(fs::directory_iterator(folder), {}) > (fs::exists(folder / kMarker) ? 1 : 0)) {
    return;
  }
  fs::remove(folder / kMarker);
  crash_point("marker_removed");
  fs::remove(folder);
}

void try_remove_work_folder(const fs::path& folder) noexcept {
  try {
    remove_work_folder(folder);
  } catch (const std::exception&) {  // the next run meets it again
  }
}

void check_file_system(const fs::path& folder) {
  const fs::path around = folder_of(folder);
  const auto name = incoherent_file_system(around);
  if (!name) return;
  throw UsageError(
      "'" + around.string() + "' is on " + *name +
      ", where computers that write to one file can overwrite each other's bytes unnoticed; give "
      "each process a part of the work with --shard I/N and put the parts together with weft-data "
      "merge, or write to Lustre, GPFS, BeeGFS, CephFS or a local disk. If all ranks run on one "
      "computer, --allow-incoherent-file-system is safe");
}

std::string publish_work_folder(const fs::path& folder) {
  const std::string token = std::to_string(std::random_device()());
  write_file_atomically(folder / kRanks, token);
  return token;
}

void check_sees_work_folder(const fs::path& folder, const std::string& token,
                            const std::string& rank_0_name,
                            const std::function<bool()>& stop_requested) {
  const fs::path path = folder / kRanks;
  const auto deadline = std::chrono::steady_clock::now() + kFileIsSeenWithin;
  while (!fs::exists(path) || read_file(path, Links::kRefuse) != token) {
    if (stop_requested()) throw RankStopped{};
    if (std::chrono::steady_clock::now() > deadline) {
      throw UsageError("'" + folder.string() + "' is not the folder of that name of " +
                       rank_0_name +
                       "; give an --output-prefix on a file system that all ranks share");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

}  // namespace weft
