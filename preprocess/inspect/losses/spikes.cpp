#include "preprocess/inspect/losses/spikes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>

#include "indexed_dataset/base/process/parallel_for.h"

namespace weft {
namespace {

// 768 KiB of the file: a few megabytes of memory, and more than a median needs.
constexpr int64_t kMostSamplesBefore = 65'536;
constexpr int64_t kEnoughSamplesBefore = 64;

// Keeps NaN and infinity as they are, and makes numbers that no norm can be infinite.
double log_of_norm(double norm) { return norm == 0 ? NAN : std::log(norm); }

// The finite ones of the `window` numbers before numbers[at].
std::vector<double> numbers_before(const std::vector<double>& numbers, size_t at, int64_t window) {
  const auto end = numbers.begin() + static_cast<std::ptrdiff_t>(at);
  std::vector<double> values(end - std::min(static_cast<std::ptrdiff_t>(at), window), end);
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  return values;
}

// Returns a jump at steps[at]; `losses` and `norms`, as logarithms, are those of all steps.
std::optional<Spike> find_spike(const std::vector<LoggedStep>& steps, size_t at,
                                const std::vector<double>& losses, const std::vector<double>& norms,
                                const SpikeOptions& options) {
  const LoggedStep& step = steps[at];
  const std::vector<double> losses_before = numbers_before(losses, at, options.window);
  const std::vector<double> norms_before = numbers_before(norms, at, options.window);
  if (std::ssize(losses_before) < kFewestBefore || std::ssize(norms_before) < kFewestBefore)
    return std::nullopt;
  const Usual loss = usual_after(losses_before), norm = usual_after(norms_before);
  // The deviation of a logarithm is a ratio: 2 % at least.
  const Usual log_norm{norm.median, std::max(norm.deviation, 0.02)};
  const Spike spike{.step = step,
                    .usual_loss = loss.median,
                    .loss_z = loss.z_of(step.lm_loss),
                    .usual_grad_norm = std::exp(norm.median),
                    .grad_norm_z = step.grad_norm == 0 ? 0 : log_norm.z_of(norms[at])};
  return spike.z() >= options.threshold ? std::optional(spike) : std::nullopt;
}

// NaN is worse than every number.
bool is_worse(const JudgedSample& a, const JudgedSample& b) {
  if (std::isnan(a.loss) || std::isnan(b.loss)) return std::isnan(a.loss) && !std::isnan(b.loss);
  return a.loss > b.loss;
}

// Losses of the samples of the last kRecent steps before steps[at]; of more where these are few.
std::vector<double> losses_before(const std::vector<LoggedStep>& steps, size_t at,
                                  const SampleLossReader& losses) {
  const int64_t end = steps[at].first_sample();
  size_t first = at - std::min(at, static_cast<size_t>(kRecent));
  while (first > 0 && end - steps[first].first_sample() < kEnoughSamplesBefore) --first;
  const int64_t begin = std::max(steps[first].first_sample(), end - kMostSamplesBefore);
  std::vector<double> before;
  for (const std::optional<SampleLoss>& sample : losses.read(begin, end)) {
    if (sample) before.push_back(static_cast<double>(sample->loss));
  }
  std::erase_if(before, [](double loss) { return !std::isfinite(loss); });
  return before;
}

}  // namespace

double Spike::z() const { return std::max(loss_z, grad_norm_z); }

int64_t JudgedBatch::num_standing_out(double least) const {
  if (!has_usual) return 0;
  return std::ranges::count_if(
      samples, [&](const JudgedSample& sample) { return sample.stands_out(least); });
}

bool JudgedBatch::is_unstable() const {
  const int64_t count = num_standing_out();
  return count >= 3 && 3 * count >= std::ssize(samples);
}

std::vector<Spike> find_spikes(const std::vector<LoggedStep>& steps, const SpikeOptions& options,
                               int num_threads) {
  std::vector<double> losses, norms;
  for (const LoggedStep& step : steps) {
    losses.push_back(step.lm_loss);
    norms.push_back(log_of_norm(step.grad_norm));
  }
  constexpr size_t kBlock = 4096;
  std::vector<std::vector<Spike>> found((steps.size() + kBlock - 1) / kBlock);
  parallel_for(std::ssize(found), num_threads, [&](int64_t block) {
    const size_t begin = static_cast<size_t>(block) * kBlock;
    for (size_t at = begin; at < std::min(steps.size(), begin + kBlock); ++at) {
      if (const auto spike = find_spike(steps, at, losses, norms, options))
        found[static_cast<size_t>(block)].push_back(*spike);
    }
  });
  std::vector<Spike> spikes;
  for (const std::vector<Spike>& of_block : found)
    spikes.insert(spikes.end(), of_block.begin(), of_block.end());
  std::stable_sort(spikes.begin(), spikes.end(),
                   [](const Spike& a, const Spike& b) { return a.z() > b.z(); });
  return spikes;
}

JudgedBatch judge_samples(const std::vector<LoggedStep>& steps, size_t at,
                          const SpikeOptions& options, const SampleLossReader& losses) {
  const LoggedStep& step = steps[at];
  JudgedBatch batch;
  const std::vector<double> before = losses_before(steps, at, losses);
  batch.has_usual = std::ssize(before) >= kFewestBefore;
  if (batch.has_usual) batch.usual = usual_of(before);
  std::vector<double> iterations_before;
  for (size_t i = at - std::min(at, static_cast<size_t>(options.window)); i < at; ++i) {
    if (std::isfinite(steps[i].lm_loss)) iterations_before.push_back(steps[i].lm_loss);
  }
  const Usual usual_iteration =
      iterations_before.empty() ? Usual{.median = NAN} : usual_after(iterations_before);
  batch.usual_iteration_loss = usual_iteration.median;
  const double jump = step.lm_loss - usual_iteration.median;
  // Shares of a jump that is none would be of noise: only the gradient norm jumps then.
  const bool loss_jumps =
      std::isfinite(jump) && usual_iteration.z_of(step.lm_loss) >= options.threshold;
  int64_t sample_idx = step.first_sample();
  for (const std::optional<SampleLoss>& sample :
       losses.read(step.first_sample(), step.consumed_samples)) {
    if (!sample) {
      throw LossesNotKept(
          fmt::format("the loss of sample {} of iteration {} was not kept (--no-sample-losses)",
                      sample_idx, step.iteration));
    }
    if (sample->iteration != step.iteration) {
      throw std::runtime_error(fmt::format(
          "metrics.jsonl says that iteration {} took sample {}, and {} that iteration {} "
          "did: the two files are not of one run",
          step.iteration, sample_idx, kSampleLossesName, sample->iteration));
    }
    JudgedSample judged{.sample = sample_idx++, .loss = static_cast<double>(sample->loss)};
    if (batch.has_usual) {
      judged.z = batch.usual.z_of(judged.loss);
      if (loss_jumps && std::isfinite(judged.loss)) {
        judged.share = (judged.loss - usual_iteration.median) /
                       (jump * static_cast<double>(step.global_batch_size));
      }
    }
    batch.samples.push_back(judged);
  }
  std::stable_sort(batch.samples.begin(), batch.samples.end(), is_worse);
  return batch;
}

std::vector<size_t> find_candidates(const std::vector<LoggedStep>& steps, size_t first, size_t last,
                                    double least, const SampleLossReader& losses) {
  std::vector<size_t> candidates;
  std::optional<Usual> usual;
  for (size_t at = first; at < last; ++at) {
    if (at % kRecent == 0 || at == first) {
      const std::vector<double> before = losses_before(steps, at, losses);
      usual = std::ssize(before) < kFewestBefore ? std::nullopt : std::optional(usual_of(before));
    }
    // The usual loss was computed up to kRecent steps ago, when losses may have been larger.
    const auto may_stand_out = [&](const std::optional<SampleLoss>& sample) {
      return sample && usual->z_of(static_cast<double>(sample->loss)) >= least / 2;
    };
    if (usual &&
        std::ranges::any_of(losses.read(steps[at].first_sample(), steps[at].consumed_samples),
                            may_stand_out))
      candidates.push_back(at);
  }
  return candidates;
}

}  // namespace weft
