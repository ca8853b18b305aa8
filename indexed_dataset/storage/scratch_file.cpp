#include "indexed_dataset/storage/scratch_file.h"

#include <random>
#include <string>

namespace weft {
namespace {

constexpr char kPrefix[] = "scratch.";

}  // namespace

ScratchFile::ScratchFile(const std::filesystem::path& folder) {
  // Many processes may share the folder; 64 random bits do not meet.
  std::random_device random;
  const uint64_t number = uint64_t{random()} << 32 | random();
  const std::filesystem::path path = folder / (kPrefix + std::to_string(number));
  writer_ = OutputFile::create_private(path);
  std::error_code ignored;
  try {
    reader_ = InputFile(path);
  } catch (...) {
    std::filesystem::remove(path, ignored);
    throw;
  }
  std::filesystem::remove(path, ignored);
}

void ScratchFile::append(const void* data, size_t size_bytes) {
  writer_.write_at(data, size_bytes, size_bytes_);
  size_bytes_ += static_cast<int64_t>(size_bytes);
}

// NFS keeps what is still open under a name of its own.
bool is_scratch_name(const std::string& name) {
  return name.starts_with(kPrefix) || name.starts_with(".nfs");
}

}  // namespace weft
