// The vector splitters of each pattern, which do what SplitPattern::split says; `max_pieces` must
// be at least 64.
#pragma once

#include <cstddef>
#include <string_view>

namespace weft {

#if defined(__x86_64__)
size_t split_gpt2_avx2(std::string_view text, size_t begin, size_t* ends, size_t max_pieces);
size_t split_gpt2_avx512(std::string_view text, size_t begin, size_t* ends, size_t max_pieces);
#elif defined(__aarch64__)
size_t split_gpt2_neon(std::string_view text, size_t begin, size_t* ends, size_t max_pieces);
#endif

}  // namespace weft
