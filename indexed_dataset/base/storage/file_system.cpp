#include "indexed_dataset/base/storage/file_system.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <sstream>

#include "indexed_dataset/base/storage/io_call.h"

namespace weft {
namespace {

struct Type {
  uint32_t magic;  // f_type of statfs(2)
  const char* name;
};

// From linux/magic.h; 0xFE534D42 (SMB2_SUPER_MAGIC) and 0xFF534D42 (CIFS_SUPER_MAGIC) from
// fs/smb/common/smb2pdu.h, 0x73757245 (CODA) as in statfs(2).
constexpr Type kIncoherent[] = {{0x6969, "NFS"},     {0x517B, "SMB"},     {0xFF534D42, "SMB"},
                                {0xFE534D42, "SMB"}, {0x01021997, "9p"},  {0x5346414F, "AFS"},
                                {0x6B414653, "AFS"}, {0x73757245, "Coda"}};
constexpr uint32_t kFuse = 0x65735546;  // FUSE_SUPER_MAGIC; virtiofs has it, too

// FUSE clients of file systems that are coherent.
constexpr const char* kCoherentFuse[] = {"fuse.ceph-fuse", "fuse.ceph"};

// Returns the type with which the file system of `path` is mounted ("fuse.sshfs"): field 3 of a
// line of /proc/self/mountinfo is the device, and the first word behind " - " the type (proc(5)).
std::string mounted_type(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return "";
  const std::string device =
      std::to_string(major(status.st_dev)) + ":" + std::to_string(minor(status.st_dev));
  std::ifstream mounts("/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    std::string id, parent, its_device, type;
    std::istringstream(line) >> id >> parent >> its_device;
    const size_t separator = line.find(" - ");
    if (its_device != device || separator == std::string::npos) continue;
    std::istringstream(line.substr(separator + 3)) >> type;
    return type;
  }
  return "";
}

}  // namespace

std::optional<std::string> incoherent_file_system(const std::filesystem::path& folder) {
  const uint32_t magic = io_call::file_system_magic(folder);
  if (magic == kFuse) {
    const std::string type = mounted_type(folder);
    const bool is_coherent = std::find(std::begin(kCoherentFuse), std::end(kCoherentFuse), type) !=
                             std::end(kCoherentFuse);
    if (is_coherent) return std::nullopt;
    return "FUSE" + (type.empty() ? "" : " (" + type + ")");
  }
  const auto* found = std::find_if(std::begin(kIncoherent), std::end(kIncoherent),
                                   [magic](const Type& type) { return type.magic == magic; });
  if (found == std::end(kIncoherent)) return std::nullopt;
  return found->name;
}

}  // namespace weft
