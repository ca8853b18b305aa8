// PREFIX.work/spill.N.P: the documents of task N that process P tokenized before their offset was
// known. No other process writes to it, so one of an earlier run may wake up and write on. The
// process that goes on with the task begins a file of its own behind it.
//
//   spill := batch*                        in the order of the task
//   batch := for each key: num_bytes:u64 num_sequences:u64 num_documents:u64
//            tokens lengths:i32[] document_sequences:i32[] locators:i64[]
//            origins:byte[32][]            if they are kept
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/format/pair/dtype.h"
#include "indexed_dataset/format/pair/shared_pair_writer.h"
#include "indexed_dataset/format/sidecars/source_map.h"
#include "preprocess/documents/batch.h"
#include "preprocess/ledger/ledger_link.h"

namespace weft {

std::filesystem::path spill_path(const std::filesystem::path& folder, int64_t task,
                                 int64_t process_id);
bool is_spill_name(const std::string& name);

// True if the spill files are there, and hold so much.
bool has_spills(const std::filesystem::path& folder, int64_t task,
                const std::vector<SpillFile>& spill);

// Removes the spill files that no task's progress speaks of. Throws std::system_error.
void remove_stale_spills(const std::filesystem::path& folder,
                         const std::map<int64_t, TaskProgress>& progress);

struct SpillHeader {
  uint64_t num_bytes = 0, num_sequences = 0, num_documents = 0;
  // Behind the header.
  uint64_t size_bytes(bool has_origins) const {
    return num_bytes + 4 * num_sequences + (has_origins ? 12 + kOriginBytes : 12) * num_documents;
  }
};

// Reads a spill file from front to back.
class SpillReader {
 public:
  // Its first `num_bytes`.
  SpillReader(const std::filesystem::path& path, int64_t num_bytes, TokenType type,
              bool has_origins)
      : file_(path, Links::kRefuse),
        num_bytes_(num_bytes),
        type_(type),
        has_origins_(has_origins) {}

  bool at_end() const { return position_ == num_bytes_; }

  // Writes one key's part of a batch to the output behind `before`, the tokens a few megabytes at a
  // time, and leaves everything but the tokens in `output`, of which the sources are not written
  // yet. Returns what it holds. Throws std::runtime_error if the file does not hold whole batches;
  // std::system_error.
  DatasetCounts copy(const DatasetCounts& before, SharedPairWriter& pair, Batch::Output& output);

 private:
  SpillHeader read_header();
  void read_into(void* data, size_t size_bytes);
  template <typename T>
  void read_values(std::vector<T>& values, uint64_t count) {
    values.resize(count);
    read_into(values.data(), count * sizeof(T));
  }

  InputFile file_;
  int64_t num_bytes_, position_ = 0;
  TokenType type_;
  bool has_origins_;
};

}  // namespace weft
