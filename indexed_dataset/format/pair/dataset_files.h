// The files that a dataset consists of.
#pragma once

#include <filesystem>
#include <string>

namespace weft {

// They stand beside each other, named by suffix. The .idx comes last: that it is there says that
// the others are.
inline constexpr const char* kDatasetSuffixes[] = {".bin", ".sources", ".checksums",
                                                   ".manifest.json", ".idx"};

// Makes "x" of "x.bin" and "x.idx": people paste file names where a prefix is meant.
inline std::filesystem::path without_suffix(const std::string& prefix) {
  const bool has_suffix = prefix.ends_with(".bin") || prefix.ends_with(".idx");
  return has_suffix ? prefix.substr(0, prefix.size() - 4) : prefix;
}

}  // namespace weft
