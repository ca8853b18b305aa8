// Makes one dataset of several, with all that stands beside the pair: the library behind
// weft-data merge.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "indexed_dataset/base/process/on_progress.h"

namespace weft {

struct MergeConfig {
  std::vector<std::filesystem::path> prefixes;  // in this order; one may come twice
  std::filesystem::path output_prefix;
  // A list of documents that are left out (drop_list.h); empty: none is.
  std::filesystem::path drop_list;
  int num_threads = 1;
  bool overwrite = false;                                    // replace a dataset of other parts
  std::string program_version;                               // for the manifest
  std::vector<std::pair<std::string, std::string>> options;  // for the manifest
};

struct MergeReport {
  int64_t num_documents = 0, num_tokens = 0, num_bytes = 0;
  int64_t num_dropped = 0;         // documents
  std::vector<std::string> notes;  // what the result lacks, and what may not be meant
  bool was_there = false;          // an earlier call made it of these parts, so nothing was done
};

// Writes PREFIX.bin, .idx, .checksums, .manifest.json, and .sources where every part has one (with
// origins where any has them; documents of other parts then have empty ones). All are written in
// the folder PREFIX.merge; once they are whole an older .idx of this name is removed, then they are
// renamed, the .idx last: there is no moment at which something incomplete looks complete, and the
// same call makes anew what a killed one began. After an exception the folder is gone.
//
// `check` is called often, from any thread; what it throws ends the work. `on_progress` sees every
// byte when it is copied, and when it is read back. Throws LockedByAnotherRun; what
// documents_to_drop() throws; UsageError if the output is one of the parts, if one lies in
// PREFIX.merge, or if, without `overwrite`, the output is a dataset made of others;
// std::runtime_error if parts do not fit each other (token types, vocabularies, shards that are not
// all of one run) or are damaged; std::system_error if files cannot be read or written, and
// (ENOSPC) if there is no room, before anything is written.
MergeReport merge_datasets(const MergeConfig& config, const std::function<void()>& check,
                           const OnProgress& on_progress = {});

}  // namespace weft
