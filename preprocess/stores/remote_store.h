// Stores of files beside the plain web, by the schemes of their addresses: how an address is
// checked, opened, and how a folder or a pattern becomes the files that it stands for.
//
// To add a store: a RemoteStore in a header of its own, and its line in find_store.cpp.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "preprocess/web/fetch_options.h"
#include "preprocess/web/remote_file.h"

namespace weft {

struct StoredFile {
  std::string address;  // of this version where the store has versions: it goes into manifests
  std::string sha256;   // "" where the store does not have it
  // Its path below the folder, or below the one before a pattern's first wildcard; "" for a file
  // that was named itself. Its names are safe on a disk.
  std::string path_below;
  bool is_of_folder = false;  // found in a folder: it is an input only by the name of one
};

struct StoredFiles {
  // All files of a folder and the folders in it, or all that fit a pattern: sorted by the bytes of
  // their addresses. A name of one file is that file.
  std::vector<StoredFile> files;
  std::string hint;  // what to try where none of them is an input; ""
};

// Lists the files of a store. One lives as long as a command looks for its inputs, and so may
// remember what it has asked.
class RemoteLister {
 public:
  virtual ~RemoteLister() = default;
  // A pattern may fit nothing. Throws NetworkError (also for a name of nothing), ReadCancelled,
  // UsageError.
  virtual StoredFiles list(const std::string& address) = 0;
};

struct RemoteStore {
  std::string_view scheme;  // "hf"
  // Throws UsageError.
  void (*check)(const std::string& address);
  std::shared_ptr<RemoteFile> (*open)(const std::string& address, const HttpOptions& options);
  std::unique_ptr<RemoteLister> (*make_lister)(const HttpOptions& options,
                                               const std::atomic<bool>& cancelled);
};

}  // namespace weft
