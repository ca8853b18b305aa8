// Stores of files beside the plain web, by the schemes of their addresses: how an address is
// checked, opened, and how a folder or a pattern becomes the files that it stands for.
//
// To add a store: a RemoteStore in a header of its own, and its line in remote_store.cpp.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "preprocess/web/fetch_options.h"
#include "preprocess/web/remote_file.h"

namespace weft {

struct StoredFile {
  std::string address;      // of this version where the store has versions: it goes into manifests
  int64_t size_bytes = -1;  // -1: unknown
  std::string sha256;       // "" where the store does not have it
};

struct StoredFiles {
  // All files of a folder and the folders in it, or all that fit a pattern: sorted by the bytes of
  // their addresses. A name of one file is that file.
  std::vector<StoredFile> files;
  bool is_folder = false;  // of it only files with the names of inputs are read
};

// Lists the files of a store. One lives as long as a command looks for its inputs, and so may
// remember what it has asked.
class RemoteLister {
 public:
  virtual ~RemoteLister() = default;
  // Throws NetworkError, ReadCancelled, UsageError; std::system_error (ENOENT) where
  // nothing is.
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

// The store that an address belongs to; null if it is of none.
const RemoteStore* find_store(const std::string& address);

// Throws UsageError for an address that is neither of a store nor of the web.
void check_remote_address(const std::string& address, const HttpOptions& options);
// The file at an address of a store or of the web. Throws as check_remote_address().
std::shared_ptr<RemoteFile> open_remote(const std::string& address, const HttpOptions& options);

}  // namespace weft
