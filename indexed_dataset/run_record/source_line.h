// Finds documents by the line of the corpus that they came from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "indexed_dataset/format/sidecars/source_map.h"

namespace weft {

// FILE:OFFSET.
struct SourceLine {
  std::string file;
  int64_t offset_bytes = 0;
};
// Throws std::invalid_argument for anything else.
SourceLine parse_source_line(const std::string& text);

// Returns the inputs of a source map that `file` means: those of this name; else those whose names
// end with it, behind a slash. Throws std::invalid_argument if these have several names.
std::vector<uint32_t> inputs_named(const SourceMap& sources, const std::string& file);

// Returns the documents whose lines begin at this byte of one of the inputs. `nearest` gets words
// for the documents around it if there are none.
std::vector<int64_t> documents_at(const SourceMap& sources, const std::vector<uint32_t>& inputs,
                                  int64_t offset_bytes, std::string& nearest);

}  // namespace weft
