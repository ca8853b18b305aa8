#include "indexed_dataset/run_record/sample_losses.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/storage/little_endian.h"
#include "indexed_dataset/format/soundness/xxh3.h"

namespace weft {
namespace {

constexpr char kMagic[] = {'W', 'E', 'F', 'T', 'L', 'O', 'S', 'S'};
constexpr int64_t kHeaderBytes = sizeof kMagic + 8, kRecordBytes = 12;
// 12 MiB: the memory of a reader does not depend on the range that it is asked for.
constexpr int64_t kRecordsPerRead = 1 << 20;

uint32_t check_of(int64_t sample, uint32_t iteration, float loss) {
  std::array<std::byte, 16> bytes;
  store_number(bytes.data(), sample);
  store_number(bytes.data() + 8, iteration);
  store_number(bytes.data() + 12, loss);
  return static_cast<uint32_t>(XXH3_64bits(bytes.data(), bytes.size()));
}

// Returns the first sample of such a file; nothing if it is none.
std::optional<int64_t> first_sample_of(const InputFile& file) {
  std::array<std::byte, kHeaderBytes> header;
  if (file.size_bytes() < kHeaderBytes) return std::nullopt;
  file.read_at(header.data(), header.size(), 0);
  const auto first_sample = load_number<int64_t>(header.data() + sizeof kMagic);
  if (std::memcmp(header.data(), kMagic, sizeof kMagic) != 0 || first_sample < 0)
    return std::nullopt;
  return first_sample;
}

std::optional<int64_t> first_sample_of(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return std::nullopt;
  return first_sample_of(InputFile(path));
}

}  // namespace

SampleLossWriter::SampleLossWriter(const std::filesystem::path& path, int64_t consumed_samples) {
  const std::optional<int64_t> first = first_sample_of(path);
  if (first && *first <= consumed_samples) {
    first_sample_ = *first;
    file_ = OutputFile(path, /*keep=*/true);
    const int64_t num_kept = consumed_samples - first_sample_;
    const int64_t num_stored = (InputFile(path).size_bytes() - kHeaderBytes) / kRecordBytes;
    num_dropped_samples_ = std::max(num_stored - num_kept, int64_t{0});
    file_.truncate(kHeaderBytes + num_kept * kRecordBytes);
    return;
  }
  first_sample_ = consumed_samples;
  file_ = OutputFile(path);
  std::array<std::byte, kHeaderBytes> header;
  std::memcpy(header.data(), kMagic, sizeof kMagic);
  store_number(header.data() + sizeof kMagic, first_sample_);
  file_.write_at(header.data(), header.size(), 0);
}

void SampleLossWriter::add(int64_t iteration, int64_t first_sample, std::span<const float> losses) {
  if (first_sample < first_sample_ || iteration < 1 ||
      iteration > std::numeric_limits<uint32_t>::max()) {
    throw UsageError(file_.path().string() + ": it cannot hold sample " +
                     std::to_string(first_sample) + " of iteration " + std::to_string(iteration) +
                     "; its first sample is " + std::to_string(first_sample_) +
                     ", and iterations count from 1 to 2^32 - 1");
  }
  records_.resize(losses.size() * kRecordBytes);
  std::byte* record = records_.data();
  int64_t sample = first_sample;
  for (const float loss : losses) {
    store_number(record, static_cast<uint32_t>(iteration));
    store_number(record + 4, loss);
    store_number(record + 8, check_of(sample++, static_cast<uint32_t>(iteration), loss));
    record += kRecordBytes;
  }
  file_.write_at(records_.data(), records_.size(),
                 kHeaderBytes + (first_sample - first_sample_) * kRecordBytes);
}

SampleLossReader::SampleLossReader(const std::filesystem::path& path) : file_(path) {
  const std::optional<int64_t> first = first_sample_of(file_);
  if (!first) throw std::runtime_error(path.string() + ": not a file of losses of samples");
  first_sample_ = *first;
  end_sample_ = first_sample_ + (file_.size_bytes() - kHeaderBytes) / kRecordBytes;
}

std::vector<std::optional<SampleLoss>> SampleLossReader::read(int64_t first, int64_t last) const {
  std::vector<std::optional<SampleLoss>> losses(
      static_cast<size_t>(std::max(last - first, int64_t{0})));
  const int64_t end = std::min(last, end_sample_);
  std::vector<std::byte> bytes;
  for (int64_t begin = std::max(first, first_sample_); begin < end; begin += kRecordsPerRead) {
    const int64_t count = std::min(end - begin, kRecordsPerRead);
    bytes.resize(static_cast<size_t>(count * kRecordBytes));
    file_.read_at(bytes.data(), bytes.size(),
                  kHeaderBytes + (begin - first_sample_) * kRecordBytes);
    for (int64_t i = 0; i < count; ++i) {
      const std::byte* record = bytes.data() + i * kRecordBytes;
      const auto iteration = load_number<uint32_t>(record);
      const auto loss = load_number<float>(record + 4);
      const auto check = load_number<uint32_t>(record + 8);
      if (iteration == 0 && check == 0 && load_number<uint32_t>(record + 4) == 0) continue;
      if (check != check_of(begin + i, iteration, loss)) {
        throw ChecksumMismatch(file_.path().string() + ": the record of sample " +
                               std::to_string(begin + i) +
                               " is damaged (its checksum differs); look at other iterations");
      }
      losses[static_cast<size_t>(begin + i - first)] = SampleLoss{iteration, loss};
    }
  }
  return losses;
}

}  // namespace weft
