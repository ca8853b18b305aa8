// Arguments of runs that Weft did not train.
#include "preprocess/inspect/foreign_runs/megatron_arguments.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/run_record/manifest_order.h"
#include "tests/indexed_dataset/test_files.h"

namespace weft {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Returns the words with which arguments are refused; "" if they are not.
template <typename Use>
std::string refusal_of(const Use& use) {
  try {
    use();
    return "";
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
}
std::string refusal_of(const std::string& text, std::optional<int64_t> data_parallel_size = {}) {
  return refusal_of([&] { parse_megatron_arguments(text, data_parallel_size); });
}

const std::string kBanner =
    "using world size: 8, data-parallel-size: 4\n"
    "------------------------ arguments ------------------------\n"
    "  accumulate_allreduce_grads_in_fp32 .............. False\n"
    "  curriculum_learning ............................. False\n"
    "  data_parallel_size .............................. 4\n"
    "  data_path ....................................... ['0.4', '/data/a b', '0.6', '/data/c']\n"
    "  dataloader_type ................................. single\n"
    "  eval_interval ................................... 150\n"
    "  eval_iters ...................................... 5\n"
    "  global_batch_size ............................... 2048\n"
    "  micro_batch_size ................................ 2\n"
    "  phase_transition_iterations ..................... None\n"
    "  rampup_batch_size ............................... ['16', '16', '6_000_000']\n"
    "  seed ............................................ 43\n"
    "  seq_length ...................................... 2048\n"
    "  split ........................................... 949,50,1\n"
    "  train_iters ..................................... None\n"
    "  train_samples ................................... 300000000\n"
    "-------------------- end of arguments ---------------------\n"
    "setting number of micro-batches to constant 288\n";

void expect_those_of_tr8(const SampleOrder& order) {
  EXPECT_EQ(order.seed, 43);
  EXPECT_EQ(order.seq_length, 2048);
  EXPECT_EQ(order.split, "949,50,1");
  EXPECT_EQ(order.train_samples, 300'000'000);
  EXPECT_EQ(order.train_iters, std::nullopt);
  EXPECT_EQ(order.global_batch_size, 2048);
  EXPECT_EQ(order.micro_batch_size, 2);
  EXPECT_EQ(order.data_parallel_size, 4);
  EXPECT_EQ(order.eval_iters, 5);
  EXPECT_EQ(order.eval_interval, 150);
  EXPECT_THAT(order.rampup_batch_size, ElementsAre(16, 16, 6'000'000));
  const Blend& blend = order.blends.of(Split::kTrain).at(0);
  EXPECT_THAT(blend.prefixes, ElementsAre("/data/a b", "/data/c"));
  EXPECT_THAT(blend.weights, ElementsAre(0.4, 0.6));
}

TEST(MegatronArguments, OfABannerAreReadBehindAnyPrefix) {
  expect_those_of_tr8(sample_order_from(parse_megatron_arguments(kBanner)));
  std::string with_prefix = "  3: ";
  for (const char c : kBanner)
    with_prefix += c == '\n' ? std::string("\n  3: ") : std::string(1, c);
  expect_those_of_tr8(sample_order_from(parse_megatron_arguments(with_prefix)));
}

TEST(MegatronArguments, OfACommandLineAreDividedAsAShellDoes) {
  const std::string words =
      "python -u pretrain_gpt.py --seed 43 --seq-length 2048 \\\n  --split '949,50,1' # weights\n"
      "  --train-samples=300_000_000 --global-batch-size 2048 --micro-batch-size 2 \\\r\n"
      "  --rampup-batch-size 16 16 6_000_000 --data-path 0.4 \"/data/a b\" 0.6 /data/c\n"
      "  --eval-iters 5 --eval-interval 150 --bf16\n";
  expect_those_of_tr8(sample_order_from(parse_megatron_arguments(words, 4)));
}

TEST(MegatronArguments, OfTheLastBannerOfALogCount) {
  std::string again = kBanner;
  again.replace(again.find("43\n"), 2, "44");
  EXPECT_EQ(sample_order_from(parse_megatron_arguments(kBanner + again)).seed, 44);
}

TEST(MegatronArguments, HaveMegatronsDefaults) {
  const SampleOrder order = sample_order_from(parse_megatron_arguments(
      "--seq-length 8 --train-iters 3 --micro-batch-size 2 --data-path a", 3));
  EXPECT_EQ(order.seed, 1234);
  EXPECT_EQ(order.split, "969, 30, 1");
  EXPECT_EQ(order.global_batch_size, 6);
  EXPECT_EQ(order.eval_iters, 100);
  EXPECT_EQ(order.eval_interval, 1000);
}

TEST(MegatronArguments, ThatSkipNothingAndNameNoFileOfDeepSpeedAreTaken) {
  std::string banner = kBanner;
  banner.insert(banner.find("  eval_interval"),
                "  deepspeed_config ................................ None\n"
                "  iterations_to_skip .............................. []\n");
  expect_those_of_tr8(sample_order_from(parse_megatron_arguments(banner)));
}

// The program prints the parts of a group one by one (Megatron-DeepSpeed of bigscience,
// megatron/arguments.py).
TEST(MegatronArguments, OfWeightedSplitsAreThoseOfTheCommandLine) {
  const std::string sizes =
      "  global_batch_size ............................... 2048\n"
      "  seq_length ...................................... 2048\n"
      "  split ........................................... None\n"
      "  train_samples ................................... 220000000\n";
  const std::string banner =
      "------------------------ arguments ------------------------\n"
      "  data_path ....................................... None\n" +
      sizes +
      "  test_weighted_split_names ....................... None\n"
      "  train_weighted_split_names ...................... ['train']\n"
      "  train_weighted_split_paths ...................... [['/data/ar', '/data/e,[n]']]\n"
      "  train_weighted_split_paths_path ................. None\n"
      "  train_weighted_split_splits ..................... [['0:0.949', '0.1:1']]\n"
      "  train_weighted_split_weights .................... [['0.25', '0.75']]\n"
      "  valid_weighted_split_names ...................... ['all', 'en']\n"
      "  valid_weighted_split_paths ...................... [['/data/ar', '/data/en'], ['/data/en']]\n"
      "  valid_weighted_split_splits ..................... [['0.95:1', '0.95:1'], ['0.95:1']]\n"
      "  valid_weighted_split_weights .................... [['0.5', '0.5'], ['1']]\n"
      "-------------------- end of arguments ---------------------\n";
  const auto manifest = parse_megatron_arguments(banner);
  const nlohmann::ordered_json& told = manifest["arguments"];
  EXPECT_EQ(told["train_weighted_split_paths"],
            (nlohmann::ordered_json{"train: 0.25 0:0.949 /data/ar, 0.75 0.1:1 /data/e,[n]"}));
  EXPECT_EQ(told["valid_weighted_split_paths"],
            (nlohmann::ordered_json{"all: 0.5 0.95:1 /data/ar, 0.5 0.95:1 /data/en",
                                    "en: 1 0.95:1 /data/en"}));
  EXPECT_FALSE(told.contains("test_weighted_split_paths"));
  std::string plain = banner;
  plain.replace(plain.find("e,[n]"), 5, "en");
  const SplitBlends blends = sample_order_from(parse_megatron_arguments(plain)).blends;
  EXPECT_THAT(blends.of(Split::kTrain).at(0).prefixes, ElementsAre("/data/ar", "/data/en"));
  EXPECT_THAT(blends.of(Split::kTrain).at(0).weights, ElementsAre(0.25, 0.75));
  EXPECT_EQ(blends.of(Split::kValid).at(1).name, "en");
  std::string cut = banner;
  cut.replace(cut.find("[['0.25', '0.75']]"), 18, "[['0.25']]");
  EXPECT_THROW(parse_megatron_arguments(cut), std::invalid_argument);

  TemporaryFolder folder;
  const std::string file = (folder / "valid").string();
  write_file_atomically(file,
                        "\"all: 0.5 0.95:1 /data/ar, 0.5 0.95:1 /data/en\" \"en: 1 0.95:1 "
                        "/data/en\"\n");
  const auto of_words = parse_megatron_arguments(
      "--seq-length 2048 --global-batch-size 2048 --train-samples 220000000 "
      "--train-weighted-split-paths 'train: 0.25 0:0.949 /data/ar, 0.75 0.1:1 /data/e,[n]' "
      "--valid-weighted-split-paths-path " +
      file);
  EXPECT_EQ(of_words["arguments"]["train_weighted_split_paths"],
            told["train_weighted_split_paths"]);
  EXPECT_EQ(of_words["arguments"]["valid_weighted_split_paths_path"], file);
  auto plain_words = of_words;
  plain_words["arguments"]["train_weighted_split_paths"] = {"train: 1 0:0.949 /data/ar"};
  EXPECT_EQ(sample_order_from(plain_words).blends.of(Split::kValid), blends.of(Split::kValid));
}

// Megatron-DeepSpeed, megatron/arguments.py; Megatron-LM, megatron/training.
TEST(MegatronArguments, ThatChangeNoSampleAreTaken) {
  const std::string good =
      "--seq-length 8 --train-iters 3 --global-batch-size 2 --data-path /in/a ";
  const auto plain = parse_megatron_arguments(good);
  for (const std::string harmless :
       {"--repeated-dataloader", "--return-data-index", "--sample-rate 1.0", "--mmap-warmup",
        "--num-workers 4", "--data-impl mmap", "--no-mmap-bin-files",
        "--allow-ambiguous-pad-tokens", "--skip-train"})
    EXPECT_EQ(parse_megatron_arguments(good + harmless), plain) << harmless;
}

TEST(MegatronArguments, ThatChangeSamplesInAnUnknownWayAreRefusedByName) {
  const std::string good = "--seq-length 8 --train-iters 3 --global-batch-size 2 --data-path a ";
  const std::string names[] = {"data-efficiency-curriculum-learning",
                               "decrease-batch-size-if-needed",
                               "phase-transition-iterations",
                               "skip-train-iteration-range",
                               "iterations-to-skip",
                               "hybrid-context-parallel",
                               "packing-impl",
                               "renormalize-blend-weights",
                               "train-data-exact-num-epochs",
                               "train-idx-path",
                               "train-desc-path",
                               "train-doc-idx-path",
                               "train-sample-idx-path",
                               "train-shuffle-idx-path",
                               "sequence-packing-scheduler",
                               "use-varlen-dataset",
                               "perform-rl-step",
                               "logits-load-inputs",
                               "retro-add-retriever",
                               "mock-data",
                               "fim-data",
                               "sft"};
  for (const std::string& name : names) {
    std::string underscored = name;
    std::replace(underscored.begin(), underscored.end(), '-', '_');
    const std::string banner =
        "--- arguments ---\n  seq_length ... 8\n  train_iters ... 3\n  global_batch_size ... 2\n"
        "  data_path ... a\n  " +
        underscored + " ... 2\n--- end of arguments ---\n";
    for (const std::string& text : {good + "--" + name + " 2", banner})
      EXPECT_THAT(refusal_of(text), HasSubstr("with " + underscored + " 2")) << text;
  }
}

// The program puts the folder before the words of its command line, and prints them so.
TEST(MegatronArguments, HaveTheFolderOfDownloadsBeforeTheirPaths) {
  const auto of_words = parse_megatron_arguments(
      "--seq-length 8 --train-iters 3 --global-batch-size 2 --data-path a b/c "
      "--aml-data-download-path /in");
  EXPECT_EQ(of_words["arguments"]["data_path"], (nlohmann::ordered_json{"/in/a", "/in/b/c"}));
  const auto banner = [](const std::string& path) {
    return "--- arguments ---\n  seq_length ... 8\n  train_iters ... 3\n  global_batch_size ... 2\n"
           "  aml_data_download_path ... /in\n  data_path ... ['" +
           path + "']\n--- end of arguments ---\n";
  };
  EXPECT_EQ(parse_megatron_arguments(banner("/in/a"))["arguments"]["data_path"],
            (nlohmann::ordered_json{"/in/a"}));
  EXPECT_THAT(refusal_of(banner("a")), HasSubstr("looks for data_path in that folder"));
}

TEST(MegatronArguments, MustNotNameGroupsTwice) {
  const auto manifest = parse_megatron_arguments(
      "--seq-length 8 --train-iters 3 --global-batch-size 2 "
      "--train-weighted-split-paths 'T: 1 0:1 a' --train-weighted-split-paths-path groups.txt");
  EXPECT_THAT(refusal_of([&] { sample_order_from(manifest); }),
              HasSubstr("--train-weighted-split-paths already names the groups"));
}

TEST(MegatronArguments, WithWhichEvaluationsAreNotKnownSaySo) {
  const std::string good =
      "--seq-length 8 --train-iters 3 --global-batch-size 2 --micro-batch-size 1 --data-path a ";
  EXPECT_FALSE(parse_megatron_arguments(good).contains("unknown_evaluations"));
  // Sizes that Megatron has filled in itself.
  EXPECT_FALSE(
      parse_megatron_arguments(good + "--eval-global-batch-size 2 --eval-micro-batch-size 1")
          .contains("unknown_evaluations"));
  for (const auto& [words, told] : {std::pair{"--full-validation", "full_validation True"},
                                    {"--multiple-validation-sets", "multiple_validation_sets True"},
                                    {"--start-eval-at-iter 2", "start_eval_at_iter 2"},
                                    {"--eval-global-batch-size 4", "eval_global_batch_size 4"},
                                    {"--eval-micro-batch-size 2", "eval_micro_batch_size 2"}})
    EXPECT_EQ(parse_megatron_arguments(good + words).value("unknown_evaluations", ""), told);
}

TEST(MegatronArguments, FollowTheFileOfDeepSpeed) {
  TemporaryFolder folder;
  const std::string file = (folder / "ds.json").string();
  const auto order_with = [&](const std::string& json, const std::string& more = "") {
    write_file_atomically(file, json);
    return sample_order_from(
        parse_megatron_arguments("--seq-length 2048 --train-iters 3 --global-batch-size 2 "
                                 "--data-path a --deepspeed --deepspeed_config " +
                                 file + more));
  };
  EXPECT_EQ(order_with(R"({"train_batch_size": 2})").curriculum.schedule_type, "");
  EXPECT_EQ(order_with(R"({"curriculum_learning": {"enabled": false, "min_difficulty": 8}})")
                .curriculum.schedule_type,
            "");
  const std::string grows =
      R"({"curriculum_learning": {"enabled": true, "curriculum_type": "seqlen", "min_difficulty": 64,
          "max_difficulty": 1024, "schedule_type": "fixed_root",
          "schedule_config": {"total_curriculum_step": 36000, "difficulty_step": 8, "root_degree": 2}}})";
  const CurriculumOptions linear = order_with(grows, " --curriculum-learning-legacy").curriculum;
  EXPECT_EQ(linear.schedule_type, "fixed_root");
  EXPECT_EQ(linear.mode, "truncate");
  EXPECT_EQ(linear.min_difficulty, 64);
  EXPECT_EQ(linear.max_difficulty, 1024);
  EXPECT_EQ(linear.total_step, 36000);
  EXPECT_EQ(linear.difficulty_step, 8);
  EXPECT_EQ(linear.root_degree, 2);
  const CurriculumOptions discrete =
      order_with(
          R"({"curriculum_learning": {"enabled": true, "schedule_type": "fixed_discrete",
              "schedule_config": {"difficulty": [64, 128], "max_step": [5]}}})")
          .curriculum;
  EXPECT_THAT(discrete.difficulty, ElementsAre(64, 128));
  EXPECT_THAT(discrete.max_step, ElementsAre(5));
  const std::tuple<const char*, const char*, const char*> refused[] = {
      {R"({"data_efficiency": {"enabled": true, "data_sampling": {"enabled": true}}})", "",
       "DeepSpeed's own sampler draws samples by their difficulty"},
      {R"({"curriculum_learning": {"enabled": true, "curriculum_type": "other"}})", "",
       "a curriculum other than seqlen"},
      {R"({"curriculum_learning": {"enabled": true}})", "", "not the file of a curriculum"},
      {"{", "", "not the file of a curriculum"},
      {R"({"train_batch_size": 2})", " --curriculum-learning",
       "but no deepspeed_config tells which one"},
  };
  for (const auto& [json, more, message] : refused)
    EXPECT_THAT(refusal_of([&order_with, &json = json, &more = more] { order_with(json, more); }),
                HasSubstr(message))
        << json;
}

TEST(MegatronArguments, AndTheOptionMustNotContradictEachOther) {
  expect_those_of_tr8(sample_order_from(parse_megatron_arguments(kBanner, 4)));
  EXPECT_THAT(refusal_of(kBanner, 8),
              HasSubstr("data_parallel_size 4, and --data-parallel-size is 8"));
}

TEST(MegatronArguments, ThatLeaveTheSamplesUnknownAreRefused) {
  const std::string good = "--seq-length 8 --train-iters 3 --global-batch-size 2 --data-path a ";
  parse_megatron_arguments(good);
  const std::pair<std::string, const char*> refused[] = {
      {"", "neither a banner"},
      {"no flags", "neither a banner"},
      {"--- arguments ---\n seed ... 4\n", "has no end"},
      {good + "--data-path $DATA", "a shell would replace $DATA"},
      {good + "--split '1,2", "quote without its end"},
      {good + "--curriculum-learning",
       "with curriculum_learning True a run has a curriculum of DeepSpeed, but no deepspeed_config"},
      {good + "--data-efficiency-curriculum-learning",
       "with data_efficiency_curriculum_learning True"},
      {good + "--iterations-to-skip 5 6", "with iterations_to_skip 5"},
      {good + "--deepspeed --deepspeed_config ds.json",
       "with deepspeed_config ds.json a run follows that file, too, which is not there"},
      {good + "--phase-transition-iterations 5,6", "with phase_transition_iterations 5,6"},
      {good + "--dataloader-type batch", "with dataloader_type batch"},
      {good + "--dataloader-type cyclic", "data_parallel_size, which it does not both tell"},
      {good + "--seed x", "seed is 'x', which is no integer"},
      {good + "--rampup-batch-size 1 2 z", "'z', which is no integer"},
      {"--train-iters 3 --global-batch-size 2 --data-path a", "does not tell seq_length"},
      {"--seq-length 8 --global-batch-size 2 --data-path a",
       "neither train_samples nor train_iters"},
      {"--seq-length 8 --train-iters 3 --data-path a", "tells neither global_batch_size"},
  };
  for (const auto& [text, message] : refused)
    EXPECT_THAT(refusal_of(text), HasSubstr(message)) << text;
}

}  // namespace
}  // namespace weft
