// TensorBoard event files, written without a protobuf library.
//
//   file    := record*
//   record  := length:u64 masked_crc(length):u32 data[length] masked_crc(data):u32    (TFRecord)
//   data    := protobuf Event: 1 wall_time double, 2 step int64, 3 file_version string, 5 summary
//   summary := repeated 1 Value: 1 tag string, 2 simple_value float, or of a text
//              8 tensor (1 dtype = 7 string, 2 tensor_shape of no dimensions, 8 string_val) and
//              9 metadata (1 plugin_data (1 plugin_name = "text"))
//
// masked_crc(x) = rotate_right(crc32c(x), 15) + 0xa282ead8
// [TensorFlow core/lib/io/record_writer.cc, core/util/event.proto, core/framework/summary.proto,
// core/framework/tensor.proto; TensorBoard plugins/text/summary_v2.py]
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "indexed_dataset/base/storage/file_io.h"

namespace weft {

// Returns the CRC-32C (Castagnoli) of `data`; that of "123456789" is 0xe3069283.
uint32_t crc32c(std::string_view data);

struct Scalar {
  std::string tag;
  float value = 0;
};

// These return the bytes of one record that holds one event.
std::string version_record(double wall_time);
std::string scalars_record(double wall_time, int64_t step, const std::vector<Scalar>& scalars);
std::string text_record(double wall_time, int64_t step, const std::string& tag,
                        const std::string& text);
// Returns the whole records at the start of a file's bytes, each with its frame. It stops at the
// first record that is torn or damaged.
std::vector<std::string_view> whole_records(std::string_view file);

// Cuts the points that a resumed run will write again off the event files of the run `run_id` in
// `folder`: from the first one after iteration `iteration` on or, of tags "... vs samples", after
// `consumed_samples`. (TensorBoard's own mark of a restart, SessionLog, counts both in one unit.)
// Files of other runs stay as they are. Returns the number of dropped records. Throws
// std::system_error.
int64_t drop_events_after(const std::filesystem::path& folder, const std::string& run_id,
                          int64_t iteration, int64_t consumed_samples);

// Every process writes a new file, so that a resumed run never appends to one that may be torn. The
// name ends in ".RUN_ID.weft": files of many runs lie side by side in one folder. Each add() is one
// write.
class EventFile {
 public:
  // Creates the folder. Throws std::system_error.
  EventFile(const std::filesystem::path& folder, const std::string& run_id);
  void add(int64_t step, const std::vector<Scalar>& scalars);  // throws std::system_error
  void add_text(int64_t step, const std::string& tag, const std::string& text);  // likewise
  const std::filesystem::path& path() const { return file_.path(); }

 private:
  void write(const std::string& record);
  OutputFile file_;
};

}  // namespace weft
