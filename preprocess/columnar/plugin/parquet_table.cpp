// Parquet: row groups, of whose columns only those that are wanted are read, page by page.
#include <parquet/column_reader.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <parquet/schema.h>
#include <parquet/types.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "preprocess/columnar/plugin/arrow_errors.h"
#include "preprocess/columnar/plugin/columns.h"
#include "preprocess/columnar/plugin/group_rows.h"
#include "preprocess/columnar/plugin/tables.h"

namespace weft {
namespace {

// The buffer of each column that is read. Pages are larger, and are read whole.
constexpr int64_t kBufferBytes = 256 << 10;

parquet::ReaderProperties reader_properties(arrow::MemoryPool* pool) {
  parquet::ReaderProperties properties(pool);
  // Otherwise a column of a row group would be in memory as a whole.
  properties.enable_buffered_stream();
  properties.set_buffer_size(kBufferBytes);
  properties.set_page_checksum_verification(true);
  return properties;
}

bool is_text(const parquet::ColumnDescriptor& column) {
  if (column.physical_type() != parquet::Type::BYTE_ARRAY) return false;
  const auto& type = column.logical_type();
  return !type || type->is_none() || type->is_string() || type->is_enum() || type->is_JSON();
}

std::string type_of(const parquet::ColumnDescriptor& column) {
  const auto& type = column.logical_type();
  const bool has_name = type && !type->is_none() && type->is_valid();
  return has_name ? type->ToString() : parquet::TypeToString(column.physical_type());
}

// `path` names a column, or what columns lie in.
FoundColumn find_in(const parquet::SchemaDescriptor& schema, const ColumnPath& path) {
  for (int i = 0; i < schema.num_columns(); ++i) {
    const parquet::ColumnDescriptor& column = *schema.Column(i);
    const ColumnPath leaf = column.path()->ToDotVector();
    if (leaf.size() < path.size() || !std::equal(path.begin(), path.end(), leaf.begin())) continue;
    FoundColumn found{.is_there = true};
    found.is_list = column.max_repetition_level() > 0;
    found.is_text = leaf.size() == path.size() && !found.is_list && is_text(column);
    found.type = leaf.size() == path.size() ? type_of(column) : "a group of columns";
    found.index = i;
    return found;
  }
  return {};
}

// The values of a column of a row group, one for each row.
class TextColumn {
 public:
  TextColumn(std::shared_ptr<parquet::ColumnReader> reader)
      : reader_(std::move(reader)),
        typed_(static_cast<parquet::ByteArrayReader&>(*reader_)),
        max_level_(reader_->descr()->max_definition_level()),
        // A value that is not there is null itself, or something around it is.
        null_level_(reader_->descr()->schema_node()->is_optional() ? max_level_ - 1 : -1) {}

  void skip(int64_t num_rows) {
    if (typed_.Skip(num_rows) != num_rows) fail_as_short();
  }

  // Adds the next value, which is copied: the page may go with the next call.
  void add_next(RowChunk& chunk, bool is_origin, const RowRequest& request) {
    if (next_level_ == num_levels_) read_batch();
    const int16_t level = levels_[static_cast<size_t>(next_level_++)];
    if (level < max_level_) {
      return chunk.add(level == null_level_ ? RowChunk::Kind::kNull : RowChunk::Kind::kMissing);
    }
    if (next_value_ == num_values_) fail_as_short();
    const parquet::ByteArray& value = values_[static_cast<size_t>(next_value_++)];
    add_value(chunk, {reinterpret_cast<const char*>(value.ptr), value.len}, is_origin, request);
  }

 private:
  static constexpr int64_t kBatch = 256;

  [[noreturn]] static void fail_as_short() {
    throw parquet::ParquetException("a column has fewer values than the row group has rows");
  }
  void read_batch() {
    levels_.fill(max_level_);  // they are not read where there are none
    num_levels_ = typed_.ReadBatch(kBatch, levels_.data(), nullptr, values_.data(), &num_values_);
    next_level_ = next_value_ = 0;
    if (num_levels_ == 0) fail_as_short();
  }

  std::shared_ptr<parquet::ColumnReader> reader_;
  parquet::ByteArrayReader& typed_;
  const int16_t max_level_, null_level_;
  std::array<int16_t, kBatch> levels_{};
  std::array<parquet::ByteArray, kBatch> values_{};
  int64_t num_levels_ = 0, num_values_ = 0, next_level_ = 0, next_value_ = 0;
};

class ParquetRows final : public GroupRows {
  template <class Work>
  auto guarded(Work&& work) {
    return as_own_errors(where_, pool_, *file_, std::forward<Work>(work));
  }

 public:
  ParquetRows(const GroupPlaces& places, std::shared_ptr<const RandomAccess> bytes,
              std::string name, std::shared_ptr<parquet::FileMetaData> metadata, int64_t begin,
              int64_t end, int64_t num_rows_passed, const RowRequest& request)
      : GroupRows(places, begin, end, num_rows_passed, request),
        name_(std::move(name)),
        pool_(request.max_memory_bytes),
        file_(std::make_shared<ArrowFile>(std::move(bytes), pool_.get())) {
    guarded([&] {
      reader_ = parquet::ParquetFileReader::Open(file_, reader_properties(pool_.get()), metadata);
    });
    const parquet::SchemaDescriptor& schema = *metadata->schema();
    std::vector<std::string> top_names;
    for (int i = 0; i < schema.group_node()->field_count(); ++i)
      top_names.push_back(schema.group_node()->field(i)->name());
    wanted_ = find_columns(request, name_, top_names,
                           [&schema](const ColumnPath& path) { return find_in(schema, path); });
    num_columns_ = wanted_.columns.size();
    explanations_ = wanted_.explanations;
  }

  bool next(RowChunk& chunk) override {
    return guarded([&] { return GroupRows::next(chunk); });
  }

 protected:
  int64_t open_group(int group) override {
    where_ = name_ + ": row group " + std::to_string(group);
    columns_.clear();
    group_.reset();
    group_ = reader_->RowGroup(group);
    for (const WantedColumn& wanted : wanted_.columns) {
      columns_.emplace_back();
      if (wanted.found.is_text)
        columns_.back() = std::make_unique<TextColumn>(group_->Column(wanted.found.index));
    }
    return group_->metadata()->num_rows();
  }

  void skip_rows(int64_t num_rows) override {
    for (const auto& column : columns_) {
      if (column) column->skip(num_rows);
    }
  }

  void add_row(RowChunk& chunk) override {
    for (size_t i = 0; i < columns_.size(); ++i) {
      const WantedColumn& wanted = wanted_.columns[i];
      if (columns_[i]) {
        columns_[i]->add_next(chunk, wanted.is_origin, request());
      } else {
        chunk.add(wanted.found.is_there ? RowChunk::Kind::kNotText : RowChunk::Kind::kMissing);
      }
    }
  }

 private:
  const std::string name_;
  std::string where_ = name_;
  BudgetPool pool_;
  std::shared_ptr<ArrowFile> file_;
  std::unique_ptr<parquet::ParquetFileReader> reader_;
  WantedColumns wanted_;
  std::shared_ptr<parquet::RowGroupReader> group_;
  std::vector<std::unique_ptr<TextColumn>> columns_;  // null: it is no text
};

// Where the pages of a row group begin; -1 if it says none.
int64_t begin_of(const parquet::RowGroupMetaData& group) {
  int64_t begin = -1;
  for (int i = 0; i < group.num_columns(); ++i) {
    const auto column = group.ColumnChunk(i);
    int64_t at = column->data_page_offset();
    if (column->has_dictionary_page() && column->dictionary_page_offset() > 0)
      at = std::min(at, column->dictionary_page_offset());
    if (begin < 0 || at < begin) begin = at;
  }
  return begin;
}

class ParquetTable final : public Table {
 public:
  ParquetTable(std::shared_ptr<const RandomAccess> bytes, const std::string& name,
               int64_t max_memory_bytes)
      : bytes_(std::move(bytes)), name_(name) {
    BudgetPool pool(max_memory_bytes);
    const auto file = std::make_shared<ArrowFile>(bytes_, pool.get());
    std::vector<int64_t> begins;
    as_own_errors(name, pool, *file, [&] {
      metadata_ = parquet::ParquetFileReader::Open(file, reader_properties(pool.get()))->metadata();
      for (int group = 0; group < metadata_->num_row_groups(); ++group)
        begins.push_back(begin_of(*metadata_->RowGroup(group)));
    });
    places_.emplace(begins, bytes_->size_bytes());
  }

  const std::vector<int64_t>& part_begins() const override { return places_->part_begins(); }
  std::unique_ptr<RowSource> read(int64_t begin, int64_t end, int64_t num_rows_passed,
                                  const RowRequest& request) const override {
    return std::make_unique<ParquetRows>(*places_, bytes_, name_, metadata_, begin, end,
                                         num_rows_passed, request);
  }

 private:
  const std::shared_ptr<const RandomAccess> bytes_;
  const std::string name_;
  std::shared_ptr<parquet::FileMetaData> metadata_;
  std::optional<GroupPlaces> places_;
};

}  // namespace

std::unique_ptr<Table> open_parquet_table(std::shared_ptr<const RandomAccess> file,
                                          const std::string& name, int64_t max_memory_bytes) {
  return std::make_unique<ParquetTable>(std::move(file), name, max_memory_bytes);
}

}  // namespace weft
