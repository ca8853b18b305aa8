#include "trainer/data/document_bounds.h"

#include <algorithm>

namespace weft {

namespace {

void fill(int32_t* bounds, int64_t begin, int64_t end) {
  for (int64_t t = begin; t < end; ++t) {
    bounds[2 * t] = static_cast<int32_t>(begin);
    bounds[2 * t + 1] = static_cast<int32_t>(end);
  }
}

}  // namespace

void find_bounds_by_tokens(const int32_t* inputs, int64_t T, int32_t end_of_document_id,
                           int32_t* bounds) {
  for (int64_t begin = 0, end = 0; begin < T; begin = end) {
    const int64_t last = std::find(inputs + begin, inputs + T, end_of_document_id) - inputs;
    end = std::min(last + 1, T);
    fill(bounds, begin, end);
  }
}

void find_bounds_by_parts(const std::vector<SamplePart>& parts, const LengthCurriculum::Row& row,
                          int32_t* bounds) {
  int64_t begin = 0, end_of_part = -row.begin;  // as positions in the row
  for (const SamplePart& part : parts) {
    end_of_part += part.num_tokens;
    const int64_t end = std::min(end_of_part, row.length);  // the last label is no input
    if (end <= begin) continue;
    fill(bounds, begin, end);
    begin = end;
  }
}

}  // namespace weft
