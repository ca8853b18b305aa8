// The pipeline from JSONL files to Megatron datasets:
//
//   one reader (decompress, cut at line ends) -> N workers (parse, tokenize) -> one writer (in
//   input order)
//
// A fixed set of chunks circulates through these stages, so memory is bounded whatever the input,
// and the reader waits for the writer. Output and messages do not depend on the number of workers
// or on the size of chunks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "preprocess/bad_lines.h"
#include "preprocess/pipeline_totals.h"
#include "preprocess/tokenize_chunk.h"

namespace weft {

struct PipelineConfig {
  std::vector<std::string> inputs;  // paths; "-" is standard input
  // One dataset per key, in the order of rules.json_keys: PREFIX.bin and PREFIX.idx.
  std::vector<std::filesystem::path> output_prefixes;
  TokenizeRules rules;
  int64_t max_bad_lines = -1;  // with OnBadLine::kSkip: more are an error; < 0: any number
  int num_workers = 1;
  // 1 MiB: a worker needs ~10 ms for it, far more than a queue costs; with 64 workers all chunks
  // together stay near 500 MB with their tokens.
  size_t chunk_bytes = size_t{1} << 20;
  // Of text in memory at a time, if that is more than 2 * chunk_bytes in every chunk: what long
  // lines may use. One that is longer still travels alone.
  size_t max_text_bytes = size_t{256} << 20;
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
  std::vector<BadLine> shown_bad_lines;  // the first kNumShownBadLines
};

// Called on the thread that runs the pipeline, in input order.
struct PipelineEvents {
  std::function<void(const std::string& input)> on_input;  // its first chunk is being written
  std::function<void(const PipelineTotals&)> on_progress;  // after every chunk
  std::function<void(const BadLine&)> on_bad_line;         // the first kNumShownBadLines
  std::function<bool()> stop_requested;                    // asked several times a second
  // Everything is read, written and synced; only renames follow. May throw: then no dataset is
  // complete.
  std::function<void(const PipelineReport&)> before_commit;
};

// Thrown when stop_requested() says so. Nothing is left under the output names.
struct PipelineStopped {};

// Reads everything, writes all datasets, and returns what was done. On any exception no output is
// complete. Throws std::runtime_error for a bad line under OnBadLine::kStop, for too many bad
// lines, for bad lines only, and for corrupt compressed input; std::system_error where a file
// cannot be read or written.
PipelineReport run_pipeline(const PipelineConfig& config,
                            std::shared_ptr<const Vocabulary> vocabulary,
                            const PipelineEvents& events);

}  // namespace weft
