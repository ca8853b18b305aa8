// Arrow IPC: record batches, each of which is in memory as a whole, of a file or a stream.
#include <arrow/array.h>
#include <arrow/ipc/reader.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "preprocess/columnar/plugin/arrow_errors.h"
#include "preprocess/columnar/plugin/columns.h"
#include "preprocess/columnar/plugin/group_rows.h"
#include "preprocess/columnar/plugin/tables.h"

namespace weft {
namespace {

arrow::ipc::IpcReadOptions read_options(arrow::MemoryPool* pool) {
  auto options = arrow::ipc::IpcReadOptions::Defaults();
  options.memory_pool = pool;
  options.use_threads = false;
  return options;
}

// The type that has the same bytes and any of them; null if it is no text.
std::shared_ptr<arrow::DataType> binary_type_of(const arrow::DataType& type) {
  switch (type.id()) {
    case arrow::Type::STRING:
    case arrow::Type::BINARY:
      return arrow::binary();
    case arrow::Type::LARGE_STRING:
    case arrow::Type::LARGE_BINARY:
      return arrow::large_binary();
    case arrow::Type::STRING_VIEW:
    case arrow::Type::BINARY_VIEW:
      return arrow::binary_view();
    default:
      return nullptr;
  }
}

const arrow::DataType& value_type(const arrow::DataType& type) {
  if (type.id() != arrow::Type::DICTIONARY) return type;
  return *static_cast<const arrow::DictionaryType&>(type).value_type();
}

FoundColumn::Kind kind_of(const arrow::DataType& type) {
  using Kind = FoundColumn::Kind;
  if (arrow::is_list_like(type.id()) || arrow::is_list_view(type.id())) return Kind::kList;
  if (binary_type_of(value_type(type)) != nullptr) return Kind::kText;
  if (arrow::is_integer(type.id()) || type.id() == arrow::Type::FLOAT ||
      type.id() == arrow::Type::DOUBLE)
    return Kind::kNumber;
  if (type.id() == arrow::Type::BOOL) return Kind::kBool;
  return type.id() == arrow::Type::NA ? Kind::kNull : Kind::kOther;
}

FoundColumn find_in(const arrow::Schema& schema, const ColumnPath& path) {
  std::shared_ptr<arrow::Field> field;
  int index = -1;
  for (size_t i = 0; i < path.size(); ++i) {
    const arrow::FieldVector& fields = i == 0 ? schema.fields() : field->type()->fields();
    const auto found = std::find_if(fields.begin(), fields.end(),
                                    [&](const auto& each) { return each->name() == path[i]; });
    if (found == fields.end()) return {};
    if (i == 0) index = static_cast<int>(found - fields.begin());
    field = *found;
    if (kind_of(*field->type()) == FoundColumn::Kind::kList) break;
    if (i + 1 < path.size() && field->type()->id() != arrow::Type::STRUCT) return {};
  }
  return {kind_of(*field->type()), field->type()->ToString(), index};
}

// The number at a row of an array of numbers.
long double number_at(const arrow::Array& array, int64_t row) {
  const auto as = [&](auto type) -> long double {
    return static_cast<const arrow::NumericArray<decltype(type)>&>(array).Value(row);
  };
  switch (array.type_id()) {
    case arrow::Type::INT8:
      return as(arrow::Int8Type());
    case arrow::Type::INT16:
      return as(arrow::Int16Type());
    case arrow::Type::INT32:
      return as(arrow::Int32Type());
    case arrow::Type::INT64:
      return as(arrow::Int64Type());
    case arrow::Type::UINT8:
      return as(arrow::UInt8Type());
    case arrow::Type::UINT16:
      return as(arrow::UInt16Type());
    case arrow::Type::UINT32:
      return as(arrow::UInt32Type());
    case arrow::Type::UINT64:
      return as(arrow::UInt64Type());
    case arrow::Type::FLOAT:
      return as(arrow::FloatType());
    case arrow::Type::DOUBLE:
      return as(arrow::DoubleType());
    default:
      throw std::logic_error("number_at: kind_of() says that this type has none");
  }
}

// The values of a column of a batch. Texts are checked: offsets of a damaged file may lead
// anywhere.
class ColumnArray {
 public:
  ColumnArray(const arrow::RecordBatch& batch, const WantedColumn& wanted) : wanted_(wanted) {
    const ColumnPath& path = wanted.path;
    leaf_ = batch.GetColumnByName(path.front());
    for (size_t i = 1; i < path.size(); ++i) {
      if (!leaf_) break;
      around_.push_back(leaf_);
      leaf_ = static_cast<const arrow::StructArray&>(*leaf_).GetFieldByName(path[i]);
    }
    if (!leaf_) throw parquet::ParquetException("two columns have one name");
    if (wanted.found.kind != FoundColumn::Kind::kText) return;
    if (leaf_->type_id() == arrow::Type::DICTIONARY) {
      indices_ = std::static_pointer_cast<arrow::DictionaryArray>(leaf_);
      texts_ = as_checked_binary(indices_->dictionary());
    } else {
      texts_ = as_checked_binary(leaf_);
    }
  }

  void add(int64_t row, RowChunk& chunk, const RowRequest& request) const {
    for (const auto& array : around_) {
      if (array->IsNull(row)) return chunk.add(RowChunk::Kind::kMissing);
    }
    if (leaf_->IsNull(row)) return chunk.add(RowChunk::Kind::kNull);
    if (leaf_->type_id() == arrow::Type::BOOL) {
      const bool value = static_cast<const arrow::BooleanArray&>(*leaf_).Value(row);
      return chunk.add(RowChunk::Kind::kBool, {value ? "\1" : "\0", 1});
    }
    if (!texts_) return chunk.add_number(number_at(*leaf_, row));
    if (indices_) {
      row = indices_->GetValueIndex(row);
      if (row < 0 || row >= texts_->length())
        throw parquet::ParquetException("an index is not in the dictionary");
      if (texts_->IsNull(row)) return chunk.add(RowChunk::Kind::kNull);
    }
    add_text(chunk, text_at(row), wanted_.use, request);
  }

 private:
  static std::shared_ptr<arrow::Array> as_checked_binary(const std::shared_ptr<arrow::Array>& of) {
    auto array = value_of(of->View(binary_type_of(*of->type())));
    PARQUET_THROW_NOT_OK(array->ValidateFull());
    return array;
  }
  std::string_view text_at(int64_t row) const {
    switch (texts_->type_id()) {
      case arrow::Type::BINARY:
        return static_cast<arrow::BinaryArray&>(*texts_).GetView(row);
      case arrow::Type::LARGE_BINARY:
        return static_cast<arrow::LargeBinaryArray&>(*texts_).GetView(row);
      default:
        return static_cast<arrow::BinaryViewArray&>(*texts_).GetView(row);
    }
  }

  const WantedColumn& wanted_;
  std::vector<std::shared_ptr<arrow::Array>> around_;  // structs, the outermost first
  std::shared_ptr<arrow::Array> leaf_, texts_;         // null texts_: it has none
  std::shared_ptr<arrow::DictionaryArray> indices_;    // where it is a dictionary
};

// Rows of batches, wherever these come from.
class BatchRows : public GroupRows {
 protected:
  template <class Work>
  auto guarded(Work&& work) {
    return as_own_errors(where_, pool_, *file_, std::forward<Work>(work));
  }

 public:
  bool next(RowChunk& chunk) override {
    return guarded([&] { return GroupRows::next(chunk); });
  }

 protected:
  BatchRows(const GroupPlaces& places, std::shared_ptr<const RandomAccess> bytes, std::string name,
            std::vector<WantedColumn> wanted, int64_t begin, int64_t end, int64_t num_rows_passed,
            const RowRequest& request)
      : GroupRows(places, begin, end, num_rows_passed, request),
        name_(std::move(name)),
        pool_(request.max_memory_bytes),
        file_(std::make_shared<ArrowFile>(std::move(bytes), pool_.get())),
        wanted_(std::move(wanted)) {
    num_columns_ = wanted_.size();
  }

  // The next batch, null behind the last one.
  virtual std::shared_ptr<arrow::RecordBatch> read_batch(int group) = 0;

  // Only the fields of the schema that hold wanted columns are read.
  arrow::ipc::IpcReadOptions options() {
    auto options = read_options(pool_.get());
    std::vector<int>& fields = options.included_fields;
    for (const WantedColumn& column : wanted_) fields.push_back(column.found.index);
    std::sort(fields.begin(), fields.end());
    fields.erase(std::unique(fields.begin(), fields.end()), fields.end());
    return options;
  }
  const std::shared_ptr<ArrowFile>& file() const { return file_; }

  int64_t open_group(int group) final {
    where_ = name_ + ": record batch " + std::to_string(group);
    columns_.clear();
    batch_.reset();
    batch_ = read_batch(group);
    next_row_of_batch_ = 0;
    if (!batch_) return -1;
    PARQUET_THROW_NOT_OK(batch_->Validate());
    for (const WantedColumn& wanted : wanted_) columns_.emplace_back(*batch_, wanted);
    return batch_->num_rows();
  }
  void skip_rows(int64_t num_rows) final { next_row_of_batch_ += num_rows; }
  void add_row(RowChunk& chunk) final {
    for (const ColumnArray& column : columns_) column.add(next_row_of_batch_, chunk, request());
    ++next_row_of_batch_;
  }

 private:
  const std::string name_;
  std::string where_ = name_;
  BudgetPool pool_;
  std::shared_ptr<ArrowFile> file_;
  const std::vector<WantedColumn> wanted_;
  std::shared_ptr<arrow::RecordBatch> batch_;
  std::vector<ColumnArray> columns_;
  int64_t next_row_of_batch_ = 0;
};

class FileRows final : public BatchRows {
 public:
  template <class... Args>
  explicit FileRows(Args&&... args) : BatchRows(std::forward<Args>(args)...) {
    guarded(
        [&] { reader_ = value_of(arrow::ipc::RecordBatchFileReader::Open(file(), options())); });
  }

 private:
  std::shared_ptr<arrow::RecordBatch> read_batch(int group) override {
    return value_of(reader_->ReadRecordBatch(group));
  }

  std::shared_ptr<arrow::ipc::RecordBatchFileReader> reader_;
};

class StreamRows final : public BatchRows {
 public:
  template <class... Args>
  explicit StreamRows(Args&&... args) : BatchRows(std::forward<Args>(args)...) {
    guarded(
        [&] { reader_ = value_of(arrow::ipc::RecordBatchStreamReader::Open(file(), options())); });
  }

 private:
  std::shared_ptr<arrow::RecordBatch> read_batch(int) override {
    auto batch = value_of(reader_->Next());
    if (!batch) check_stream_end(*file());
    return batch;
  }

  std::shared_ptr<arrow::ipc::RecordBatchStreamReader> reader_;
};

template <class Rows>
class ArrowTable final : public Table {
 public:
  // `read_ahead` are the ranges that reading all of it goes through, where that is known.
  ArrowTable(std::shared_ptr<const RandomAccess> bytes, std::string name, GroupPlaces places,
             std::shared_ptr<arrow::Schema> schema, std::vector<FileRange> read_ahead)
      : bytes_(std::move(bytes)),
        name_(std::move(name)),
        places_(std::move(places)),
        schema_(std::move(schema)),
        read_ahead_{std::move(read_ahead)} {}

  const std::vector<int64_t>& part_begins() const override { return places_.part_begins(); }
  void check(const RowRequest& request) const override { (void)columns_of(request); }
  std::unique_ptr<RowSource> read(int64_t begin, int64_t end, int64_t num_rows_passed,
                                  const RowRequest& request,
                                  const std::atomic<bool>& cancelled) const override {
    std::shared_ptr<const RandomAccess> bytes = bytes_->reading_ahead(read_ahead_, cancelled);
    if (!bytes) bytes = bytes_;
    return std::make_unique<Rows>(places_, std::move(bytes), name_, columns_of(request), begin, end,
                                  num_rows_passed, request);
  }

 private:
  std::vector<WantedColumn> columns_of(const RowRequest& request) const {
    return find_columns(request, name_, schema_->field_names(),
                        [this](const ColumnPath& path) { return find_in(*schema_, path); });
  }

  const std::shared_ptr<const RandomAccess> bytes_;
  const std::string name_;
  const GroupPlaces places_;
  const std::shared_ptr<arrow::Schema> schema_;
  const std::vector<std::vector<FileRange>> read_ahead_;
};

}  // namespace

// The footer says where batches begin, and libarrow does not: they are taken to be of one size.
std::unique_ptr<Table> open_arrow_file(std::shared_ptr<const RandomAccess> file,
                                       const std::string& name, int64_t max_memory_bytes) {
  BudgetPool pool(max_memory_bytes);
  const auto arrow_file = std::make_shared<ArrowFile>(file, pool.get());
  const int64_t file_bytes = file->size_bytes();
  std::vector<int64_t> begins;
  std::shared_ptr<arrow::Schema> schema;
  as_own_errors(name, pool, *arrow_file, [&] {
    const auto reader =
        value_of(arrow::ipc::RecordBatchFileReader::Open(arrow_file, read_options(pool.get())));
    schema = reader->schema();
    const int num_batches = reader->num_record_batches();
    for (int i = 0; i < num_batches; ++i) {
      begins.push_back(static_cast<int64_t>(static_cast<double>(file_bytes) * i / num_batches));
    }
  });
  return std::make_unique<ArrowTable<FileRows>>(std::move(file), name,
                                                GroupPlaces(begins, file_bytes), std::move(schema),
                                                std::vector<FileRange>());
}

std::unique_ptr<Table> open_arrow_stream(std::shared_ptr<const RandomAccess> file,
                                         const std::string& name, int64_t max_memory_bytes) {
  BudgetPool pool(max_memory_bytes);
  const auto arrow_file = std::make_shared<ArrowFile>(file, pool.get());
  const int64_t file_bytes = file->size_bytes();
  std::shared_ptr<arrow::Schema> schema;
  as_own_errors(name, pool, *arrow_file, [&] {
    schema =
        value_of(arrow::ipc::RecordBatchStreamReader::Open(arrow_file, read_options(pool.get())))
            ->schema();
  });
  return std::make_unique<ArrowTable<StreamRows>>(std::move(file), name, GroupPlaces(file_bytes),
                                                  std::move(schema),
                                                  std::vector<FileRange>{{0, file_bytes}});
}

}  // namespace weft
