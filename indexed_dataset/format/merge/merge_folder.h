// PREFIX.merge, a folder with the files of a merge until all of them are whole:
//
//   PREFIX.merge/weft-data.merge    the marker: made right behind the folder, removed right before
//   PREFIX.merge/merged.bin         and .idx, .sources, .checksums, .manifest.json
#pragma once

#include <filesystem>
#include <string>

namespace weft {

// It lies on the file system of PREFIX, so that its files can be renamed.
class MergeFolder {
 public:
  // Makes nothing. Throws UsageError if the folder is there and no merge has made it.
  explicit MergeFolder(const std::filesystem::path& prefix);
  // Removes the folder that begin() has made.
  ~MergeFolder();
  MergeFolder(const MergeFolder&) = delete;

  // Makes the folder, without the files that a killed merge may have left. Throws
  // std::system_error.
  void begin();
  std::filesystem::path file(const std::string& suffix) const;
  // Gives the files their names, the .idx last; older files of the dataset go. Throws
  // std::system_error.
  void commit() const;
  // Removes it if it is there, with the files that a merge makes in it.
  void remove() const noexcept;

 private:
  std::string prefix_;
  std::filesystem::path folder_, marker_;
  bool has_begun_ = false;
};

}  // namespace weft
