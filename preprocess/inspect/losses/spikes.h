// Iterations whose loss or gradient norm jumps, and the samples that carry the jump.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <vector>

#include "indexed_dataset/run_record/run_metrics.h"
#include "indexed_dataset/run_record/sample_losses.h"
#include "preprocess/inspect/losses/jump.h"

namespace weft {

struct SpikeOptions {
  int64_t window = 100;  // iterations before one that say what is usual
  double threshold = 6;  // robust standard deviations from which on a number jumps
};

// An iteration with fewer ones before it is not judged.
inline constexpr int64_t kFewestBefore = 10;

struct Spike {
  LoggedStep step;
  // These say what was usual before, and by how much the step differs. The gradient norm is
  // compared by its logarithm: its distribution has a long tail.
  double usual_loss = 0, loss_z = 0, usual_grad_norm = 0, grad_norm_z = 0;

  double z() const;  // the larger one
};

// Returns the steps of which a number jumps, the largest jump first.
std::vector<Spike> find_spikes(const std::vector<LoggedStep>& steps, const SpikeOptions& options,
                               int num_threads = 1);

// A sample of an iteration beside what is usual for samples before the iteration.
struct JudgedSample {
  int64_t sample = 0;
  double loss = 0, z = 0;
  // Its part of the iteration's jump above the usual loss of iterations, if the loss jumps
  // (SpikeOptions::threshold): the parts of all samples sum to 1. It is an estimate where tokens
  // are masked.
  std::optional<double> share = {};

  // True from `least` on, and for a loss that is no number.
  bool stands_out(double least) const { return !(z < least); }
};

// A sample from here on is far from usual.
inline constexpr double kStandsOut = 4;

// The losses of an iteration's samples are not in the file.
struct LossesNotKept : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct JudgedBatch {
  // False where no loss of a sample is known before the iteration: z and share are not known then.
  bool has_usual = false;
  Usual usual;                      // of samples before the iteration
  double usual_iteration_loss = 0;  // of iterations before; NaN without any
  // All samples of the iteration, the largest loss first; NaN before all.
  std::vector<JudgedSample> samples;

  // Returns the number of samples that stand out.
  int64_t num_standing_out(double least = kStandsOut) const;
  // True if so many stand out at once, three and a third of all, that rather the weights which all
  // of them met are the cause than the text of each.
  bool is_unstable() const;
};

// Judges the samples of steps[at] by those of the kRecent steps before it: of more steps where
// these have fewer than 64, of the last 65,536 where they have more. `options` are those of
// find_spikes(). Throws LossesNotKept, std::runtime_error if the file has these samples in another
// iteration, and what SampleLossReader::read() throws.
JudgedBatch judge_samples(const std::vector<LoggedStep>& steps, size_t at,
                          const SpikeOptions& options, const SampleLossReader& losses);

// Returns the positions of steps with a sample that may stand out by `least`. They are a choice for
// judge_samples(): what is usual is read once for every kRecent steps, in steps[first, last), so
// that a long run is looked through quickly. Throws what SampleLossReader::read() throws.
std::vector<size_t> find_candidates(const std::vector<LoggedStep>& steps, size_t first, size_t last,
                                    double least, const SampleLossReader& losses);

}  // namespace weft
