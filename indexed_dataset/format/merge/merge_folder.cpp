#include "indexed_dataset/format/merge/merge_folder.h"

#include <system_error>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/format/pair/dataset_files.h"

namespace weft {

namespace fs = std::filesystem;

MergeFolder::MergeFolder(const fs::path& prefix)
    : prefix_(prefix.string()), folder_(prefix_ + ".merge"), marker_(folder_ / "weft-data.merge") {
  const fs::file_status status = fs::symlink_status(folder_);
  if (!fs::exists(status)) return;
  // An empty one was left between the folder and its marker.
  if (fs::is_directory(status) && (fs::exists(marker_) || fs::is_empty(folder_))) return;
  throw UsageError("'" + folder_.string() +
                   "' is there, and no merge has made it; move it away, or choose "
                   "another name for the dataset");
}

MergeFolder::~MergeFolder() {
  if (has_begun_) remove();
}

void MergeFolder::begin() {
  has_begun_ = true;
  remove();
  fs::create_directory(folder_);
  write_synced_file(marker_, "weft-data merge writes here\n");
}

fs::path MergeFolder::file(const std::string& suffix) const {
  return folder_ / ("merged" + suffix);
}

void MergeFolder::commit() const {
  // An older dataset of this name ends here, so that its .idx never stands beside new files.
  remove_file(prefix_ + ".idx");
  for (const char* suffix : kDatasetSuffixes) {
    if (fs::exists(file(suffix))) {
      commit_rename(file(suffix), prefix_ + suffix);
    } else {
      remove_file(prefix_ + suffix);
    }
  }
}

void MergeFolder::remove() const noexcept {
  std::error_code ignored;
  for (const char* suffix : kDatasetSuffixes)
    fs::remove(folder_ / (std::string("merged") + suffix), ignored);
  fs::remove(marker_, ignored);
  fs::remove(folder_, ignored);
}

}  // namespace weft
