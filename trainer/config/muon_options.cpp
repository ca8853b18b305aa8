#include "trainer/config/muon_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "indexed_dataset/base/process/exit_code.h"

namespace weft {

double scale_of(MuonScale scale, int64_t num_rows, int64_t num_columns) {
  const auto rows = static_cast<double>(num_rows), columns = static_cast<double>(num_columns);
  switch (scale) {
    case MuonScale::kSpectral:
      return std::sqrt(std::max(rows, columns));
    case MuonScale::kUnitRmsNorm:
      return std::sqrt(rows / columns);
    case MuonScale::kShapeScaling:
      return std::sqrt(std::max(1.0, rows / columns));
  }
  return 1;
}

std::vector<NewtonSchulz> newton_schulz_iterations(const std::string& type, int64_t num) {
  struct Coefficients {
    const char* type;
    bool repeats_last;  // beyond the list; else all of it is repeated
    std::vector<NewtonSchulz> list;
  };
  static const Coefficients kTypes[] = {
      {"quintic",
       false,
       {{4.0848, -6.8946, 2.9270},
        {3.9505, -6.3029, 2.6377},
        {3.7418, -5.5913, 2.3037},
        {2.8769, -3.1427, 1.2046},
        {2.8366, -3.0525, 1.2012}}},
      {"simple", false, {{3.4445, -4.7750, 2.0315}}},
      {"polar_express",  // [Amsel et al. 2025, arXiv:2505.16932]
       true,
       {{8.2051, -22.9019, 16.4607},
        {4.0664, -2.8612, 0.5184},
        {3.9096, -2.8234, 0.5250},
        {3.2856, -2.4153, 0.4853},
        {2.2779, -1.6198, 0.3985},
        {1.8726, -1.2307, 0.3585},
        {1.8564, -1.2132, 0.3568},
        {1.8750, -1.2500, 0.3750}}},
      {"aol",
       false,
       {{4.0098, -7.0585, 2.4635},
        {3.4585, -5.5479, 2.5959},
        {2.7573, -3.2939, 1.4254},
        {2.7215, -3.0494, 1.3169}}},
  };
  for (const Coefficients& known : kTypes) {
    if (type != known.type) continue;
    const auto length = static_cast<int64_t>(known.list.size());
    if (known.repeats_last ? num < length : num < 1 || num % length != 0)
      throw UsageError(fmt::format(
          "--muon-num-ns-steps {} does not go with --muon-coefficient-type {}, which has {} steps: give {}",
          num, type, length, known.repeats_last ? "so many or more" : "a multiple of that"));
    std::vector<NewtonSchulz> iterations;
    for (int64_t i = 0; i < num; ++i)
      iterations.push_back(known.list[static_cast<size_t>(
          known.repeats_last ? std::min(i, length - 1) : i % length)]);
    return iterations;
  }
  throw UsageError(fmt::format(
      "--muon-coefficient-type {} is none of quintic, simple, polar_express, aol", type));
}

}  // namespace weft
