// The arguments of a run that decide which samples an iteration or evaluation takes, in Megatron's
// words. Each stands in one list of fields: options are declared from it, manifests read, runs
// compared, and changes named.
//
// A member that is in no list does not compile (check_sample_fields below).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "indexed_dataset/order/batches/difficulty_schedule.h"
#include "indexed_dataset/order/blends/blend_sizes.h"
#include "indexed_dataset/order/blends/data_paths.h"
#include "indexed_dataset/order/samples/order_kind.h"

namespace weft {

struct SampleArguments {
  DataPaths paths;
  std::string split = "969, 30, 1";  // Megatron's default, with its spaces: names of caches tell it
  OrderKind sample_order = OrderKind::kCore;
  int64_t seq_length = 0;
  int64_t seed = 1234;
  double mid_level_dataset_surplus = kDefaultSurplus;
  std::string dataloader_type = "single";  // or cyclic
  bool no_data_sharding = false;           // of cyclic
  std::optional<int64_t> train_iters, train_samples;
  int64_t eval_iters = 100, eval_interval = 1000;
  // Each validation set has all of its samples once, in order: one epoch of each dataset, and of
  // several without weights an exhaustive blend.
  bool full_validation = false;
  std::optional<int64_t> global_batch_size;
  std::vector<int64_t> rampup_batch_size;  // start, increment, samples; or empty
  std::string step_batch_size_schedule;    // "TOKENS:SIZE ...", or empty
  int64_t micro_batch_size = 0;            // 0: not told
  CurriculumOptions curriculum;            // of sequence lengths
  // Samples by difficulty: DeepSpeed's JSON object of metrics. On the command line it may be a
  // file.
  std::string curriculum_metrics;
  int64_t curriculum_metrics_seed = 1234;
  std::string unsee;  // a file of documents without loss (run_record/unseen_documents.h)
};

// What another value of an argument changes.
enum class Moves {
  kSamples,      // sample i of each split
  kEvaluations,  // sample i of validation and test; those of training stay
  kIterations,   // the samples stay: iterations take other numbers of them, or other parts
  kNothing,      // the samples stay, and who takes them: some of their tokens have no loss
};

// Where runs are compared, this says by which value.
enum class ComparedBy {
  kItself,
  kBlends,  // the datasets and shares that it names: files may say the same in other words
  kCyclic,  // the cyclic order, which keeps the sizes that it began with
  kDraws,   // the curriculum by difficulty
  kCount,   // the number of samples that the run asks for
};

template <typename Owner, typename T>
struct SampleField {
  const char* flag;  // of the command line, without dashes
  T Owner::*member;
  Moves moves;
  ComparedBy compared_by;
  const char* help;

  // The name in manifests: snake_case.
  std::string name() const {
    std::string name(flag);
    for (char& c : name) c = c == '-' ? '_' : c;
    return name;
  }
};
template <typename Owner, typename T>
SampleField(const char*, T Owner::*, Moves, ComparedBy, const char*) -> SampleField<Owner, T>;

inline constexpr std::tuple kDataPathFields = {
    SampleField{
        "data-path", &DataPaths::data_path, Moves::kSamples, ComparedBy::kBlends,
        "dataset: PREFIX of PREFIX.bin and PREFIX.idx; or a blend: WEIGHT PREFIX WEIGHT PREFIX ..., or "
        "PREFIX PREFIX ... in proportion to their sizes"},
    SampleField{"data-args-path", &DataPaths::data_args_path, Moves::kSamples, ComparedBy::kBlends,
                "a file with the values of --data-path"},
    SampleField{"train-data-path", &DataPaths::train_data_path, Moves::kSamples,
                ComparedBy::kBlends, "dataset or blend of training alone; no --split then"},
    SampleField{"valid-data-path", &DataPaths::valid_data_path, Moves::kEvaluations,
                ComparedBy::kBlends, "dataset or blend of validation alone"},
    SampleField{"test-data-path", &DataPaths::test_data_path, Moves::kEvaluations,
                ComparedBy::kBlends, "dataset or blend of the test alone"},
    SampleField{
        "per-split-data-args-path", &DataPaths::per_split_data_args_path, Moves::kSamples,
        ComparedBy::kBlends,
        "JSON file with the values of the three: {\"train\": [...], \"valid\": [...], \"test\": [...]}"},
    SampleField{"train-weighted-split-paths", &DataPaths::train_weighted_split_paths,
                Moves::kSamples, ComparedBy::kBlends,
                "\"NAME: WEIGHT BEGIN:END PREFIX, ...\", as in bigscience's Megatron-DeepSpeed"},
    SampleField{"valid-weighted-split-paths", &DataPaths::valid_weighted_split_paths,
                Moves::kEvaluations, ComparedBy::kBlends,
                "the same for validation; each of several is evaluated by itself"},
    SampleField{"test-weighted-split-paths", &DataPaths::test_weighted_split_paths,
                Moves::kEvaluations, ComparedBy::kBlends, "the same for the test"},
    SampleField{"train-weighted-split-paths-path", &DataPaths::train_weighted_split_paths_path,
                Moves::kSamples, ComparedBy::kBlends,
                "a file with the values of --train-weighted-split-paths, each in double quotes"},
    SampleField{"valid-weighted-split-paths-path", &DataPaths::valid_weighted_split_paths_path,
                Moves::kEvaluations, ComparedBy::kBlends, "the same for validation"},
    SampleField{"test-weighted-split-paths-path", &DataPaths::test_weighted_split_paths_path,
                Moves::kEvaluations, ComparedBy::kBlends, "the same for the test"},
    SampleField{"blend-schedule", &DataPaths::blend_schedule, Moves::kSamples, ComparedBy::kBlends,
                "JSON file: from which sample or token on training has another blend"},
};

inline constexpr std::tuple kCurriculumFields = {
    SampleField{
        "curriculum-schedule-type", &CurriculumOptions::schedule_type, Moves::kIterations,
        ComparedBy::kItself,
        "how sequences grow: fixed_linear, fixed_root or fixed_discrete (default: they do not)"},
    SampleField{
        "curriculum-mode", &CurriculumOptions::mode, Moves::kIterations, ComparedBy::kItself,
        "truncate: train the first tokens of each sample, as DeepSpeed does; reshape: train all of them, "
        "in rows of the present length"},
    SampleField{"curriculum-min-difficulty", &CurriculumOptions::min_difficulty, Moves::kIterations,
                ComparedBy::kItself, "tokens of the first sequences"},
    SampleField{"curriculum-max-difficulty", &CurriculumOptions::max_difficulty, Moves::kIterations,
                ComparedBy::kItself, "tokens of the last ones (default: seq-length)"},
    SampleField{"curriculum-total-step", &CurriculumOptions::total_step, Moves::kIterations,
                ComparedBy::kItself, "steps until the last length (total_curriculum_step)"},
    SampleField{"curriculum-difficulty-step", &CurriculumOptions::difficulty_step,
                Moves::kIterations, ComparedBy::kItself,
                "lengths are multiples of this, but for the last one"},
    SampleField{"curriculum-root-degree", &CurriculumOptions::root_degree, Moves::kIterations,
                ComparedBy::kItself, "of fixed_root: lengths grow with this root of the steps"},
    SampleField{"curriculum-difficulty", &CurriculumOptions::difficulty, Moves::kIterations,
                ComparedBy::kItself, "of fixed_discrete: the lengths, in order"},
    SampleField{"curriculum-max-step", &CurriculumOptions::max_step, Moves::kIterations,
                ComparedBy::kItself,
                "of fixed_discrete: the last step of each length but the last"},
};

inline constexpr std::tuple kSampleFields = {
    SampleField{"split", &SampleArguments::split, Moves::kSamples, ComparedBy::kBlends,
                "shares of train, validation and test"},
    SampleField{
        "sample-order", &SampleArguments::sample_order, Moves::kSamples, ComparedBy::kItself,
        "the program whose order is built: core, core-0.10, legacy, bigscience, neox; or sequential"},
    SampleField{"seq-length", &SampleArguments::seq_length, Moves::kSamples, ComparedBy::kItself,
                "tokens per sample"},
    SampleField{"seed", &SampleArguments::seed, Moves::kSamples, ComparedBy::kItself,
                "of weights, dropout and data order"},
    SampleField{"mid-level-dataset-surplus", &SampleArguments::mid_level_dataset_surplus,
                Moves::kSamples, ComparedBy::kItself,
                "share of samples that are built of each dataset of a blend beyond its weight"},
    SampleField{"dataloader-type", &SampleArguments::dataloader_type, Moves::kSamples,
                ComparedBy::kCyclic,
                "single: samples in order; cyclic: again and again, shuffled each epoch"},
    SampleField{"no-data-sharding", &SampleArguments::no_data_sharding, Moves::kSamples,
                ComparedBy::kCyclic,
                "cyclic: ranks take turns in one permutation, instead of a range of samples each"},
    SampleField{"train-samples", &SampleArguments::train_samples, Moves::kSamples,
                ComparedBy::kCount, "samples to train; this or --train-iters"},
    SampleField{"train-iters", &SampleArguments::train_iters, Moves::kSamples, ComparedBy::kCount,
                "steps to train; this or --train-samples"},
    SampleField{"eval-iters", &SampleArguments::eval_iters, Moves::kEvaluations, ComparedBy::kCount,
                "global batches per validation and test; 0: none"},
    SampleField{"eval-interval", &SampleArguments::eval_interval, Moves::kEvaluations,
                ComparedBy::kCount, "steps between validations"},
    SampleField{
        "full-validation", &SampleArguments::full_validation, Moves::kEvaluations,
        ComparedBy::kItself,
        "each validation takes every sample of its set once; --eval-iters is then for the test"},
    SampleField{"global-batch-size", &SampleArguments::global_batch_size, Moves::kIterations,
                ComparedBy::kItself,
                "samples per step (default: micro-batch-size times data-parallel ranks)"},
    SampleField{"rampup-batch-size", &SampleArguments::rampup_batch_size, Moves::kIterations,
                ComparedBy::kItself,
                "START INCREMENT SAMPLES: grow the batch over that many samples"},
    SampleField{
        "step-batch-size-schedule", &SampleArguments::step_batch_size_schedule, Moves::kIterations,
        ComparedBy::kItself,
        "\"TOKENS:SIZE TOKENS:SIZE ...\": the batch has that size from that token on; K, M, B, T are 10^3 "
        "to 10^12"},
    SampleField{"micro-batch-size", &SampleArguments::micro_batch_size, Moves::kSamples,
                ComparedBy::kCyclic, "samples per forward pass of one rank"},
    SampleField{
        "curriculum-metrics", &SampleArguments::curriculum_metrics, Moves::kSamples,
        ComparedBy::kDraws,
        "JSON file (or its text) with DeepSpeed's curriculum_metrics: draw samples by metrics of weft-data "
        "analyze"},
    SampleField{"curriculum-metrics-seed", &SampleArguments::curriculum_metrics_seed,
                Moves::kSamples, ComparedBy::kDraws, "of the draws, as data_efficiency.seed"},
    SampleField{
        "unsee", &SampleArguments::unsee, Moves::kNothing, ComparedBy::kItself,
        "file of documents whose tokens have no loss in training: lines PREFIX NUMBER or FILE:OFFSET, or "
        "the JSON lines of weft-data inspect"},
};

// Calls use(field, value...) for each field of one list; `values` are structs that have them.
template <typename Fields, typename Use, typename... Values>
void visit_fields(const Fields& fields, const Use& use, Values&... values) {
  const auto visit = [&](const auto& field) { use(field, values.*(field.member)...); };
  std::apply([&](const auto&... field) { (visit(field), ...); }, fields);
}

// Calls use(field, value...) for every field, of one run's arguments or of several runs'. They may
// be const.
template <typename Use, typename... Arguments>
void visit_sample_fields(const Use& use, Arguments&... arguments) {
  visit_fields(kDataPathFields, use, arguments.paths...);
  visit_fields(kSampleFields, use, arguments...);
  visit_fields(kCurriculumFields, use, arguments.curriculum...);
}

// Calls use(field) with the field of this member.
template <typename Owner, typename T, typename Use>
void with_field(T Owner::*member, const Use& use) {
  const auto use_if_same = [&](const auto& field) {
    if constexpr (std::is_same_v<decltype(field.member), T Owner::*>) {
      if (field.member == member) use(field);
    }
  };
  std::apply([&](const auto&... field) { (use_if_same(field), ...); }, kSampleFields);
}

// A new member has no name here until it is added, and then the list is one short.
inline void check_sample_fields(SampleArguments& sample, DataPaths& data, CurriculumOptions& rows) {
  const auto& [a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19,
               a20, a21] = sample;
  const auto& [p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11, p12, p13] = data;
  const auto& [c1, c2, c3, c4, c5, c6, c7, c8, c9] = rows;
  // Two members of the first are lists of their own.
  static_assert(
      std::tuple_size_v<decltype(std::tie(a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13,
                                          a14, a15, a16, a17, a18, a19, a20, a21))> ==
      std::tuple_size_v<decltype(kSampleFields)> + 2);
  static_assert(std::tuple_size_v<decltype(std::tie(p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11,
                                                    p12, p13))> ==
                std::tuple_size_v<decltype(kDataPathFields)>);
  static_assert(std::tuple_size_v<decltype(std::tie(c1, c2, c3, c4, c5, c6, c7, c8, c9))> ==
                std::tuple_size_v<decltype(kCurriculumFields)>);
}

}  // namespace weft
