// Pieces of the report's page that know nothing of the report.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

// Corpus text made visible (control characters, invalid bytes, text that turns its direction) and
// then harmless in HTML, within attributes, too.
std::string escaped(std::string_view text);

struct Bar {
  std::string label;
  int64_t value;
};
// Horizontal bars. Labels are escaped here.
std::string bar_chart(const std::vector<Bar>& bars);

}  // namespace weft
