#include "inspect/losses/spikes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace weft {
namespace {

// 768 KiB of the file: a few megabytes of memory, and more than a median needs.
constexpr int64_t kMostSamplesBefore = 65'536;
constexpr int64_t kEnoughSamplesBefore = 64;

// Keeps NaN and infinity as they are, and makes numbers that no norm can be infinite.
double log_of_norm(double norm) { return norm == 0 ? NAN : std::log(norm); }

// The losses or norms of the steps before steps[at].
template <typename Number>
std::vector<double> numbers_before(const std::vector<LoggedStep>& steps, size_t at, int64_t window,
                                   const Number& number) {
  std::vector<double> values;
  const auto first = at - std::min(at, static_cast<size_t>(window));
  for (size_t i = first; i < at; ++i) {
    const double value = number(steps[i]);
    if (std::isfinite(value)) values.push_back(value);
  }
  return values;
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

std::vector<Spike> find_spikes(const std::vector<LoggedStep>& steps, const SpikeOptions& options) {
  std::vector<Spike> spikes;
  for (size_t at = 0; at < steps.size(); ++at) {
    const LoggedStep& step = steps[at];
    const std::vector<double> losses = numbers_before(
        steps, at, options.window, [](const LoggedStep& before) { return before.lm_loss; });
    const std::vector<double> norms =
        numbers_before(steps, at, options.window,
                       [](const LoggedStep& before) { return log_of_norm(before.grad_norm); });
    if (std::ssize(losses) < kFewestBefore || std::ssize(norms) < kFewestBefore) continue;
    const Usual loss = usual_after(losses), norm = usual_after(norms);
    // The deviation of a logarithm is a ratio: 2 % at least.
    const Usual log_norm{norm.median, std::max(norm.deviation, 0.02)};
    const Spike spike{
        .step = step,
        .usual_loss = loss.median,
        .loss_z = loss.z_of(step.lm_loss),
        .usual_grad_norm = std::exp(norm.median),
        .grad_norm_z = step.grad_norm == 0 ? 0 : log_norm.z_of(log_of_norm(step.grad_norm))};
    if (spike.z() >= options.threshold) spikes.push_back(spike);
  }
  std::stable_sort(spikes.begin(), spikes.end(),
                   [](const Spike& a, const Spike& b) { return a.z() > b.z(); });
  return spikes;
}

JudgedBatch judge_samples(const std::vector<LoggedStep>& steps, size_t at, int64_t window,
                          const SampleLossReader& losses) {
  const LoggedStep& step = steps[at];
  JudgedBatch batch;
  const std::vector<double> before = losses_before(steps, at, losses);
  batch.has_usual = std::ssize(before) >= kFewestBefore;
  if (batch.has_usual) batch.usual = usual_of(before);
  const std::vector<double> iterations_before =
      numbers_before(steps, at, window, [](const LoggedStep& earlier) { return earlier.lm_loss; });
  const double usual_loss = iterations_before.empty() ? NAN : usual_after(iterations_before).median;
  batch.usual_iteration_loss = usual_loss;
  const double jump = step.lm_loss - usual_loss;
  int64_t sample_idx = step.first_sample();
  for (const std::optional<SampleLoss>& sample :
       losses.read(step.first_sample(), step.consumed_samples)) {
    if (!sample) {
      throw LossesNotKept(fmt::format(
          "the loss of sample {} of iteration {} was not kept (--no-sample-losses, or an "
          "older version trained it)",
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
      if (jump > 0 && std::isfinite(judged.loss)) {
        judged.share =
            (judged.loss - usual_loss) / (jump * static_cast<double>(step.global_batch_size));
      }
    }
    batch.samples.push_back(judged);
  }
  std::stable_sort(batch.samples.begin(), batch.samples.end(), is_worse);
  return batch;
}

}  // namespace weft
