// Reads a user's scores: a text file with one number on each line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace weft {

// Reads `count` numbers, multiplies them by `scale` and rounds them to the nearest integer. Throws
// std::system_error if the file cannot be read; std::runtime_error naming the line for what is no
// number, for a number with a fraction that the scale leaves when it is 1 (rounding would lose all
// of it), for one that does not fit 64 bits, and for another number of lines. `of_what` says in
// messages what the lines are of.
std::vector<int64_t> read_scores(const std::filesystem::path& path, int64_t count, int64_t scale,
                                 const std::string& of_what);

}  // namespace weft
