// Files that are written without a wait for the disk: those that a power cut may take, and many
// small ones that are synced together before any of them counts.
#pragma once

#include <filesystem>
#include <vector>

namespace weft {

// Renames `from` to `to`. Other processes see one file or the other, but a power cut may leave a
// new one that is empty. Throws std::system_error.
void rename_unsynced(const std::filesystem::path& from, const std::filesystem::path& to);

// Has the contents of these files, which were written and closed before, survive a power cut.
// Several threads wait for the disk at once, because a file system takes what waits together to the
// disk in one go. Throws std::system_error.
void sync_files(const std::vector<std::filesystem::path>& files, int num_threads);

}  // namespace weft
