// The files that a dataset consists of.
#pragma once

namespace weft {

// They stand beside each other, named by suffix. The .idx comes last: that it is there says that
// the others are.
inline constexpr const char* kDatasetSuffixes[] = {".bin", ".sources", ".checksums",
                                                   ".manifest.json", ".idx"};

}  // namespace weft
