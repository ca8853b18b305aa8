#include "preprocess/inputs/layout_text.h"

#include <sstream>

namespace weft {

std::string layout_text(const InputLayout& layout) {
  std::ostringstream text;
  text << layout.format << ' ' << layout.file_bytes << ' ' << layout.cut_anywhere << ' '
       << layout.is_one_task << ' ' << layout.has_rows;
  for (const int64_t begin : layout.part_begins) text << ' ' << begin;
  return text.str();
}

InputLayout layout_from(const std::string& text) {
  std::istringstream words(text);
  InputLayout layout;
  layout.part_begins.clear();
  words >> layout.format >> layout.file_bytes >> layout.cut_anywhere >> layout.is_one_task >>
      layout.has_rows;
  for (int64_t begin = 0; words >> begin;) layout.part_begins.push_back(begin);
  return layout;
}

}  // namespace weft
