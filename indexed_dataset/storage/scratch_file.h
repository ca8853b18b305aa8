// A file for what does not fit into memory for a while. It has no name, so that it is gone with the
// process however that ends.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "indexed_dataset/storage/file_io.h"

namespace weft {

// One thread at a time; movable. All members throw std::system_error.
class ScratchFile {
 public:
  // Makes it in `folder`, where its name can be seen for an instant: scratch.RANDOM.
  explicit ScratchFile(const std::filesystem::path& folder);

  void append(const void* data, size_t size_bytes);
  // Forgets what lies behind; the next append() goes there. size_bytes <= size_bytes().
  void cut(int64_t size_bytes) { size_bytes_ = size_bytes; }
  int64_t size_bytes() const { return size_bytes_; }
  const InputFile& content() const { return reader_; }

 private:
  OutputFile writer_;
  InputFile reader_;
  int64_t size_bytes_ = 0;
};

// The name of one that a killed process left.
bool is_scratch_name(const std::string& name);

}  // namespace weft
