// One table of matrix-product algorithms for all ranks, so that they cannot differ by a bit.
#pragma once

#include <filesystem>
#include <string>

#include "kernels/backend.h"
#include "trainer/ranks/host_group.h"
#include "trainer/step/trainer.h"

namespace weft {

// Lets rank 0 time the GEMMs that `algorithm_file` lacks (ceilings/algorithm_file.h), and all ranks
// use its choices. Where rank 0 has too little free memory to time, the others do, and all use what
// the lowest of them has found. All ranks call it, before the trainer allocates. Returns notes for
// the user. Throws ConfigurationDiffers where ranks have other libraries or GPUs, whose algorithms
// differ.
std::string tune_on_first_rank(Trainer& trainer, Backend& backend, HostGroup& ranks,
                               const std::filesystem::path& algorithm_file);

}  // namespace weft
