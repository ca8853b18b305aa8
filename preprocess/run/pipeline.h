// From JSONL files to Megatron datasets: plans the work, hands it out, commits the result.
//
//   plan_work -> Ledger (rank 0) <-> Rank (every rank) -> commit_run
//
// What is being made lies in a work folder until all of it is there. A run that was stopped or
// killed goes on from there; output and messages do not depend on the number of workers or ranks,
// on the size of chunks, or on interruptions.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "preprocess/compressed/decoded_source.h"
#include "preprocess/compressed/window_budget.h"
#include "preprocess/documents/bad_lines.h"
#include "preprocess/documents/tokenize_chunk.h"
#include "preprocess/ledger/pipeline_totals.h"
#include "preprocess/ledger/run_ranks.h"
#include "preprocess/ledger/work_plan.h"
#include "preprocess/stream/byte_source.h"

namespace weft {

struct PipelineConfig {
  std::vector<std::string> inputs;  // paths and URLs; "-" is standard input
  // One dataset per key, in the order of rules.json_keys: PREFIX.bin and PREFIX.idx. All in one
  // folder, which is also that of work_prefix.
  std::vector<std::filesystem::path> output_prefixes;
  // Names PREFIX.work and PREFIX.lock; empty: the first of output_prefixes.
  std::filesystem::path work_prefix;
  TokenizeRules rules;
  // Nobody asked for rules.origin_key: a finished dataset with or without origins is as good.
  bool is_origin_key_default = false;
  std::string vocabulary_id;   // a hash of the vocabulary: a run goes on with the same one only
  int64_t max_bad_lines = -1;  // with OnBadLine::kSkip: more are an error; < 0: any number
  int num_workers = 1;
  // A finished dataset of another run is replaced, unfinished work of another run is dropped, and
  // what is finished is done again.
  bool overwrite = false;
  // Part shard_idx of num_shards of the work; merged in order, the parts make the whole.
  int64_t shard_idx = 0, num_shards = 1;
  int64_t max_output_bytes = kDefaultMaxOutputBytes;  // of one compressed input
  // That compressed inputs may take; nothing: window_sizes_for(num_workers).
  std::optional<WindowSizes> windows;
  bool allow_http = false;  // inputs may be URLs without encryption
  // The processes that make one output together, this one among them; null: it is alone.
  RunRanks* ranks = nullptr;
  int rank() const { return ranks ? ranks->rank() : 0; }
  int num_ranks() const { return ranks ? ranks->num_ranks() : 1; }
  // Several ranks may write where file_system.h knows of no coherence: all run on one computer.
  bool allow_incoherent_file_system = false;

  // 1 MiB: a worker needs ~5 ms for it, far more than a queue costs.
  size_t chunk_bytes = size_t{1} << 20;
  int64_t task_bytes = kTaskBytes;
  size_t long_line_bytes = size_t{16} << 20;  // see RankSettings
  int64_t max_held_bytes_per_worker = int64_t{24} << 20;
  int64_t max_spilled_bytes = -1;  // of documents without a place; < 0: by the free space
  // The journal is written half as often: three of these are the work that a crash may cost.
  std::chrono::milliseconds sync_interval{1000};
};

struct InputReport {
  std::string path, format;
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
  std::vector<InputIdentity> identities;  // of the inputs
  std::vector<BadLine> shown_bad_lines;   // the first kNumShownBadLines
  std::string run_identity, run_hash;     // of what was made of what
  bool was_there = false;                 // an earlier run had made it; only `outputs` is filled in
  bool is_leader = true;                  // rank 0: only its report is filled in
};

// Called on the thread that runs the pipeline.
struct PipelineEvents {
  // Before the work: bytes of the files that this run or shard has to read, < 0 if not known, and
  // what an earlier run has done of it.
  std::function<void(int64_t num_file_bytes, const PipelineTotals& before)> on_begin;
  std::function<void(const std::string& input)> on_input;  // the first part of it was handed out
  std::function<void(const PipelineTotals&)> on_progress;  // several times a second
  std::function<void(const BadLine&)> on_bad_line;  // the first kNumShownBadLines, in input order
  std::function<void(const std::string&)> on_note;  // what people should know; from any thread
  std::function<bool()> stop_requested;             // asked several times a second, from any thread
  // Writes the manifest of output `k` to `path`; everything else is written.
  std::function<void(const PipelineReport&, size_t k, const std::filesystem::path& path)>
      write_manifest;
};

// Thrown when stop_requested() says so. No dataset is complete.
struct PipelineStopped {
  bool work_is_kept = false;  // the same run goes on where this one ended
};

// Reads everything, writes all datasets, and returns what was done. On any exception no output is
// complete, and work on inputs that can be read again is kept in the work folder. Throws
// std::runtime_error for a bad line under OnBadLine::kStop, for too many bad lines, for bad lines
// only, and for corrupt compressed input; std::system_error where a file cannot be read or written;
// std::invalid_argument where finished or unfinished work of another run is in the way;
// LockedByAnotherRun, PeerLost, ConfigurationDiffers.
PipelineReport run_pipeline(const PipelineConfig& config,
                            std::shared_ptr<const Vocabulary> vocabulary,
                            const PipelineEvents& events);

}  // namespace weft
