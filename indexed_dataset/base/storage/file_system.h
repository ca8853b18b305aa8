// May several computers write to one file of a folder at the same time?
//
// The ranks of a run write neighbouring ranges of the same files, which begin and end anywhere. The
// client of NFS, SMB, 9p or AFS keeps whole pages and may write all of a page back, so that old
// bytes of one computer replace new ones of another. Linux' NFS client does so where the file has
// no locks (nfs_can_extend_write() in fs/nfs/write.c). Lustre, GPFS, BeeGFS and CephFS keep the
// pages of all clients coherent; on a local file system all ranks share them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace weft {

// The name of the file system that `folder` lies on if it is not known to be coherent: "NFS", "FUSE
// (fuse.sshfs)". Throws std::system_error.
std::optional<std::string> incoherent_file_system(const std::filesystem::path& folder);

}  // namespace weft
