// The configuration of a run, the events that it tells its caller, and its report.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "preprocess/documents/bad_lines.h"
#include "preprocess/inputs/work_plan.h"
#include "preprocess/ledger/pipeline_totals.h"
#include "preprocess/ledger/run_ranks.h"
#include "preprocess/rank/rank_options.h"

namespace weft {

struct PipelineConfig : RankOptions {
  std::vector<std::string> inputs;  // paths and URLs; "-" is standard input
  HttpOptions http;                 // how addresses are read
  // One dataset per key, in the order of rules.json_keys: PREFIX.bin and PREFIX.idx. All in one
  // folder, which is also that of work_prefix.
  std::vector<std::filesystem::path> output_prefixes;
  // Names PREFIX.work and PREFIX.lock; empty: the first of output_prefixes.
  std::filesystem::path work_prefix;
  // rules.origin_key was not asked for: a finished dataset with or without origins is as good.
  bool is_origin_key_default = false;
  std::string vocabulary_id;   // a hash of the vocabulary: a run goes on with the same one only
  int64_t max_bad_lines = -1;  // with OnBadLine::kSkip: more are an error; < 0: any number
  // A finished dataset of another run is replaced, unfinished work of another run is dropped, and
  // what is finished is done again.
  bool overwrite = false;
  // Part shard_idx of num_shards of the work; merged in order, the parts make the whole.
  int64_t shard_idx = 0, num_shards = 1;
  // The processes that make one output together, this one among them; null: it is alone.
  RunRanks* ranks = nullptr;
  int rank() const { return ranks ? ranks->rank() : 0; }
  int num_ranks() const { return ranks ? ranks->num_ranks() : 1; }
  // Several ranks may write where file_system.h knows of no coherence: all run on one computer.
  bool allow_incoherent_file_system = false;

  // The first documents of the inputs are all that is read; < 0: all of them.
  int64_t max_documents = -1;

  int64_t task_bytes = kTaskBytes;
  int64_t max_spilled_bytes = -1;  // in spill files; < 0: by the free space
};

struct InputReport {
  std::string path, version, format;
  int64_t num_file_bytes = 0;  // compressed where compressed
  int64_t num_bytes = 0;       // decompressed
  int64_t num_lines = 0;
};

struct OutputReport {
  std::filesystem::path prefix;
  int64_t num_documents = 0;  // in the file
  int64_t num_tokens = 0;
};

struct PipelineReport {
  PipelineTotals totals;
  std::vector<OutputReport> outputs;
  std::vector<InputReport> inputs;
  Condition where;                       // that left out totals.left_out
  std::vector<BadLine> shown_bad_lines;  // the first kNumShownBadLines
  std::string run_identity, run_hash;    // of what was made of what
  bool was_there = false;                // an earlier run had made it; only `outputs` is filled in
  bool is_leader = true;                 // rank 0: only its report is filled in
};

// Called on the thread that runs the pipeline.
struct PipelineEvents {
  // Before the work: bytes of the files that this run or shard has to read, < 0 if not known, and
  // what an earlier run has done of it.
  std::function<void(int64_t num_file_bytes, const PipelineTotals& before)> on_begin =
      [](int64_t, const PipelineTotals&) {};
  // The first part of an input was handed out.
  std::function<void(const std::string& input)> on_input = [](const std::string&) {};
  // Several times a second.
  std::function<void(const PipelineTotals&)> on_progress = [](const PipelineTotals&) {};
  // The same when all documents are written, until all files are read back (last_passes.h).
  std::function<void(int64_t num_bytes_read, int64_t num_all_bytes)> on_read_back = [](int64_t,
                                                                                       int64_t) {};
  // The first kNumShownBadLines, in input order.
  std::function<void(const BadLine&)> on_bad_line = [](const BadLine&) {};
  // Notes for users; from any thread.
  std::function<void(const std::string&)> on_note = [](const std::string&) {};
  // Asked several times a second, from any thread.
  std::function<bool()> stop_requested = [] { return false; };
  // Writes the manifest of output `k` to `path`; everything else is written.
  std::function<void(const PipelineReport&, size_t k, const std::filesystem::path& path)>
      write_manifest = [](const PipelineReport&, size_t, const std::filesystem::path&) {};
};

// Thrown when stop_requested() says so. No dataset is complete.
struct PipelineStopped {
  bool work_is_kept = false;  // the same run goes on where this one ended
};

}  // namespace weft
