// Where the blocks of an xz file begin (The .xz File Format 1.1.0,
// tukaani.org/xz/xz-file-format.txt); xz_decoder.h decodes from there.
#pragma once

#include "indexed_dataset/base/storage/file_io.h"
#include "preprocess/compressed/input_parts.h"

namespace weft {

// Fills in the parts of an xz file, at least `limits.min_part_bytes` apart, by the indexes at its
// streams' ends. One part for a file in which anything does not fit (the decoder will say what), or
// whose indexes need over 16 MiB (a million blocks). Throws as InputFile.
void find_xz_parts(const InputFile& file, const LayoutLimits& limits, InputLayout& layout);

}  // namespace weft
