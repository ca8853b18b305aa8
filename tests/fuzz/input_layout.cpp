// Compressed files of any content, cut at the places their tables, hints and headers name: never
// other bytes than a read from front to back gives.
#include "preprocess/compressed/input_layout.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "preprocess/compressed/decoded_source.h"
#include "tests/fuzz/fuzz_check.h"
#include "tests/fuzz/memory_file.h"

namespace weft {
namespace {

constexpr int64_t kMaxOutputBytes = 1 << 20;
const std::atomic<bool> kNotCancelled{false};

// False if decoding fails.
bool append_range(const std::string& path, const InputLayout& layout, int64_t begin, int64_t end,
                  std::string& bytes) {
  char buffer[4096];
  try {
    const auto source = open_input_range(path, layout, begin, end, kNotCancelled,
                                         {.max_output_bytes = kMaxOutputBytes});
    while (const size_t got = source->read(buffer, sizeof(buffer))) bytes.append(buffer, got);
  } catch (const std::runtime_error&) {
    return false;
  }
  return true;
}

void check(const MemoryFile& file, size_t size) {
  const LayoutLimits limits{
      .min_part_bytes = 1, .max_parts = 100, .max_reads = 300, .max_blocks_per_frame = 50};
  const InputLayout layout = input_layout(file.path(), limits);
  const std::vector<int64_t>& begins = layout.part_begins;
  FUZZ_CHECK(layout.file_bytes == static_cast<int64_t>(size));
  FUZZ_CHECK(!begins.empty() && begins[0] == 0 && begins.size() <= 100);
  FUZZ_CHECK(std::is_sorted(begins.begin(), begins.end(), std::less_equal<>()));
  FUZZ_CHECK(begins.size() == 1 || begins.back() < layout.file_bytes);
  if (begins.size() == 1) return;

  std::string whole, parts;
  const bool whole_is_sound = append_range(file.path(), layout, 0, layout.file_bytes, whole);
  bool parts_are_sound = true;
  for (size_t i = 0; i < begins.size() && parts_are_sound; ++i) {
    const int64_t end = i + 1 < begins.size() ? begins[i + 1] : layout.file_bytes;
    parts_are_sound = append_range(file.path(), layout, begins[i], end, parts);
  }
  if (!parts_are_sound || static_cast<int64_t>(parts.size()) > kMaxOutputBytes) return;
  // Parts rest on the check of each block or frame. The whole may refuse more, and then ends early:
  // a sum over all, or an xz index whose sizes are not those of its blocks.
  FUZZ_CHECK(whole_is_sound ? parts == whole : parts.starts_with(whole));
}

}  // namespace
}  // namespace weft

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace weft;
  const MemoryFile file({reinterpret_cast<const char*>(data), size});
  check(file, size);
  return 0;
}
