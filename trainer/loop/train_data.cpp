// The datasets of a run, and the loaders that make its batches.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <stdexcept>

#include "trainer/log/log_lines.h"
#include "trainer/loop/train_loop.h"

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
  throw std::invalid_argument(fmt::format(
      "{} needs {} samples, and its {} datasets without weights have {} together, each of which comes "
      "once: {}{}; give {}, or weights (WEIGHT PREFIX WEIGHT PREFIX ...), with which datasets are repeated",
      split_name(split), needed, blend.prefixes.size(), dataset->end(), of_each,
      blend.prefixes.size() > kMostNamed ? ", ..." : "", advice));
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

}  // namespace

void TrainLoop::open_data() {
  print("> building train, validation, and test datasets ...\n");
  print(dataset_sizes_lines(sizes_, config_.full_validation));
  SampleOrder order = sample_order(config_, blends_);
  if (cyclic_ && cyclic_ != order.cyclic) {
    print(fmt::format(
        " > --dataloader-type cyclic: the order stays that of --micro-batch-size {} and {} "
        "data-parallel ranks, with which the run began\n",
        cyclic_->micro_batch_size, cyclic_->data_parallel_size));
    order.cyclic = cyclic_;
  }
  cyclic_ = order.cyclic;
  datasets_ = build_training_datasets(order, sizes_);
  data_watch_.check_untouched();
  if (config_.full_validation) {
    sizes_.valid_samples = 0;
    for (const NamedDataset& group : datasets_.valid)
      sizes_.valid_samples = std::max(sizes_.valid_samples, group.dataset.num_samples());
  }
  int64_t num_documents = 0, num_tokens = 0;
  for (const auto& reader : datasets_.readers) {
    num_documents += reader->num_documents();
    num_tokens += reader->num_tokens();
  }
  if (!datasets_.curriculum_summary.empty())
    print(" > curriculum: " + datasets_.curriculum_summary + "\n");
  const auto samples = [&](Split split) {
    const BlendedDataset* dataset = datasets_.first(split);
    return dataset ? dataset->num_samples() : 0;
  };
  print(fmt::format(" > {}: {} documents, {} tokens; samples: train {}, validation {}, test {}\n",
                    name_of_datasets(config_), num_documents, num_tokens, samples(Split::kTrain),
                    samples(Split::kValid), samples(Split::kTest)));
  for (const Split split : {Split::kTrain, Split::kValid, Split::kTest})
    print(epochs_line(split, datasets_.reports));
  if (unseen_) {
    print(fmt::format(
        " > --unsee {}: {} documents, whose tokens have no loss in training (SHA-256 {})\n",
        config_.unsee, unseen_->num_documents(), unseen_->sha256()));
  }
}

void TrainLoop::check_samples_suffice() const {
  const int64_t needed =
      schedule_.curriculum().samples_begun(schedule_.at_end(position()).consumed);
  if (needed <= datasets_.train->end()) return;
  check_blend_suffices(Split::kTrain, blends_.of(Split::kTrain), datasets_.first(Split::kTrain),
                       needed, "fewer --train-samples or --train-iters");
  throw std::invalid_argument(fmt::format(
      "the run resumes at iteration {} with {} consumed samples and would end at sample {}, "
      "but its training set has {}: "
      "was --global-batch-size changed? Give --train-samples, or the old batch size",
      iteration(), consumed_samples(), needed, datasets_.train->num_samples()));
}

DataLoaderOptions TrainLoop::loader_options(int64_t first_sample) const {
  const ParameterTable& parameters = trainer_->parameters();
  DataLoaderOptions options{.micro_batch_size = config_.micro_batch_size,
                            .dp_rank = groups_.layout.dp_rank,
                            .dp_size = groups_.layout.dp_size,
                            .first_sample = first_sample,
                            .vocab_size = vocabulary_.num_tokens,
                            .has_samples = parameters.has_embedding() || parameters.has_head() ||
                                           trainer_->shape().needs_document_bounds(),
                            .num_threads = config_.num_workers};
  options.end_of_document_id = static_cast<int32_t>(vocabulary_.end_of_document);
  options.eod_mask_loss = config_.eod_mask_loss;
  if (config_.dataloader_inter_document_masking) {
    options.document_ends = DocumentEnds::kDataset;
  } else if (config_.restarts_positions() || config_.masks_other_documents()) {
    options.document_ends = DocumentEnds::kEndOfDocumentTokens;
  }
  return options;
}

int64_t TrainLoop::validation_samples_to_come() const {
  const auto evaluations_until = [&](int64_t step) { return step / config_.eval_interval; };
  const int64_t in_training = config_.skip_train ? 0
                                                 : evaluations_until(schedule_.num_iterations()) -
                                                       evaluations_until(iteration());
  const int64_t made_up = makes_up_evaluation_ ? 1 : 0;
  return (made_up + in_training + 1) * config_.eval_iters * config_.global_batch();
}

void TrainLoop::check_evaluations_suffice() const {
  if (!config_.full_validation) {
    check_blend_suffices(
        Split::kValid, blends_.of(Split::kValid), datasets_.first(Split::kValid),
        consumed_valid_samples_ + validation_samples_to_come(),
        "a larger share of the data for it, a smaller --eval-iters, a larger --eval-interval, or "
        "--full-validation");
  }
  check_blend_suffices(Split::kTest, blends_.of(Split::kTest), datasets_.first(Split::kTest),
                       sizes_.test_samples,
                       "a larger share of the data for it, a smaller --eval-iters");
}

// A run that resumes with a shorter --eval-interval, say, may need more validation samples than are
// left. Those that it has built may be fewer than an earlier part of it has consumed, too.
void TrainLoop::begin_validation_again_if_needed() {
  if (config_.full_validation || consumed_valid_samples_ == 0) return;
  const int64_t left = validation_samples_to_come();
  for (const NamedDataset& group : datasets_.valid) {
    if (consumed_valid_samples_ + left <= group.dataset.end()) continue;
    print(fmt::format(
        "WARNING: validation begins again with sample 0: {} samples were consumed before the checkpoint, "
        "{} more would be needed, and {} has {}. Were --eval-iters, --eval-interval, the batch size or "
        "the length of the run changed?\n",
        consumed_valid_samples_, left, group.name.empty() ? "the set" : "the group " + group.name,
        group.dataset.num_samples()));
    consumed_valid_samples_ = 0;
    return;
  }
}

void TrainLoop::start_loaders() {
  const int64_t batch = config_.global_batch();
  const DataLoader::BatchSizes of_evaluation{[batch](int64_t) { return batch; }, batch};
  if (datasets_.train) {
    check_samples_suffice();
    DataLoaderOptions options = loader_options(consumed_samples());
    options.curriculum = schedule_.curriculum();
    options.finished_iterations = iteration();
    options.consumed_tokens = position().consumed.tokens;
    options.unseen = unseen_;
    train_loader_ = std::make_unique<DataLoader>(
        *backend_, *datasets_.train, options,
        DataLoader::BatchSizes{
            [this](int64_t consumed) { return schedule_.global_batch_size(consumed); },
            schedule_.largest_global_batch_size()});
  }
  // This is decided first: a set that begins again says no longer which evaluations were made.
  makes_up_evaluation_ = !config_.skip_train && evaluation_was_cut_short();
  begin_validation_again_if_needed();
  check_evaluations_suffice();
  // Evaluations take whole samples.
  for (const NamedDataset& group : datasets_.valid) {
    DataLoaderOptions options = loader_options(consumed_valid_samples_);
    if (config_.full_validation) {
      options.first_sample = 0;
      options.samples_per_pass = group.dataset.num_samples();
    }
    valid_loaders_.push_back(
        std::make_unique<DataLoader>(*backend_, group.dataset, options, of_evaluation));
  }
  // Already here: a rank must not pin memory later, while another one waits for it.
  for (const NamedDataset& group : datasets_.test) {
    test_loaders_.push_back(
        std::make_unique<DataLoader>(*backend_, group.dataset, loader_options(0), of_evaluation));
  }
  LoaderPlan taken;
  if (train_loader_) taken.train_bytes = train_loader_->slot_bytes();
  for (const auto& loader : valid_loaders_) taken.valid_bytes += loader->slot_bytes();
  for (const auto& loader : test_loaders_) taken.test_bytes += loader->slot_bytes();
  print(taken.to_string());
}

}  // namespace weft
