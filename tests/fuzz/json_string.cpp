// Vector functions beside plain ones: the end of a string and its meaning, whatever the bytes.
#include "preprocess/documents/json_string.h"

#include <algorithm>
#include <string>
#include <vector>

#include "preprocess/stream/line_chunks.h"
#include "tests/fuzz/fuzz_check.h"

namespace weft {
namespace {

std::string unescape(Simd simd, std::string_view raw, int64_t& num_replaced) {
  std::vector<char> out(raw.size() + kUnescapeSlackBytes);
  const char* end = unescape_string_with(simd, raw, out.data(), num_replaced);
  FUZZ_CHECK(end <= out.data() + raw.size());
  return {out.data(), static_cast<size_t>(end - out.data())};
}

void compare(Simd simd, const char* begin, const char* end) {
  const StringEnd expected = find_string_end_with(Simd::kScalar, begin, end);
  const StringEnd found = find_string_end_with(simd, begin, end);
  FUZZ_CHECK(found.position == expected.position);
  FUZZ_CHECK(std::string(found.error == nullptr ? "" : found.error) ==
             (expected.error == nullptr ? "" : expected.error));
  if (found.error != nullptr) return;
  FUZZ_CHECK(*found.position == '"');
  FUZZ_CHECK(found.has_escapes == expected.has_escapes);
  const std::string_view raw(begin, static_cast<size_t>(found.position - begin));
  int64_t num_replaced = 0, expected_num_replaced = 0;
  FUZZ_CHECK(unescape(simd, raw, num_replaced) ==
             unescape(Simd::kScalar, raw, expected_num_replaced));
  FUZZ_CHECK(num_replaced == expected_num_replaced);
}

}  // namespace
}  // namespace weft

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // In memory of exactly its size, behind an opening quote.
  std::vector<char> line(1 + size, '"');
  std::copy(data, data + size, line.begin() + 1);
  const char* const end = line.data() + line.size();
  for (const weft::Simd simd : {weft::Simd::kAvx2, weft::Simd::kAvx512, weft::Simd::kNeon}) {
    if (!weft::has_simd(simd)) continue;
    for (size_t i = 1; i <= std::min<size_t>(line.size(), 3); ++i)
      weft::compare(simd, line.data() + i, end);
  }
  return 0;
}
