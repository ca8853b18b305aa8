// The datasets of a run, and the loaders that make its batches.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "indexed_dataset/base/process/exit_code.h"
#include "trainer/log/log_lines.h"
#include "trainer/loop/evaluation.h"
#include "trainer/loop/run.h"

namespace weft {

namespace {

// Each sample of a blend without weights comes once, so it may have fewer than a run takes.
// Megatron-Core ends such a run when they are used up
// [core/datasets/blended_megatron_dataset_builder.py: the smaller one of what is asked and what
// there is].
void check_blend_suffices(Split split, const std::vector<Blend>& groups,
                          const BlendedDataset* dataset, int64_t needed,
                          const std::string& advice) {
  if (!dataset || needed <= dataset->end() || groups.size() != 1) return;
  const Blend& blend = groups.front();
  if (!blend.weights.empty() || blend.prefixes.size() < 2) return;
  constexpr size_t kMostNamed = 8;
  std::string of_each;
  for (size_t i = 0; i < blend.prefixes.size() && i < kMostNamed; ++i) {
    of_each += fmt::format("{}{} has {}", i == 0 ? "" : ", ", blend.prefixes[i],
                           dataset->dataset(static_cast<int64_t>(i)).num_samples());
  }
  throw UsageError(fmt::format(
      "{} needs {} samples, and its {} datasets without weights have {} together, each of which comes "
      "once: {}{}; give {}, or weights (WEIGHT PREFIX WEIGHT PREFIX ...), with which datasets are repeated",
      split_name(split), needed, blend.prefixes.size(), dataset->end(), of_each,
      blend.prefixes.size() > kMostNamed ? ", ..." : "", advice));
}

// A line for each dataset that training reads: the samples of one epoch, and the epochs of this
// run.
std::string datasets_of_training(const std::vector<IndexReport>& reports) {
  constexpr size_t kMostNamed = 32;
  std::string text;
  size_t num_named = 0, num_datasets = 0;
  for (const IndexReport& report : reports) {
    if (report.split != Split::kTrain || report.num_epochs < 1) continue;
    if (++num_datasets > kMostNamed) continue;
    ++num_named;
    const double of_epoch =
        static_cast<double>(report.num_samples) / static_cast<double>(report.num_epochs);
    const auto asked =
        static_cast<double>(report.num_asked < 0 ? report.num_samples : report.num_asked);
    text +=
        fmt::format(" > training on {}: about {:.0f} samples an epoch, {:.4g} epochs in this run\n",
                    report.name, of_epoch, of_epoch > 0 ? asked / of_epoch : 0.0);
  }
  if (num_named < num_datasets)
    text += fmt::format(" > and {} datasets more\n", num_datasets - num_named);
  return text;
}

// Returns a line that tells how often the run reads each dataset of a split; "" where all are read
// in part of one epoch. A tiny dataset in a blend, or a long validation, may be read very often
// without another sign of it.
std::string epochs_line(Split split, const std::vector<IndexReport>& reports) {
  std::vector<const IndexReport*> repeated;
  for (const IndexReport& report : reports) {
    if (report.split == split && report.num_epochs > 1) repeated.push_back(&report);
  }
  if (repeated.empty()) return "";
  std::ranges::stable_sort(repeated, std::greater(), &IndexReport::num_epochs);
  constexpr size_t kMostNamed = 8;
  std::string text = fmt::format(" > {} reads data more than once:", split_name(split));
  for (size_t i = 0; i < repeated.size() && i < kMostNamed; ++i) {
    text += fmt::format("{} {} in {} epochs", i == 0 ? "" : ",", repeated[i]->name,
                        repeated[i]->num_epochs);
  }
  if (repeated.size() > kMostNamed)
    text += fmt::format(", {} more in fewer", repeated.size() - kMostNamed);
  return text + "\n";
}

// Opens the datasets in the order of the run, which a cyclic one has from its beginning.
void open_datasets(const RunStart& start, const RunInputs& inputs, RunModel& model, RunData& data) {
  const Config& config = start.config;
  start.print("> building train, validation, and test datasets ...\n");
  start.print(dataset_sizes_lines(data.sizes, config.full_validation));
  SampleOrder order = sample_order(config, inputs.blends);
  std::optional<CyclicOptions>& cyclic = model.state.cyclic;
  if (cyclic && cyclic != order.cyclic) {
    start.print(fmt::format(
        " > --dataloader-type cyclic: the order stays that of --micro-batch-size {} and {} "
        "data-parallel ranks, with which the run began\n",
        cyclic->micro_batch_size, cyclic->data_parallel_size));
    order.cyclic = cyclic;
  }
  cyclic = order.cyclic;
  data.datasets = build_training_datasets(order, data.sizes);
  inputs.data_watch.check_untouched();
  if (config.full_validation) {
    data.sizes.valid_samples = 0;
    for (const NamedDataset& group : data.datasets.valid)
      data.sizes.valid_samples = std::max(data.sizes.valid_samples, group.dataset.num_samples());
  }
}

void report_datasets(const RunStart& start, const RunInputs& inputs,
                     const TrainingDatasets& datasets) {
  int64_t num_documents = 0, num_tokens = 0;
  for (const auto& reader : datasets.readers) {
    num_documents += reader->num_documents();
    num_tokens += reader->num_tokens();
  }
  if (!datasets.curriculum_summary.empty())
    start.print(" > curriculum: " + datasets.curriculum_summary + "\n");
  const auto samples = [&](Split split) {
    const BlendedDataset* dataset = datasets.first(split);
    return dataset ? dataset->num_samples() : 0;
  };
  start.print(
      fmt::format(" > {}: {} documents, {} tokens; samples: train {}, validation {}, test {}\n",
                  name_of_datasets(start.config), num_documents, num_tokens, samples(Split::kTrain),
                  samples(Split::kValid), samples(Split::kTest)));
  start.print(datasets_of_training(datasets.reports));
  for (const Split split : {Split::kTrain, Split::kValid, Split::kTest})
    start.print(epochs_line(split, datasets.reports));
  if (inputs.unseen) {
    start.print(fmt::format(
        " > --unsee {}: {} documents, whose tokens have no loss in training (SHA-256 {})\n",
        start.config.unsee, inputs.unseen->num_documents(), inputs.unseen->sha256()));
  }
}

void check_samples_suffice(const BatchSchedule& schedule, const RunInputs& inputs,
                           const RunModel& model, const TrainingDatasets& datasets) {
  const int64_t needed =
      schedule.curriculum().samples_begun(schedule.at_end(model.position()).consumed);
  if (needed <= datasets.train->end()) return;
  check_blend_suffices(Split::kTrain, inputs.blends.of(Split::kTrain),
                       datasets.first(Split::kTrain), needed,
                       "fewer --train-samples or --train-iters");
  throw UsageError(fmt::format(
      "the run resumes at iteration {} with {} consumed samples and would end at sample {}, "
      "but its training set has {}: "
      "was --global-batch-size changed? Give --train-samples, or the old batch size",
      model.iteration(), model.consumed_samples(), needed, datasets.train->num_samples()));
}

DataLoaderOptions loader_options(const Config& config, const RunVocabulary& vocabulary,
                                 const Trainer& trainer, int64_t first_sample) {
  const ParameterTable& parameters = trainer.parameters();
  DataLoaderOptions options{.micro_batch_size = config.micro_batch_size,
                            .dp_rank = trainer.layout().dp_rank,
                            .dp_size = trainer.layout().dp_size,
                            .first_sample = first_sample,
                            .vocab_size = vocabulary.num_tokens,
                            .has_samples = parameters.has_embedding() || parameters.has_head() ||
                                           trainer.shape().needs_document_bounds(),
                            .num_threads = config.num_workers};
  options.end_of_document_id = static_cast<int32_t>(vocabulary.end_of_document);
  options.eod_mask_loss = config.eod_mask_loss;
  if (config.dataloader_inter_document_masking) {
    options.document_ends = DocumentEnds::kDataset;
  } else if (config.restarts_positions() || config.masks_other_documents()) {
    options.document_ends = DocumentEnds::kEndOfDocumentTokens;
  }
  return options;
}

int64_t validation_samples_to_come(const Config& config, const BatchSchedule& schedule,
                                   int64_t iteration, bool makes_up_evaluation) {
  const auto evaluations_until = [&](int64_t step) { return step / config.eval_interval; };
  const int64_t in_training = config.skip_train ? 0
                                                : evaluations_until(schedule.num_iterations()) -
                                                      evaluations_until(iteration);
  const int64_t made_up = makes_up_evaluation ? 1 : 0;
  return (made_up + in_training + 1) * config.eval_iters * config.global_batch();
}

void check_evaluations_suffice(const Config& config, const RunInputs& inputs,
                               int64_t needed_valid_samples, const RunData& data) {
  if (!config.full_validation) {
    check_blend_suffices(
        Split::kValid, inputs.blends.of(Split::kValid), data.datasets.first(Split::kValid),
        needed_valid_samples,
        "a larger share of the data for it, a smaller --eval-iters, a larger --eval-interval, or "
        "--full-validation");
  }
  check_blend_suffices(Split::kTest, inputs.blends.of(Split::kTest),
                       data.datasets.first(Split::kTest), data.sizes.test_samples,
                       "a larger share of the data for it, a smaller --eval-iters");
}

// Returns the first sample of the next validation. A run that resumes with a shorter
// --eval-interval, say, may need more validation samples than are left, and begins again. Those
// that it has built may be fewer than an earlier part of it has consumed, too.
int64_t first_valid_sample(const RunStart& start, const TrainingDatasets& datasets,
                           int64_t consumed, int64_t to_come) {
  if (start.config.full_validation || consumed == 0) return consumed;
  for (const NamedDataset& group : datasets.valid) {
    if (consumed + to_come <= group.dataset.end()) continue;
    start.print(fmt::format(
        "WARNING: validation begins again with sample 0: {} samples were consumed before the checkpoint, "
        "{} more would be needed, and {} has {}. Were --eval-iters, --eval-interval, the batch size or "
        "the length of the run changed?\n",
        consumed, to_come, group.name.empty() ? "the set" : "the group " + group.name,
        group.dataset.num_samples()));
    return 0;
  }
  return consumed;
}

void start_loaders(const RunStart& start, const RunInputs& inputs, const BatchSchedule& schedule,
                   RunDevice& device, RunModel& model, RunData& data) {
  const Config& config = start.config;
  const auto options_from = [&](int64_t first_sample) {
    return loader_options(config, inputs.vocabulary, *model.trainer, first_sample);
  };
  const auto loader_of = [&](const BlendedDataset& dataset, const DataLoaderOptions& options,
                             const DataLoader::BatchSizes& sizes) {
    return std::make_unique<DataLoader>(*device.backend, dataset, options, sizes);
  };
  if (data.datasets.train) {
    check_samples_suffice(schedule, inputs, model, data.datasets);
    DataLoaderOptions options = options_from(model.consumed_samples());
    options.curriculum = schedule.curriculum();
    options.finished_iterations = model.iteration();
    options.consumed_tokens = model.position().consumed.tokens;
    options.unseen = inputs.unseen;
    data.train_loader =
        loader_of(*data.datasets.train, options,
                  {[schedule](int64_t consumed) { return schedule.global_batch_size(consumed); },
                   schedule.largest_global_batch_size()});
  }
  // This is decided first: a set that begins again says no longer which evaluations were made.
  data.makes_up_evaluation =
      !config.skip_train && evaluation_was_cut_short(start, model, data.datasets);
  const int64_t to_come =
      validation_samples_to_come(config, schedule, model.iteration(), data.makes_up_evaluation);
  int64_t& consumed = model.state.consumed_valid_samples;
  consumed = first_valid_sample(start, data.datasets, consumed, to_come);
  check_evaluations_suffice(config, inputs, consumed + to_come, data);
  // Evaluations take whole samples.
  const int64_t batch = config.global_batch();
  const DataLoader::BatchSizes of_evaluation{[batch](int64_t) { return batch; }, batch};
  for (const NamedDataset& group : data.datasets.valid) {
    DataLoaderOptions options = options_from(config.full_validation ? 0 : consumed);
    if (config.full_validation) options.samples_per_pass = group.dataset.num_samples();
    data.valid_loaders.push_back(loader_of(group.dataset, options, of_evaluation));
  }
  // Already here: a rank must not pin memory later, while another one waits for it.
  for (const NamedDataset& group : data.datasets.test)
    data.test_loaders.push_back(loader_of(group.dataset, options_from(0), of_evaluation));
  LoaderPlan taken;
  if (data.train_loader) taken.train_bytes = data.train_loader->slot_bytes();
  for (const auto& loader : data.valid_loaders) taken.valid_bytes += loader->slot_bytes();
  for (const auto& loader : data.test_loaders) taken.test_bytes += loader->slot_bytes();
  start.print(taken.to_string());
}

}  // namespace

std::unique_ptr<RunData> open_data(const RunStart& start, const RunInputs& inputs,
                                   const BatchSchedule& schedule, RunDevice& device,
                                   RunModel& model) {
  auto data = std::make_unique<RunData>();
  data->sizes = target_sizes(start.config, schedule);
  open_datasets(start, inputs, model, *data);
  report_datasets(start, inputs, data->datasets);
  start_loaders(start, inputs, schedule, device, model, *data);
  return data;
}

}  // namespace weft
