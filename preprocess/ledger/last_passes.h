// The last passes over what was written, in parts for all ranks, and the comparison of what is read
// back with what was written. A part of the bookkeeping of the ledger: no files, threads or clocks.
//
//   tasks in the output ----+--> .bin, block by block, as soon as all before is there --+
//                           |                                                           +-> done
//   all of them ------------+--> .idx of ranges of tasks --> .sources and .idx ---------+
//
// Nearly all bytes are in .bin: little is left to do behind the last task. Offsets of tasks make
// ranges of the index independent of each other. Blocks are hashed for the .checksums and compared
// in one go, so that what the .checksums say of a dataset is what its tasks wrote.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "indexed_dataset/format/pair/dtype.h"
#include "indexed_dataset/format/soundness/block_checksums.h"
#include "preprocess/ledger/ledger_link.h"

namespace weft {

// The files that a run writes.
struct WrittenFiles {
  std::vector<std::string> paths;  // of each dataset, without suffix
  TokenType type{};
  bool has_origins = false;
};

// Checksums of those bytes of a dataset's files that do not come from tasks.
struct DatasetFrame {
  Crc32 index_header, sources_header, sources_footer;
};

// A range of a file that does not hold what was written there.
struct LostBytes {
  std::string path;
  int64_t begin_bytes = 0, end_bytes = 0;
  int64_t first_task = 0, end_task = 0;  // are to be done again
};

class LastPasses {
 public:
  explicit LastPasses(WrittenFiles files);

  // The next task of a dataset, in output order, is in the output and synced.
  void add_task(size_t dataset, const DatasetOffset& offset, const WrittenChecksums& checksums);
  // That was the last one; the files have their sizes and `frames`.
  void complete(const std::vector<DatasetCounts>& totals, const std::vector<DatasetFrame>& frames);

  // At most `num_wanted` parts for `rank`, and no more than its share among `num_ranks`.
  std::vector<LastPassPart> give(int rank, int64_t num_wanted, int64_t num_ranks);
  // A result of `rank`; nothing happens if it does not hold that part. Throws
  // std::logic_error for one that does not fit its part.
  void take(int rank, LastPassResult result);

  bool all_done() const { return has_index_ && num_done_ == std::ssize(parts_); }
  // When all is done: in order of files and bytes.
  std::vector<LostBytes> lost_bytes() const;
  std::vector<FileChecksums> checksums(size_t dataset) const;

  // Bytes of all files that are read back, and those of them that have been.
  struct BytesRead {
    int64_t done = 0, all = 0;
  };
  // What there is to read is known when all tasks are in the output; `all` is 0 until then.
  BytesRead bytes_read() const { return bytes_read_; }

  int64_t num_parts() const { return std::ssize(parts_); }  // that there are by now

 private:
  using Kind = LastPassPart::Kind;
  struct Part {
    Kind kind{};
    size_t dataset = 0;
    int64_t begin = 0, end = 0;  // tasks, or bytes
    int rank = -1;               // that holds it
    bool is_done = false;
    LastPassResult result{};
  };
  // Neighbouring bytes of a file that were written, and are compared, together.
  struct Extent {
    int64_t end_bytes = 0;
    Crc32 expected;
    int64_t first_task = 0, end_task = 0;  // that are to be done again if it is lost
  };
  struct File {
    std::vector<Extent> extents;  // in order, none of them empty
    std::vector<int64_t> parts;   // in order
    size_t num_compared_parts = 0, num_compared_extents = 0;
    Crc32 read;  // of the next extent

    int64_t size_bytes() const { return extents.empty() ? 0 : extents.back().end_bytes; }
    void add(const Crc32& expected, int64_t first_task, int64_t end_task);
  };
  struct Dataset {
    std::vector<DatasetOffset> offsets;  // of tasks, and of the end
    std::vector<WrittenChecksums> tasks;
    std::array<File, 4> files;  // by Kind
    DatasetFrame frame;
    DatasetCounts total;
  };

  void add_part(Kind kind, size_t dataset, int64_t begin, int64_t end, bool is_next = false);
  void add_bin_parts(size_t k, bool is_all);
  void add_index_parts(size_t k);
  void index_is_complete();
  int64_t file_bytes(size_t k) const;
  LastPassPart message_of(int64_t number) const;
  void compare_index(const Part& part);
  void compare_blocks(size_t k, Kind kind);
  File& file(size_t k, Kind kind) { return datasets_[k].files[static_cast<size_t>(kind)]; }
  const File& file(size_t k, Kind kind) const {
    return datasets_[k].files[static_cast<size_t>(kind)];
  }

  WrittenFiles files_;
  std::vector<Dataset> datasets_;
  std::vector<Part> parts_;
  std::deque<int64_t> waiting_;  // numbers of parts that no rank holds
  int64_t num_index_parts_left_ = 0, num_done_ = 0;
  bool has_index_ = false;
  BytesRead bytes_read_;
  std::vector<LostBytes> lost_;
};

}  // namespace weft
