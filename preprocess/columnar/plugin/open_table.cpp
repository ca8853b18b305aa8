// The functions that weft_columnar.so exports.
#include <stdexcept>
#include <utility>

#include "preprocess/columnar/plugin/tables.h"

// Its type is OpenTable, its name kOpenTable.
extern "C" __attribute__((visibility("default"))) std::unique_ptr<weft::Table> weft_open_table_2(
    weft::TableFormat format, std::shared_ptr<const weft::RandomAccess> file,
    const std::string& name, int64_t max_memory_bytes) {
  switch (format) {
    case weft::TableFormat::kParquet:
      return weft::open_parquet_table(std::move(file), name, max_memory_bytes);
    case weft::TableFormat::kArrowFile:
      return weft::open_arrow_file(std::move(file), name, max_memory_bytes);
    case weft::TableFormat::kArrowStream:
      return weft::open_arrow_stream(std::move(file), name, max_memory_bytes);
  }
  throw std::logic_error("weft_open_table_2: no such format");
}

// Its type is ReadJsonLines, its name kReadJsonLines.
extern "C" __attribute__((visibility("default"))) void weft_read_json_lines_1(
    weft::TableFormat format, std::shared_ptr<const weft::RandomAccess> file,
    const std::string& name, int64_t max_memory_bytes,
    const std::function<void(const std::string& line)>& use) {
  weft::read_json_lines(format, std::move(file), name, max_memory_bytes, use);
}
