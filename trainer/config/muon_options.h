// How Muon updates the matrices of layers, and which words of the command line stand for that. The
// words, the defaults and the numbers are Megatron's.
// [Megatron-LM megatron/core/optimizer/emerging_optimizers.py; Emerging-Optimizers, muon_utils.py]
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "kernels/numbers/tensor.h"

namespace weft {

// What an orthogonal update of R rows and C columns is multiplied with.
//   spectral        sqrt(max(R, C)); 0.2 times that has the size of AdamW's updates
//                   [Liu et al. 2025, arXiv:2502.16982]
//   unit_rms_norm   sqrt(R / C)              [Bernstein 2025, "Deriving Muon"]
//   shape_scaling   sqrt(max(1, R / C))      [Jordan et al. 2024]
enum class MuonScale { kSpectral, kUnitRmsNorm, kShapeScaling };
inline constexpr std::pair<const char*, MuonScale> kMuonScales[] = {
    {"spectral", MuonScale::kSpectral},
    {"unit_rms_norm", MuonScale::kUnitRmsNorm},
    {"shape_scaling", MuonScale::kShapeScaling},
};
double scale_of(MuonScale scale, int64_t num_rows, int64_t num_columns);

// An iteration is X = a X + (b X X' + c (X X')^2) X.
struct NewtonSchulz {
  double a = 0, b = 0, c = 0;
};

struct MuonOptions {
  double momentum = 0.95;
  bool nesterov = false;
  // Queries, keys and values are matrices of their own, each of all groups of heads.
  bool splits_qkv = true;
  MuonScale scale = MuonScale::kSpectral;
  double extra_scale = 1;
  std::vector<NewtonSchulz> iterations;
  DType products = DType::kBFloat16;  // the type of the iterations' matrices: or fp32
  // Tensor-parallel ranks gather a matrix and update it alike; else each its part, by itself.
  bool gathers_matrices = false;
};

// The iterations of a --muon-coefficient-type: "quintic", "simple", "polar_express" or "aol".
// Throws UsageError for another word, and for a number that does not go with it.
std::vector<NewtonSchulz> newton_schulz_iterations(const std::string& type, int64_t num);

}  // namespace weft
