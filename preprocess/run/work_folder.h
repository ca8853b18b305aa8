// PREFIX.work, the folder in which a run keeps what is not finished, so that the same command can
// go on with it. It lies where users keep files of their own, so nothing in it is touched unless it
// is certain that weft-data made it:
//
//   PREFIX.work/weft-data.work     the marker: made right behind the folder and removed right before
//                                  it; a crash in between leaves an empty folder, which is used
//   PREFIX.work/journal, commit, 0.bin, ...     only exact names count as files of a run
//
// In a folder that several users may write to, somebody else can make PREFIX.work first. Its files
// would then decide what the commit renames and removes, so the owner and the mode are checked too.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace weft {

// PREFIX.work
std::filesystem::path work_folder(const std::filesystem::path& output_prefix);

// Throws UsageError that says what is wrong unless the folder is absent, or empty, or
// marked; belongs to this user; cannot be written to by users who cannot write to the folder around
// it; and holds nothing but plain files of this user. By a link the work could lie on another file
// system, where files cannot be given their names.
void check_work_folder(const std::filesystem::path& folder);

// Makes the folder and its marker where they are missing; calls check_work_folder().
void make_work_folder(const std::filesystem::path& folder);

// Removes the folder: its journal first, so that what a crash leaves of it is not work, and the
// commit file last. Throws UsageError, and removes nothing, if check_work_folder() does
// or if something is in it that no run makes.
void remove_work_folder(const std::filesystem::path& folder);

// The same for a run that fails already: an error here must not hide the first one.
void try_remove_work_folder(const std::filesystem::path& folder) noexcept;

// For several ranks. Throws UsageError if the folder is to lie on a file system where
// one computer may overwrite, unnoticed, what another one wrote beside it.
void check_file_system(const std::filesystem::path& folder);
// Ranks that write to different folders of one name, each on its own disk, would go unnoticed. So
// rank 0 writes a random token to the folder and returns it,
std::string publish_work_folder(const std::filesystem::path& folder);
// and the others read it, again and again for 10 s. Throws UsageError if it is not
// there, and RankStopped if `stop_requested` says so.
void check_sees_work_folder(const std::filesystem::path& folder, const std::string& token,
                            const std::string& rank_0_name,
                            const std::function<bool()>& stop_requested);

}  // namespace weft
