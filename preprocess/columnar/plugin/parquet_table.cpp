// Parquet: row groups, of whose columns only those that are wanted are read, page by page.
#include <parquet/column_reader.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <parquet/schema.h>
#include <parquet/types.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <stdexcept>
#include <type_traits>
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

FoundColumn::Kind kind_of(const parquet::ColumnDescriptor& column) {
  using Kind = FoundColumn::Kind;
  const auto& type = column.logical_type();
  const bool is_plain = !type || type->is_none();
  if (type && type->is_null()) return Kind::kNull;
  switch (column.physical_type()) {
    case parquet::Type::BYTE_ARRAY: {
      const bool is_text = is_plain || type->is_string() || type->is_enum() || type->is_JSON();
      return is_text ? Kind::kText : Kind::kOther;
    }
    case parquet::Type::BOOLEAN:
      return Kind::kBool;
    case parquet::Type::INT32:
    case parquet::Type::INT64:
    case parquet::Type::FLOAT:
    case parquet::Type::DOUBLE:
      return is_plain || type->is_int() ? Kind::kNumber : Kind::kOther;
    default:
      return Kind::kOther;
  }
}

std::string type_of(const parquet::ColumnDescriptor& column) {
  const auto& type = column.logical_type();
  const bool has_name = type && !type->is_none() && type->is_valid();
  return has_name ? type->ToString() : parquet::TypeToString(column.physical_type());
}

// `path` names a column, or what columns lie in.
FoundColumn find_in(const parquet::SchemaDescriptor& schema, const ColumnPath& path) {
  using Kind = FoundColumn::Kind;
  for (int i = 0; i < schema.num_columns(); ++i) {
    const parquet::ColumnDescriptor& column = *schema.Column(i);
    const ColumnPath leaf = column.path()->ToDotVector();
    if (leaf.size() < path.size() || !std::equal(path.begin(), path.end(), leaf.begin())) continue;
    if (column.max_repetition_level() > 0) return {Kind::kList, "a list", i};
    if (leaf.size() > path.size()) return {Kind::kOther, "a group of columns", i};
    return {kind_of(column), type_of(column), i};
  }
  return {};
}

// The values of a column of a row group, one for each row.
class ColumnValues {
 public:
  virtual ~ColumnValues() = default;
  virtual void skip(int64_t num_rows) = 0;
  // Adds the next value, which is copied: the page may go with the next call.
  virtual void add_next(RowChunk& chunk, WantedColumn::Use use, const RowRequest& request) = 0;
};

template <class Type>
class TypedValues final : public ColumnValues {
 public:
  explicit TypedValues(std::shared_ptr<parquet::ColumnReader> reader)
      : reader_(std::move(reader)),
        typed_(static_cast<parquet::TypedColumnReader<Type>&>(*reader_)),
        max_level_(reader_->descr()->max_definition_level()),
        // A value that is not there is null itself, or something around it is.
        null_level_(reader_->descr()->schema_node()->is_optional() ? max_level_ - 1 : -1) {
    const auto& type = reader_->descr()->logical_type();
    if (type && type->is_int())
      is_unsigned_ = !static_cast<const parquet::IntLogicalType&>(*type).is_signed();
  }

  void skip(int64_t num_rows) override {
    if (typed_.Skip(num_rows) != num_rows) fail_as_short();
  }

  void add_next(RowChunk& chunk, WantedColumn::Use use, const RowRequest& request) override {
    if (next_level_ == num_levels_) read_batch();
    const int16_t level = levels_[static_cast<size_t>(next_level_++)];
    if (level < max_level_)
      return chunk.add(level == null_level_ ? RowChunk::Kind::kNull : RowChunk::Kind::kMissing);
    if (next_value_ == num_values_) fail_as_short();
    const auto& value = values_[static_cast<size_t>(next_value_++)];
    if constexpr (std::is_same_v<Type, parquet::ByteArrayType>) {
      add_text(chunk, {reinterpret_cast<const char*>(value.ptr), value.len}, use, request);
    } else if constexpr (std::is_same_v<Type, parquet::BooleanType>) {
      chunk.add(RowChunk::Kind::kBool, {value ? "\1" : "\0", 1});
    } else if constexpr (std::is_floating_point_v<typename Type::c_type>) {
      chunk.add_number(value);
    } else {
      using Unsigned = std::make_unsigned_t<typename Type::c_type>;
      chunk.add_number(is_unsigned_ ? static_cast<long double>(static_cast<Unsigned>(value))
                                    : static_cast<long double>(value));
    }
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
  parquet::TypedColumnReader<Type>& typed_;
  const int16_t max_level_, null_level_;
  bool is_unsigned_ = false;
  std::array<int16_t, kBatch> levels_{};
  std::array<typename Type::c_type, kBatch> values_{};
  int64_t num_levels_ = 0, num_values_ = 0, next_level_ = 0, next_value_ = 0;
};

std::unique_ptr<ColumnValues> values_of(std::shared_ptr<parquet::ColumnReader> reader) {
  switch (reader->type()) {
    case parquet::Type::BYTE_ARRAY:
      return std::make_unique<TypedValues<parquet::ByteArrayType>>(std::move(reader));
    case parquet::Type::BOOLEAN:
      return std::make_unique<TypedValues<parquet::BooleanType>>(std::move(reader));
    case parquet::Type::INT32:
      return std::make_unique<TypedValues<parquet::Int32Type>>(std::move(reader));
    case parquet::Type::INT64:
      return std::make_unique<TypedValues<parquet::Int64Type>>(std::move(reader));
    case parquet::Type::FLOAT:
      return std::make_unique<TypedValues<parquet::FloatType>>(std::move(reader));
    case parquet::Type::DOUBLE:
      return std::make_unique<TypedValues<parquet::DoubleType>>(std::move(reader));
    default:
      throw std::logic_error("values_of: kind_of() says that this type has none");
  }
}

class ParquetRows final : public GroupRows {
  template <class Work>
  auto guarded(Work&& work) {
    return as_own_errors(where_, pool_, *file_, std::forward<Work>(work));
  }

 public:
  ParquetRows(const GroupPlaces& places, std::shared_ptr<const RandomAccess> bytes,
              std::string name, std::shared_ptr<parquet::FileMetaData> metadata,
              std::vector<WantedColumn> wanted, int64_t begin, int64_t end, int64_t num_rows_passed,
              const RowRequest& request)
      : GroupRows(places, begin, end, num_rows_passed, request),
        name_(std::move(name)),
        pool_(request.max_memory_bytes),
        file_(std::make_shared<ArrowFile>(std::move(bytes), pool_.get())),
        wanted_(std::move(wanted)) {
    guarded([&] {
      reader_ = parquet::ParquetFileReader::Open(file_, reader_properties(pool_.get()),
                                                 std::move(metadata));
    });
    num_columns_ = wanted_.size();
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
    const int64_t num_rows = group_->metadata()->num_rows();
    for (const WantedColumn& wanted : wanted_) {
      columns_.emplace_back();
      if (!wanted.found.has_values()) continue;
      // Nulls are values, too. A flipped bit in the metadata must not lose rows silently.
      const auto chunk = group_->metadata()->ColumnChunk(wanted.found.index);
      if (num_rows < 0 || chunk->num_values() != num_rows)
        throw parquet::ParquetException("a column has another number of values than rows");
      columns_.back() = values_of(group_->Column(wanted.found.index));
    }
    return num_rows;
  }

  void skip_rows(int64_t num_rows) override {
    for (const auto& column : columns_) {
      if (column) column->skip(num_rows);
    }
  }

  void add_row(RowChunk& chunk) override {
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (columns_[i]) {
        columns_[i]->add_next(chunk, wanted_[i].use, request());
      } else {
        chunk.add(RowChunk::Kind::kNull);
      }
    }
  }

 private:
  const std::string name_;
  std::string where_ = name_;
  BudgetPool pool_;
  std::shared_ptr<ArrowFile> file_;
  std::unique_ptr<parquet::ParquetFileReader> reader_;
  const std::vector<WantedColumn> wanted_;
  std::shared_ptr<parquet::RowGroupReader> group_;
  std::vector<std::unique_ptr<ColumnValues>> columns_;  // null: all values are
};

// Where the pages of a column of a row group lie, as the metadata say.
FileRange range_of(const parquet::ColumnChunkMetaData& column) {
  int64_t begin = column.data_page_offset();
  if (column.has_dictionary_page() && column.dictionary_page_offset() > 0)
    begin = std::min(begin, column.dictionary_page_offset());
  const int64_t most = std::numeric_limits<int64_t>::max() - std::max<int64_t>(begin, 0);
  return {begin, begin + std::clamp<int64_t>(column.total_compressed_size(), 0, most)};
}

// Where the pages of a row group begin; -1 if it says none.
int64_t begin_of(const parquet::RowGroupMetaData& group) {
  int64_t begin = -1;
  for (int i = 0; i < group.num_columns(); ++i) {
    const int64_t at = range_of(*group.ColumnChunk(i)).begin;
    if (begin < 0 || at < begin) begin = at;
  }
  return begin;
}

// The ranges that reading these groups goes through, but for rows that are passed over.
std::vector<std::vector<FileRange>> ranges_of(const parquet::FileMetaData& metadata,
                                              const std::vector<WantedColumn>& wanted,
                                              int begin_group, int end_group,
                                              int64_t num_rows_passed) {
  std::vector<std::vector<FileRange>> groups;
  for (int i = begin_group; i < end_group; ++i) {
    const auto group = metadata.RowGroup(i);
    const int64_t num_rows = std::max<int64_t>(group->num_rows(), 0);
    const bool is_passed = num_rows_passed >= num_rows;
    num_rows_passed -= std::min(num_rows_passed, num_rows);
    if (is_passed) continue;
    groups.emplace_back();
    for (const WantedColumn& column : wanted) {
      if (column.found.has_values())
        groups.back().push_back(range_of(*group->ColumnChunk(column.found.index)));
    }
  }
  return groups;
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
  void check(const RowRequest& request) const override { (void)columns_of(request); }
  std::unique_ptr<RowSource> read(int64_t begin, int64_t end, int64_t num_rows_passed,
                                  const RowRequest& request,
                                  const std::atomic<bool>& cancelled) const override {
    std::vector<WantedColumn> wanted = columns_of(request);
    std::shared_ptr<const RandomAccess> bytes =
        bytes_->reading_ahead(ranges_of(*metadata_, wanted, places_->group_at(begin),
                                        places_->group_at(end), num_rows_passed),
                              cancelled);
    if (!bytes) bytes = bytes_;
    return std::make_unique<ParquetRows>(*places_, std::move(bytes), name_, metadata_,
                                         std::move(wanted), begin, end, num_rows_passed, request);
  }

 private:
  std::vector<WantedColumn> columns_of(const RowRequest& request) const {
    const parquet::SchemaDescriptor& schema = *metadata_->schema();
    std::vector<std::string> top_names;
    for (int i = 0; i < schema.group_node()->field_count(); ++i)
      top_names.push_back(schema.group_node()->field(i)->name());
    return find_columns(request, name_, top_names,
                        [&schema](const ColumnPath& path) { return find_in(schema, path); });
  }

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
