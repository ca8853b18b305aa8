// The files that folders, patterns and names in stores stand for. One process lists them for all
// ranks: stores limit how often they are asked, and a branch may move between two looks.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>

#include "preprocess/inputs/files_of_name.h"
#include "preprocess/stores/remote_store.h"

namespace weft {

class StoredInputs {
 public:
  // `cancelled` must outlive it.
  StoredInputs(const HttpOptions& options, const std::atomic<bool>& cancelled)
      : options_(options), cancelled_(cancelled) {}

  // The files of a name of a store: asked for once. Throws as RemoteLister::list(), and
  // std::system_error (ENOENT) where none of them is an input.
  const FilesOfName& files_of(const std::string& name, InputFormat format);

  // All that was listed, for the other ranks, which then ask no store for these names.
  std::string to_text() const;
  void take_text(const std::string& text);

 private:
  const HttpOptions options_;
  const std::atomic<bool>& cancelled_;
  std::map<const RemoteStore*, std::unique_ptr<RemoteLister>> listers_;
  std::map<std::string, FilesOfName> files_;  // by name
};

}  // namespace weft
