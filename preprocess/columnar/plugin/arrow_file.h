// A RandomAccess as libarrow wants files.
#pragma once

#include <arrow/io/interfaces.h>
#include <arrow/result.h>
#include <arrow/util/future.h>

#include <exception>
#include <memory>

#include "preprocess/columnar/table.h"

namespace weft {

// For one thread, as far as Read and Seek go.
class ArrowFile final : public arrow::io::RandomAccessFile {
 public:
  ArrowFile(std::shared_ptr<const RandomAccess> bytes, arrow::MemoryPool* pool);

  // Throws again what RandomAccess has thrown, which libarrow has turned into an error of its own.
  void rethrow_failure() const {
    if (failure_) std::rethrow_exception(failure_);
  }

  arrow::Status Close() override { return arrow::Status::OK(); }
  bool closed() const override { return false; }
  arrow::Result<int64_t> Tell() const override { return position_; }
  arrow::Status Seek(int64_t position) override;
  arrow::Result<int64_t> GetSize() override { return bytes_->size_bytes(); }
  arrow::Result<int64_t> Read(int64_t num_bytes, void* out) override;
  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(int64_t num_bytes) override;
  using RandomAccessFile::ReadAt;
  arrow::Result<int64_t> ReadAt(int64_t position, int64_t num_bytes, void* out) override;
  arrow::Result<std::shared_ptr<arrow::Buffer>> ReadAt(int64_t position,
                                                       int64_t num_bytes) override;
  // Both read at once, in the thread that asks: a thread of libarrow's own would use buffers of a
  // pool that is gone by then. Not every libarrow has the second, so it overrides nothing there.
  using RandomAccessFile::ReadAsync;
  arrow::Future<std::shared_ptr<arrow::Buffer>> ReadAsync(const arrow::io::IOContext&,
                                                          int64_t position,
                                                          int64_t num_bytes) override;
  virtual arrow::Future<std::shared_ptr<arrow::Buffer>> ReadAsync(const arrow::io::IOContext&,
                                                                  int64_t position,
                                                                  int64_t num_bytes,
                                                                  bool allow_short_read);

 private:
  // Returns how many of the wanted bytes the file has.
  int64_t num_there(int64_t position, int64_t num_bytes) const;

  const std::shared_ptr<const RandomAccess> bytes_;
  arrow::MemoryPool* const pool_;
  int64_t position_ = 0;
  std::exception_ptr failure_;
};

}  // namespace weft
