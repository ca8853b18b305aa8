// The files of a run that is not finished: PREFIX.work/K.bin, .idx, .bounds, .sources for the K-th
// key, and spill files (spill_file.h) for documents whose offset in the output is not known yet.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "indexed_dataset/format/pair/dtype.h"
#include "indexed_dataset/format/pair/shared_pair_writer.h"
#include "indexed_dataset/format/sidecars/source_map.h"
#include "preprocess/documents/tokenize_chunk.h"
#include "preprocess/ledger/last_passes.h"
#include "preprocess/ledger/ledger_link.h"

namespace weft {

class RunFiles {
 public:
  // Opens the files of all datasets in `folder`, which must exist; what they hold stays. Only rank
  // 0 makes files: one that came too late must not bring them back after the commit. With
  // `has_origins` all outputs have an origin for every document, otherwise none.
  RunFiles(std::filesystem::path folder, size_t num_datasets, TokenType type, bool make = true,
           bool has_origins = false);

  // Stands for this process in names of spill files: a random number, so that no other process that
  // ever works in this folder has the same.
  int64_t process_id() const { return process_id_; }

  // All that follows is thread-safe and throws std::system_error. Writing the same again is
  // harmless.

  // Writes a batch's documents behind `before`; their lines begin at before.num_input_bytes + the
  // offsets in `outputs`.
  void write(const TaskOffset& before, int32_t input_idx,
             const std::vector<Batch::Output>& outputs);

  // Writes a batch to this process's spill file of the task, at `offset_bytes`.
  void spill(int64_t task, int64_t offset_bytes, const std::vector<Batch::Output>& outputs);
  static int64_t spill_size(const std::vector<Batch::Output>& outputs);
  // Copies what the spill files hold to the output, behind `offset`. Throws std::runtime_error if
  // one does not hold whole batches.
  void unspill(int64_t task, const std::vector<SpillFile>& spill, const TaskOffset& offset,
               int32_t input_idx);
  // Closes this process's spill file of a task: nothing more will be written to it.
  void close_spill(int64_t task);

  // The file of dataset `k` with this suffix.
  static std::string path_in(const std::filesystem::path& folder, size_t k,
                             const std::string& suffix) {
    return (folder / (std::to_string(k) + suffix)).string();
  }
  // True if an earlier run's files are there.
  static bool are_there(const std::filesystem::path& folder, size_t num_datasets);

  // Makes what was written before the call survive a power cut.
  void sync();

  // When every task is in the output: gives dataset `k` its sizes, and writes and syncs what does
  // not come from tasks. What is left to do are the last passes (last_pass_work.h). May be
  // repeated.
  DatasetFrame prepare(size_t k, const DatasetCounts& total,
                       const std::vector<std::string>& input_names,
                       const InputParts& input_parts = {}, const Locators& locators = {});
  // How the last passes write to the .idx.
  SharedPairWriter& pair(size_t k) { return datasets_.at(k)->pair; }
  TokenType type() const { return type_; }
  bool has_origins() const { return has_origins_; }
  std::filesystem::path path_of(size_t k, const std::string& suffix) const {
    return path_in(folder_, k, suffix);
  }

 private:
  struct Dataset {
    Dataset(const RunFiles& files, size_t k, TokenType type, bool make);
    SharedPairWriter pair;
    OutputFile sources;
  };
  void write_sources(size_t k, const TaskOffset& before, int32_t input_idx,
                     const Batch::Output& output);
  std::shared_ptr<OutputFile> spill_file(int64_t task);

  std::filesystem::path folder_;
  TokenType type_;
  bool has_origins_;
  int64_t process_id_;
  std::vector<std::unique_ptr<Dataset>> datasets_;
  std::atomic<bool> has_new_files_{true};  // since the folder was synced
  std::mutex mutex_;
  std::map<int64_t, std::shared_ptr<OutputFile>> spills_;
};

}  // namespace weft
