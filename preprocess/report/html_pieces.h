// Builds pieces of HTML that know nothing of the report.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

// Makes corpus text visible (control characters, invalid bytes, text that turns its direction) and
// then harmless in HTML, also within attributes.
std::string escaped(std::string_view text);

struct Bar {
  std::string label;
  int64_t value;
};
// Draws horizontal bars. Labels are escaped here.
std::string bar_chart(const std::vector<Bar>& bars);

}  // namespace weft
