#include "preprocess/columnar/plugin/arrow_file.h"

#include <arrow/buffer.h>
#include <arrow/status.h>

#include <algorithm>
#include <utility>

namespace weft {

ArrowFile::ArrowFile(std::shared_ptr<const RandomAccess> bytes, arrow::MemoryPool* pool)
    : bytes_(std::move(bytes)), pool_(pool) {}

int64_t ArrowFile::num_there(int64_t position, int64_t num_bytes) const {
  return std::clamp<int64_t>(bytes_->size_bytes() - position, 0, std::max<int64_t>(num_bytes, 0));
}

arrow::Status ArrowFile::Seek(int64_t position) {
  if (position < 0) return arrow::Status::Invalid("a place before the begin of the file");
  position_ = position;
  return arrow::Status::OK();
}

arrow::Result<int64_t> ArrowFile::ReadAt(int64_t position, int64_t num_bytes, void* out) {
  if (position < 0) return arrow::Status::Invalid("a place before the begin of the file");
  const int64_t num_read = num_there(position, num_bytes);
  try {
    if (num_read > 0)
      bytes_->read(position, static_cast<char*>(out), static_cast<size_t>(num_read));
  } catch (...) {
    failure_ = std::current_exception();
    return arrow::Status::IOError("reading failed");
  }
  return num_read;
}

// A damaged length must not become memory: only bytes that are there are asked for.
arrow::Result<std::shared_ptr<arrow::Buffer>> ArrowFile::ReadAt(int64_t position,
                                                                int64_t num_bytes) {
  if (position < 0) return arrow::Status::Invalid("a place before the begin of the file");
  ARROW_ASSIGN_OR_RAISE(auto buffer,
                        arrow::AllocateResizableBuffer(num_there(position, num_bytes), pool_));
  ARROW_RETURN_NOT_OK(ReadAt(position, buffer->size(), buffer->mutable_data()).status());
  return std::shared_ptr<arrow::Buffer>(std::move(buffer));
}

arrow::Future<std::shared_ptr<arrow::Buffer>> ArrowFile::ReadAsync(const arrow::io::IOContext&,
                                                                   int64_t position,
                                                                   int64_t num_bytes) {
  return arrow::Future<std::shared_ptr<arrow::Buffer>>::MakeFinished(ReadAt(position, num_bytes));
}

arrow::Future<std::shared_ptr<arrow::Buffer>> ArrowFile::ReadAsync(
    const arrow::io::IOContext& context, int64_t position, int64_t num_bytes,
    bool allow_short_read) {
  if (!allow_short_read && num_there(position, num_bytes) < num_bytes) {
    return arrow::Future<std::shared_ptr<arrow::Buffer>>::MakeFinished(
        arrow::Status::IOError("the file ends within what is to be read"));
  }
  return ReadAsync(context, position, num_bytes);
}

arrow::Result<int64_t> ArrowFile::Read(int64_t num_bytes, void* out) {
  ARROW_ASSIGN_OR_RAISE(const int64_t num_read, ReadAt(position_, num_bytes, out));
  position_ += num_read;
  return num_read;
}

arrow::Result<std::shared_ptr<arrow::Buffer>> ArrowFile::Read(int64_t num_bytes) {
  ARROW_ASSIGN_OR_RAISE(auto buffer, ReadAt(position_, num_bytes));
  position_ += buffer->size();
  return buffer;
}

}  // namespace weft
