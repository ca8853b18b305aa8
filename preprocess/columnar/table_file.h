// A file with a table in it, as an input: what it is by its first bytes, its parts, its rows.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "preprocess/columnar/table.h"
#include "preprocess/compressed/input_parts.h"

namespace weft {

// So many first bytes tell whether a file holds a table.
constexpr size_t kNumTableMagicBytes = 8;
std::optional<TableFormat> table_format(std::string_view first_bytes);
// The same for a file. Throws std::system_error if it cannot be read.
std::optional<TableFormat> table_format_of_file(const std::string& path);

// Calls `use` with each row of a local file of this format as a JSON object. Throws UsageError
// where the plug-in is missing; as ReadJsonLines.
void read_json_rows(const std::string& path, TableFormat format,
                    const std::function<void(const std::string& line)>& use);

// Opens a local file. Reading throws std::system_error, and std::runtime_error where the file has
// become shorter.
std::shared_ptr<const RandomAccess> open_random_access(const std::string& path);

// Thread-safe. The table is open, its metadata read, while rows of it are read; the one that was
// opened last stays open, for consecutive tasks are mostly of one file.
class TableFile {
 public:
  using OpenBytes =
      std::function<std::shared_ptr<const RandomAccess>(const std::atomic<bool>& cancelled)>;
  // `open_bytes` is called for each time that the table is opened; messages call it `name`.
  TableFile(std::string name, TableFormat format, OpenBytes open_bytes);

  // Throws UsageError where the plug-in is missing; as Table::check for `wanted`, where that wants
  // something.
  InputLayout layout(const RowRequest& wanted, const std::atomic<bool>& cancelled) const;
  // See Table::read().
  std::unique_ptr<RowSource> read(int64_t begin, int64_t end, int64_t num_rows_passed,
                                  const RowRequest& request,
                                  const std::atomic<bool>& cancelled) const;

 private:
  std::shared_ptr<const Table> open(int64_t max_memory_bytes,
                                    const std::atomic<bool>& cancelled) const;

  const std::string name_;
  const TableFormat format_;
  const OpenBytes open_bytes_;
  mutable std::mutex mutex_;
  mutable std::weak_ptr<const Table> table_;
};

}  // namespace weft
