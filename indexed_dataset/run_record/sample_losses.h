// RUN_DIR/sample_losses.bin holds the loss of every sample that a training run has taken.
//
//   file   := magic[8] "WEFTLOSS" first_sample:i64 record*
//   record := iteration:u32 loss:f32 check:u32         12 bytes; record i is sample first_sample + i
//
// check is the low half of XXH3-64 of (sample:i64 iteration:u32 loss:f32). Samples are numbered as
// the log counts consumed ones, so a sample is found without a search. A record of zeros is a
// sample whose loss was not kept: iterations count from 1, so no other record is one. All numbers
// are little-endian.
//
// The loss of a sample is the mean over its tokens; with --eod-mask-loss over those that are not
// masked, and 0 where all are. Without masks the loss of an iteration is the mean over its samples.
//
// Against a checksum for each step: a record can be read alone, and no table tells where a step
// lies.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "indexed_dataset/base/storage/file_io.h"

namespace weft {

// The name of the file in a run's folder.
inline constexpr const char* kSampleLossesName = "sample_losses.bin";

// Appends the samples of each step with one write, so that a killed run leaves at most its last
// step torn. Not thread-safe.
class SampleLossWriter {
 public:
  // Opens or creates the file of a run that has consumed so many samples. It first drops the
  // records of later ones. What the file lacks before them stays a gap of zeros. A file that begins
  // later, or is none of these, is started anew. Throws std::system_error.
  SampleLossWriter(const std::filesystem::path& path, int64_t consumed_samples);
  // The losses of an iteration, whose first sample is number `first_sample`. Throws
  // std::system_error, and UsageError for a sample before the file's first one.
  void add(int64_t iteration, int64_t first_sample, std::span<const float> losses);
  // The number of samples whose records were dropped when the file was opened.
  int64_t num_dropped_samples() const { return num_dropped_samples_; }

 private:
  OutputFile file_;
  int64_t num_dropped_samples_ = 0;
  int64_t first_sample_ = 0;
  std::vector<std::byte> records_;  // of one step
};

struct SampleLoss {
  int64_t iteration = 0;  // the one that took the sample
  float loss = 0;
};

// Reads the file, also while a run writes it: then what was there when it was opened.
class SampleLossReader {
 public:
  // Throws std::system_error if the file cannot be read, std::runtime_error if it is none of these.
  explicit SampleLossReader(const std::filesystem::path& path);

  // Returns the number of the sample behind the last one in the file.
  int64_t end_sample() const { return end_sample_; }
  // Returns the losses of samples [first, last), in order; nothing for a sample whose loss was not
  // kept, be it within the file or outside. Throws std::system_error, and ChecksumMismatch that
  // names the first damaged sample. Thread-safe.
  std::vector<std::optional<SampleLoss>> read(int64_t first, int64_t last) const;

 private:
  InputFile file_;
  int64_t first_sample_ = 0, end_sample_ = 0;  // the file has samples [first, end)
};

}  // namespace weft
