// Makes the lost or damaged .idx of a dataset again from the tokens that end its documents, and
// proves it where it can: the library behind weft-data repair.
//
//   what is there                                   what comes out
//   .bin whose documents end in <|endoftext|>       the lengths, offsets and bounds
//   .checksums                                      proof that the bytes are those that were lost
//   .manifest.json                                  that token, and the counts of documents and tokens
//                                                   that must come out
//
// Without --append-eod, or with empty documents, which .bin does not hold, a lost .idx cannot be
// made again: nothing else says where documents end.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "indexed_dataset/base/process/on_progress.h"

namespace weft {

struct RepairConfig {
  std::filesystem::path prefix;
  // Needed without a manifest: the token that ends documents, and the bytes of a token (2 or 4).
  std::optional<int64_t> end_of_document, token_bytes;
  int num_threads = 1;
  OnProgress on_progress = {};  // sees the bytes that are checked and searched for ends
};

struct RepairReport {
  bool was_sound = false;                   // nothing was done
  bool is_proven = false;                   // the .idx fits its checksum
  std::string how;                          // how the .idx was made
  std::vector<std::string> other_problems;  // what is damaged and cannot be made again
};

// Never touches a sound .idx; keeps a damaged one as PREFIX.idx.damaged and renames the new one
// into place. Throws std::runtime_error that says what is missing if it cannot be made again (then
// nothing is changed), std::system_error, LockedByAnotherRun.
RepairReport repair_dataset(const RepairConfig& config);

}  // namespace weft
