#include "preprocess/columnar/table_file.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/base/storage/little_endian.h"
#include "preprocess/columnar/plugin.h"

namespace weft {
namespace {

// For the metadata alone, while a file is looked at: its columns are read within --decoder-memory.
constexpr int64_t kMaxMetadataBytes = int64_t{256} << 20;
// Less than a task by far; rank 0 sends the parts of all files to the others.
constexpr int64_t kMinPartBytes = int64_t{4} << 20;
// A schema has a few kB.
constexpr uint32_t kMaxSchemaBytes = uint32_t{64} << 20;

class FileAccess final : public RandomAccess {
 public:
  explicit FileAccess(const std::string& path) : file_(path) {}
  int64_t size_bytes() const override { return file_.size_bytes(); }
  void read(int64_t offset_bytes, char* data, size_t size_bytes) const override {
    file_.read_at(data, size_bytes, offset_bytes);
  }

 private:
  InputFile file_;
};

const char* what_is(TableFormat format) {
  switch (format) {
    case TableFormat::kParquet:
      return "a Parquet file";
    case TableFormat::kArrowFile:
      return "an Arrow file";
    case TableFormat::kArrowStream:
      return "an Arrow stream";
  }
  return "";
}

// Keeps the table that was opened last.
void keep_open(std::shared_ptr<const Table> table) {
  static std::mutex mutex;
  static std::shared_ptr<const Table> last;
  const std::lock_guard lock(mutex);
  last.swap(table);
}

}  // namespace

std::optional<TableFormat> table_format(std::string_view first_bytes) {
  // PARE: the footer is encrypted, which is said when it is opened.
  if (first_bytes.starts_with("PAR1") || first_bytes.starts_with("PARE"))
    return TableFormat::kParquet;
  if (first_bytes.starts_with("ARROW1")) return TableFormat::kArrowFile;
  if (first_bytes.size() < kNumTableMagicBytes || !first_bytes.starts_with("\xFF\xFF\xFF\xFF"))
    return std::nullopt;
  const auto schema_bytes =
      load_number<uint32_t>(reinterpret_cast<const std::byte*>(first_bytes.data()) + 4);
  if (schema_bytes == 0 || schema_bytes > kMaxSchemaBytes) return std::nullopt;
  return TableFormat::kArrowStream;
}

std::optional<TableFormat> table_format_of_file(const std::string& path) {
  const InputFile file(path);
  std::array<char, kNumTableMagicBytes> magic{};
  const auto num_bytes = std::min<int64_t>(file.size_bytes(), kNumTableMagicBytes);
  file.read_at(magic.data(), static_cast<size_t>(num_bytes), 0);
  return table_format({magic.data(), static_cast<size_t>(num_bytes)});
}

std::shared_ptr<const RandomAccess> open_random_access(const std::string& path) {
  return std::make_shared<FileAccess>(path);
}

void read_json_rows(const std::string& path, TableFormat format,
                    const std::function<void(const std::string& line)>& use) {
  constexpr int64_t kMaxMemoryBytes = int64_t{1} << 30;
  load_columnar_plugin(path, what_is(format))
      .read_json_lines(format, open_random_access(path), path, kMaxMemoryBytes, use);
}

TableFile::TableFile(std::string name, TableFormat format, OpenBytes open_bytes)
    : name_(std::move(name)), format_(format), open_bytes_(std::move(open_bytes)) {}

std::shared_ptr<const Table> TableFile::open(int64_t max_memory_bytes,
                                             const std::atomic<bool>& cancelled) const {
  OpenTable& open_table = *load_columnar_plugin(name_, what_is(format_)).open_table;
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const Table> table = table_.lock();
  if (!table) {
    table = open_table(format_, open_bytes_(cancelled), name_, max_memory_bytes);
    table_ = table;
  }
  keep_open(table);
  return table;
}

InputLayout TableFile::layout(const RowRequest& wanted, const std::atomic<bool>& cancelled) const {
  const std::shared_ptr<const Table> table = open(kMaxMetadataBytes, cancelled);
  table->check(wanted);
  InputLayout layout;
  layout.format = format_ == TableFormat::kParquet ? "parquet" : "arrow";
  layout.has_rows = true;
  layout.file_bytes = open_bytes_(cancelled)->size_bytes();
  const int64_t distance_bytes =
      LayoutLimits{.min_part_bytes = kMinPartBytes}.part_distance_bytes(layout.file_bytes);
  for (const int64_t begin : table->part_begins()) {
    if (begin - layout.part_begins.back() >= distance_bytes) layout.part_begins.push_back(begin);
  }
  return layout;
}

std::unique_ptr<RowSource> TableFile::read(int64_t begin, int64_t end, int64_t num_rows_passed,
                                           const RowRequest& request,
                                           const std::atomic<bool>& cancelled) const {
  // The table lives as long as what reads its rows.
  class KeptOpen final : public RowSource {
   public:
    KeptOpen(std::shared_ptr<const Table> table, std::unique_ptr<RowSource> rows)
        : table_(std::move(table)), rows_(std::move(rows)) {}
    bool next(RowChunk& chunk) override { return rows_->next(chunk); }
    int64_t num_bytes_passed() const override { return rows_->num_bytes_passed(); }

   private:
    std::shared_ptr<const Table> table_;
    std::unique_ptr<RowSource> rows_;
  };
  auto table = open(request.max_memory_bytes, cancelled);
  auto rows = table->read(begin, end, num_rows_passed, request, cancelled);
  return std::make_unique<KeptOpen>(std::move(table), std::move(rows));
}

}  // namespace weft
