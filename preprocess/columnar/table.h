// A table in a file (Parquet, Arrow IPC) as rows: the interface to the plug-in weft_columnar.so,
// which alone is linked with libarrow and libparquet.
//
// Only types of the standard library pass between the two, exceptions included. Both are compiled
// with these headers: the name of the function that the plug-in exports holds their version.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "preprocess/columnar/row_chunk.h"

namespace weft {

enum class TableFormat { kParquet, kArrowFile, kArrowStream };

// The bytes from `begin` up to, not including, `end`.
struct FileRange {
  int64_t begin = 0, end = 0;
};

// The bytes of a file. Thread-safe.
class RandomAccess {
 public:
  virtual ~RandomAccess() = default;
  virtual int64_t size_bytes() const = 0;
  // Fills `data` with the bytes from `offset_bytes` on, which are all within the file. Throws what
  // the file's reader throws; the plug-in hands that on.
  virtual void read(int64_t offset_bytes, char* data, size_t size_bytes) const = 0;
  // The same bytes for a reader that goes through these ranges: the groups one after another, the
  // ranges of a group side by side, each from front to back. A file that lies far away is read
  // ahead so. Null where nothing is gained by it. `cancelled` must outlive it; then read() throws
  // ReadCancelled.
  virtual std::unique_ptr<RandomAccess> reading_ahead(
      const std::vector<std::vector<FileRange>>& /*groups*/,
      const std::atomic<bool>& /*cancelled*/) const {
    return nullptr;
  }
};

// What is wanted of a table, and how.
struct RowRequest {
  struct Key {
    std::string name;               // of a column; where there is none, `path` counts
    std::vector<std::string> path;  // names of columns within each other; may be empty
  };
  std::vector<Key> keys;                          // their columns hold texts
  std::vector<Key> values;                        // theirs hold texts, numbers or bools
  std::vector<std::vector<std::string>> origins;  // paths; those that name no text are passed over
  size_t max_text_bytes = 0;                      // of a value under a key
  size_t max_origin_bytes = 0;                    // of one under an origin: it is cut there
  size_t chunk_bytes = 0;                         // of a chunk, and what the last row has beyond
  int64_t max_memory_bytes = 0;                   // for pages, dictionaries and batches
};

// The rows of a part of a table, from front to back. For one thread.
class RowSource {
 public:
  virtual ~RowSource() = default;
  // Fills `chunk` with the next rows; false behind the last one. Throws std::runtime_error (file
  // and row group named) for damage and for columns that cannot be read, LimitExceeded beyond
  // `max_memory_bytes`, what RandomAccess throws.
  virtual bool next(RowChunk& chunk) = 0;
  // Bytes of the file from the part's begin to the rows that were read, about.
  virtual int64_t num_bytes_passed() const = 0;
};

// Thread-safe.
class Table {
 public:
  virtual ~Table() = default;
  // Throws std::runtime_error where a column that the request names is not there, or holds what it
  // must not.
  virtual void check(const RowRequest& request) const = 0;
  // Where reading can begin, ascending, [0] = 0. These are the row groups' places in the file where
  // the format has them, and else numbers that divide it evenly.
  virtual const std::vector<int64_t>& part_begins() const = 0;
  // The rows of the range [begin, end): part begins, or the size of the file. The first
  // `num_rows_passed` of them are passed over. Throws as check() and RowSource::next. Must not
  // outlive the table; `cancelled` is that of RandomAccess::reading_ahead.
  virtual std::unique_ptr<RowSource> read(int64_t begin, int64_t end, int64_t num_rows_passed,
                                          const RowRequest& request,
                                          const std::atomic<bool>& cancelled) const = 0;
};

// The plug-in exports it: it opens a table, which messages call `name`. Throws as RowSource::next.
using OpenTable = std::unique_ptr<Table>(TableFormat format,
                                         std::shared_ptr<const RandomAccess> file,
                                         const std::string& name, int64_t max_memory_bytes);
inline constexpr char kOpenTable[] = "weft_open_table_2";

// Calls `use` with each row as a JSON object with all columns, lists and
// structures among them. For small tables: of Parquet all is in memory. Throws as RowSource::next.
using ReadJsonLines = void(TableFormat format, std::shared_ptr<const RandomAccess> file,
                           const std::string& name, int64_t max_memory_bytes,
                           const std::function<void(const std::string& line)>& use);
inline constexpr char kReadJsonLines[] = "weft_read_json_lines_1";

}  // namespace weft
