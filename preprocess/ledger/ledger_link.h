// The requests of a run's ranks to its ledger, and the ledger's replies.
//
// The work is a list of tasks, each a range of one input that one rank reads from front to back. A
// task's documents stand in the output behind those of all tasks before it, so its *offset* is the
// sum of their counts: known when they are read to their ends, long before they are written. Ranks
// hold (or spill on disk) what has no offset yet.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "indexed_dataset/format/pair/dataset_counts.h"
#include "preprocess/documents/batch.h"
#include "preprocess/inputs/work_plan.h"
#include "preprocess/ledger/pipeline_totals.h"

namespace weft {

// Counts and checksums of a task, or of the part of it that was read so far.
struct TaskCounts {
  PipelineTotals totals;
  std::vector<DatasetCounts> datasets;    // one per key
  std::vector<WrittenChecksums> written;  // one per key, of exactly the documents in `datasets`
  // The first kNumShownBadLines; line_number and offset_bytes count from the task's begin, the
  // input's name is not filled in.
  std::vector<BadLine> bad_lines;
  // Decompressed bytes between begin and end, known at the task's end. (totals.num_bytes counts
  // whole lines instead, of which the last may reach behind `end`.)
  int64_t num_range_bytes = 0;

  void add(const TaskCounts& next);
};

// A file of documents of a task that were written before the task's offset was known. Each process
// writes spill files of its own: one that sleeps, and wakes up even in a later run, cannot write to
// what others read.
struct SpillFile {
  int64_t process_id = 0;  // of RunFiles
  int64_t num_bytes = 0;
  bool operator==(const SpillFile&) const = default;
};
// No task writes more, so a message with a larger number is damaged. Thousands of them add up
// without an overflow.
inline constexpr int64_t kMaxTaskBytes = int64_t{1} << 48;
int64_t num_bytes_of(const std::vector<SpillFile>& spill);

// Says how much of a task cannot be lost any more: whole chunks from its begin on.
struct TaskProgress {
  TaskCounts counts;
  int64_t next_offset_bytes = 0;  // decompressed, from the task's begin: where reading goes on
  // Its spill files, in the order of the task: one for each process that has worked on it. Empty if
  // all of its documents are in the output.
  std::vector<SpillFile> spill;
  // With a spill: the first documents in `counts`, which are in the output and in no spill file. An
  // earlier run wrote them when it knew the offset, which this run may have yet to learn.
  std::vector<DatasetCounts> before_spill;
  bool is_read = false;  // to its end

  bool is_done() const { return is_read && spill.empty(); }
};

// The counts of everything that stands before a task, in the output and in the task's input.
struct TaskOffset {
  std::vector<DatasetCounts> datasets;
  int64_t num_input_lines = 0;  // in earlier tasks of the same input
  // Decompressed, from the input's begin; in a part of the work from where it begins in a
  // compressed input.
  int64_t num_input_bytes = 0;
};

// When all tasks are in the output, the index is completed and every byte is read back for the
// checksums (last_passes.h): parts of that work go to all ranks as tasks did before.

// A TaskOffset in one dataset.
struct DatasetOffset {
  DatasetCounts before;
  int64_t num_input_bytes = 0;
};

struct LastPassPart {
  int64_t number = 0;   // from 0
  int64_t dataset = 0;  // of the keys
  // kIndex completes the .idx for the documents of some tasks, the others read a file back.
  enum class Kind : uint8_t { kIndex, kBin, kSources, kIdx } kind = Kind::kIndex;
  // kIndex: the counts of the dataset, the offset of each task, and the one behind the last task.
  DatasetCounts total;
  std::vector<DatasetOffset> offsets;
  // Else: a range of the file, from a multiple of kChecksumBlockBytes to another one or to the end,
  // and the bytes in it at which what one task wrote ends and the next begins.
  int64_t begin_bytes = 0, end_bytes = 0;
  std::vector<int64_t> cuts;
};

struct LastPassResult {
  int64_t number = 0;
  // kIndex: for each task its lengths, documents and sources as they were read (WrittenChecksums),
  // then for all tasks the bytes of offsets, document bounds and sources. Else: between the cuts.
  std::vector<Crc32> checksums;
  std::vector<uint64_t> block_hashes;  // of block_checksums.h; kIndex: none
};

// The suffix of the file that a part is about.
const char* file_suffix(LastPassPart::Kind kind);

// Says why a run fails. Among several failures the first in input order counts.
struct RunFailure {
  int exit_code = 1;
  std::string message;
  // A bad line that ends the run: the ledger completes line and byte from the task's offset.
  std::optional<BadLine> bad_line{};
  // Where it happened; -1: nowhere in particular.
  int rank = -1;
  int64_t task = -1;
};

RunFailure failure_of(const std::exception& error);
RunFailure stopped_on_request();

struct LedgerRequest {
  int64_t num_tasks_wanted = 0;
  int64_t num_parts_wanted = 0;  // of the last passes
  PipelineTotals newly_seen;     // tokenized since the last request, for progress lines
  struct Read {
    int64_t task = 0;
    TaskCounts counts;  // of the whole task
  };
  std::vector<Read> read_tasks;
  struct Durable {
    int64_t task = 0;
    TaskProgress progress;
    // Spill files that were copied to the output: with this in the journal they are removed.
    std::vector<SpillFile> copied_spill{};
  };
  std::vector<Durable> durable;
  std::vector<LastPassResult> part_results;
  // The first task of the rank that cannot be read on (a bad line, damaged input).
  struct Failed {
    int64_t task = 0;
    RunFailure failure;
  };
  std::optional<Failed> failed_task;
  // This rank ends for a reason of its own: a signal (exit code 10), or a failed write.
  std::optional<RunFailure> leaving;
};

struct LedgerReply {
  struct Assigned {
    Task task;
    TaskProgress progress;  // where to go on
  };
  std::vector<Assigned> assigned;
  std::vector<LastPassPart> parts;
  struct OffsetKnown {
    int64_t task = 0;
    TaskOffset offset;
  };
  std::vector<OffsetKnown> offsets_known;  // of tasks this rank holds, each sent once
  bool all_done = false;                   // the last passes are done, too: the rank may leave
  std::optional<RunFailure> failure;       // the run ends for all ranks
};

// Thrown by a rank when it, or another rank, was asked to stop. The ledger has its progress.
struct RankStopped {};

class LedgerLink {
 public:
  virtual ~LedgerLink() = default;
  // Reports what has happened, and returns what is to be done. Throws RunFailed if the run has
  // ended, and std::system_error if it cannot write its journal.
  virtual LedgerReply exchange(const LedgerRequest& request) = 0;
};

}  // namespace weft
