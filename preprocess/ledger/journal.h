// PREFIX.work/journal: what an unfinished run is, and how far it is. Lines of text
//
//   16 hex digits, a space, a text, "\n"          XXH3-64 of the text
//
// The first line is the run's identity, as JSON. The text of every other line is the progress of
// one task: a LedgerRequest::Durable as ledger_messages.h writes it, in hex digits. The last line
// of a task counts. A torn last line, as a power cut leaves it, is dropped.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "indexed_dataset/base/storage/file_io.h"
#include "preprocess/ledger/ledger_link.h"

namespace weft {

class Journal {
 public:
  struct Content {
    std::string identity;                      // JSON, run_identity.h
    std::map<int64_t, TaskProgress> progress;  // by task
    int64_t num_bytes = 0;                     // of its whole lines
    // A line is damaged though whole ones follow, which are not believed. A torn end is no damage.
    bool is_damaged = false;
  };
  // Returns nothing if there is no journal, or none with a whole first line. Throws
  // std::system_error; std::runtime_error if it is not one of this version.
  static std::optional<Content> read(const std::filesystem::path& path);

  // Begins a journal, or goes on with one that has this identity.
  Journal(const std::filesystem::path& path, const std::string& identity);

  // The line of a task.
  static std::string line(const LedgerRequest::Durable& durable);

  // Appends and syncs. May be called again after it has thrown: what was half written goes.
  void add(const std::vector<LedgerRequest::Durable>& changed);

 private:
  OutputFile file_;
  int64_t num_bytes_ = 0;  // of lines that were written whole
};

}  // namespace weft
