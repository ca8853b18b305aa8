// The file of GEMM algorithms (--gemm-algorithm-cache), in which runs find what earlier ones timed.
//
// Its text is that of kernels/algorithm_choices.h. Lines are only ever added: a key keeps its first
// value, also when several processes share the file, unless the library no longer takes it.
#pragma once

#include <filesystem>
#include <string>

#include "kernels/backend.h"

namespace weft {

// Times the GEMMs among `operations` that neither the backend nor the file has a choice for, and
// adds the choices to the file, which is replaced as a whole. Where another process was faster, its
// choices are used. With an empty path nothing is timed. What is no regular file (/dev/null) stays
// as it is, and the choices are not kept. A file of another version's choices is replaced. Returns
// notes for the user, a line each, for example that the file cannot be written. Throws
// std::runtime_error when the file is of another kind.
std::string tune_with_file(Backend& backend, std::span<const AnyOperation> operations,
                           const std::filesystem::path& file);

}  // namespace weft
