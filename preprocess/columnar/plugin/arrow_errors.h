// The way out of libarrow: its errors as exceptions that the program knows, and its memory within a
// budget.
#pragma once

#include <arrow/memory_pool.h>
#include <arrow/result.h>
#include <arrow/status.h>
#include <parquet/exception.h>

#include <array>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include "indexed_dataset/base/process/exit_code.h"
#include "preprocess/columnar/plugin/arrow_file.h"

namespace weft {

// Memory of one table or reader: what it takes beyond the budget is refused.
class BudgetPool {
 public:
  explicit BudgetPool(int64_t max_bytes) : max_bytes_(max_bytes) {}
  arrow::MemoryPool* get() { return &capped_; }
  int64_t max_bytes() const { return max_bytes_; }

 private:
  // Counts what this pool has taken: the pool below counts for all. That one keeps pages' memory
  // where the system's would give it back after each row group, a fifth of the time of small ones.
  arrow::ProxyMemoryPool counting_{arrow::default_memory_pool()};
  const int64_t max_bytes_;
  arrow::CappedMemoryPool capped_{&counting_, max_bytes_};
};

// The first line of a message of libarrow's: what follows is where in its sources.
inline std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

[[noreturn]] inline void throw_unreadable(const std::string& where, const std::string& why) {
  throw std::runtime_error(where + ": cannot be read (" + first_line(why) +
                           "); it is cut, damaged, or of a kind that libparquet and libarrow "
                           "do not read: fetch it again");
}

[[noreturn]] inline void throw_over_budget(const std::string& where, const BudgetPool& pool) {
  throw LimitExceeded(where + ": its pages need more than the " + std::to_string(pool.max_bytes()) +
                      " bytes allowed; raise --decoder-memory");
}

// Runs `work`, in which libarrow and libparquet may throw; `where` is for messages. What `file` has
// thrown meanwhile is thrown on.
template <class Work>
auto as_own_errors(const std::string& where, const BudgetPool& pool, const ArrowFile& file,
                   Work&& work) {
  try {
    return work();
  } catch (const parquet::ParquetStatusException& error) {
    file.rethrow_failure();
    if (error.status().IsOutOfMemory()) throw_over_budget(where, pool);
    throw_unreadable(where, error.what());
  } catch (const parquet::ParquetException& error) {
    file.rethrow_failure();
    throw_unreadable(where, error.what());
  }
}

// The value of a result of libarrow's, within as_own_errors().
template <class T>
T value_of(arrow::Result<T> result) {
  PARQUET_THROW_NOT_OK(result.status());
  return std::move(result).ValueUnsafe();
}

// libarrow takes the end of the file for the end of the stream, and reads nothing behind that: a
// stream that was cut between two batches, or that another one follows, would seem to be whole.
inline void check_stream_end(ArrowFile& file) {
  constexpr std::string_view kEnd("\xFF\xFF\xFF\xFF\0\0\0\0", 8);
  const int64_t at = value_of(file.Tell());
  if (at < value_of(file.GetSize()))
    throw parquet::ParquetException("more follows behind the stream's end");
  std::array<char, kEnd.size()> last{};
  value_of(file.ReadAt(at - std::ssize(kEnd), std::ssize(kEnd), last.data()));
  if (std::string_view(last.data(), last.size()) != kEnd)
    throw parquet::ParquetException("the stream ends without the mark of its end");
}

}  // namespace weft
