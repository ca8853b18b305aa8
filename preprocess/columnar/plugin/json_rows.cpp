// Rows of a table as lines of JSON. A batch is in memory as a whole, of Parquet the whole table.
#include <arrow/array.h>
#include <arrow/ipc/reader.h>
#include <arrow/record_batch.h>
#include <arrow/scalar.h>
#include <arrow/table.h>
#include <parquet/arrow/reader.h>

#include <nlohmann/json.hpp>

#include "preprocess/columnar/plugin/arrow_errors.h"
#include "preprocess/columnar/plugin/tables.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;
using UseBatch = std::function<void(const arrow::RecordBatch& batch)>;

Json json_of(const arrow::Scalar& value);

Json json_of_list(const arrow::Array& values) {
  Json list = Json::array();
  for (int64_t i = 0; i < values.length(); ++i)
    list.push_back(json_of(*value_of(values.GetScalar(i))));
  return list;
}

// Types that JSON has no value for, such as times, become texts.
Json json_of(const arrow::Scalar& value) {
  if (!value.is_valid) return nullptr;
  const arrow::Type::type type = value.type->id();
  if (type == arrow::Type::BOOL) return static_cast<const arrow::BooleanScalar&>(value).value;
  if (arrow::is_unsigned_integer(type))
    return static_cast<const arrow::UInt64Scalar&>(*value_of(value.CastTo(arrow::uint64()))).value;
  if (arrow::is_integer(type))
    return static_cast<const arrow::Int64Scalar&>(*value_of(value.CastTo(arrow::int64()))).value;
  if (arrow::is_floating(type))
    return static_cast<const arrow::DoubleScalar&>(*value_of(value.CastTo(arrow::float64()))).value;
  if (arrow::is_base_binary_like(type) || arrow::is_binary_view_like(type))
    return static_cast<const arrow::BaseBinaryScalar&>(value).value->ToString();
  if (arrow::is_list_like(type) || arrow::is_list_view(type))
    return json_of_list(*static_cast<const arrow::BaseListScalar&>(value).value);
  if (type == arrow::Type::DICTIONARY)
    return json_of(*value_of(static_cast<const arrow::DictionaryScalar&>(value).GetEncodedValue()));
  if (type != arrow::Type::STRUCT) return value.ToString();
  const auto& fields = static_cast<const arrow::StructScalar&>(value).value;
  Json object = Json::object();
  for (size_t i = 0; i < fields.size(); ++i)
    object[value.type->field(static_cast<int>(i))->name()] = json_of(*fields[i]);
  return object;
}

// Reads columns one by one: of all ways, this one has had the same name in every libparquet.
void each_batch_of_parquet(const std::shared_ptr<ArrowFile>& file, arrow::MemoryPool* pool,
                           const UseBatch& use) {
  parquet::arrow::FileReaderBuilder builder;
  PARQUET_THROW_NOT_OK(builder.Open(file, parquet::ReaderProperties(pool)));
  std::unique_ptr<parquet::arrow::FileReader> reader;
  PARQUET_THROW_NOT_OK(builder.memory_pool(pool)->Build(&reader));
  std::shared_ptr<arrow::Schema> schema;
  PARQUET_THROW_NOT_OK(reader->GetSchema(&schema));
  std::vector<std::shared_ptr<arrow::ChunkedArray>> columns(
      static_cast<size_t>(schema->num_fields()));
  for (size_t i = 0; i < columns.size(); ++i)
    PARQUET_THROW_NOT_OK(reader->ReadColumn(static_cast<int>(i), &columns[i]));
  const auto table = arrow::Table::Make(schema, columns);
  arrow::TableBatchReader batches(*table);
  while (const auto batch = value_of(batches.Next())) use(*batch);
}

void each_batch(TableFormat format, const std::shared_ptr<ArrowFile>& file, arrow::MemoryPool* pool,
                const UseBatch& use) {
  auto options = arrow::ipc::IpcReadOptions::Defaults();
  options.memory_pool = pool;
  options.use_threads = false;
  if (format == TableFormat::kParquet) return each_batch_of_parquet(file, pool, use);
  if (format == TableFormat::kArrowStream) {
    const auto reader = value_of(arrow::ipc::RecordBatchStreamReader::Open(file, options));
    while (const auto batch = value_of(reader->Next())) use(*batch);
    return check_stream_end(*file);
  }
  const auto reader = value_of(arrow::ipc::RecordBatchFileReader::Open(file, options));
  for (int i = 0; i < reader->num_record_batches(); ++i) use(*value_of(reader->ReadRecordBatch(i)));
}

}  // namespace

void read_json_lines(TableFormat format, std::shared_ptr<const RandomAccess> bytes,
                     const std::string& name, int64_t max_memory_bytes,
                     const std::function<void(const std::string& line)>& use) {
  BudgetPool pool(max_memory_bytes);
  const auto file = std::make_shared<ArrowFile>(std::move(bytes), pool.get());
  as_own_errors(name, pool, *file, [&] {
    each_batch(format, file, pool.get(), [&](const arrow::RecordBatch& batch) {
      PARQUET_THROW_NOT_OK(batch.ValidateFull());
      for (int64_t row = 0; row < batch.num_rows(); ++row) {
        Json object = Json::object();
        for (int i = 0; i < batch.num_columns(); ++i)
          object[batch.column_name(i)] = json_of(*value_of(batch.column(i)->GetScalar(row)));
        use(object.dump(-1, ' ', false, Json::error_handler_t::replace));
      }
    });
  });
}

}  // namespace weft
