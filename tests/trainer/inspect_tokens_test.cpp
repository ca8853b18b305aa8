// weft-data inspect samples --run shows the tokens that training and evaluation really took: a backend
// writes down what it is given, for every way to name datasets and every order.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

#include "indexed_dataset/run_folder/run_segments.h"
#include "kernels/forwarding_backend.h"
#include "tests/trainer/inspect_run.h"
#include "trainer/config/command_line.h"
#include "trainer/config/problems.h"
#include "trainer/ranks/join_ranks.h"
#include "trainer/train_loop.h"

namespace weft {
namespace {

constexpr int64_t kMicroBatch = 2;

// The tokens of one micro-batch, the mask of its loss, and whether gradients followed.
struct Pass {
  std::vector<int32_t> tokens;
  bool trains = false;
  std::vector<float> mask = {};  // empty: all ones
};
std::vector<Pass> passes;

class RecordingBackend final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  void embedding_forward(Tensor out, Tensor tokens, Tensor word, int64_t first) override {
    const auto* ids = tokens.as<const int32_t>();
    passes.push_back({{ids, ids + tokens.num_elements()}, false});
    ForwardingBackend::embedding_forward(out, tokens, word, first);
  }
  void cross_entropy(Tensor losses, Tensor logits, Tensor targets, Tensor mask, int64_t vocabulary,
                     float gradient_scale, bool gradient) override {
    if (mask) {
      const auto* values = mask.as<const float>();
      passes.back().mask.assign(values, values + mask.num_elements());
    }
    ForwardingBackend::cross_entropy(losses, logits, targets, mask, vocabulary, gradient_scale,
                                     gradient);
  }
  void embedding_backward(Tensor dword, Tensor dout, Tensor tokens, int64_t first) override {
    passes.back().trains = true;
    ForwardingBackend::embedding_backward(dword, dout, tokens, first);
  }
};

}  // namespace

// The linker leads the trainer's calls of create_cpu_backend() to the first of these (--wrap).
std::unique_ptr<Backend> create_recording_backend(int num_threads) asm(
    "__wrap__ZN4weft18create_cpu_backendEi");
std::unique_ptr<Backend> create_real_cpu_backend(int num_threads) asm(
    "__real__ZN4weft18create_cpu_backendEi");
std::unique_ptr<Backend> create_recording_backend(int num_threads) {
  return std::make_unique<RecordingBackend>(create_real_cpu_backend(num_threads));
}

namespace {

constexpr int64_t kLength = 16;

class InspectTokens : public InspectRun {
 protected:
  void SetUp() override {
    InspectRun::SetUp();
    // Ids suffice here, and to load a vocabulary takes longer than all the rest of a call.
    unsetenv("WEFT_GPT2_DIR");
    setenv("HOME", folder_.path().c_str(), 1);
  }
  // Arguments with these words in the place of the datasets, for this many samples.
  Arguments run_of(const Arguments& data, const std::string& train_samples,
                   const Arguments& more = {}) const {
    Arguments all = arguments("run");
    for (const auto& [flag, count] :
         {std::pair{"--data-path", 4}, {"--train-iters", 2}, {"--lr-warmup-iters", 2}}) {
      const auto at = std::find(all.begin(), all.end(), flag);
      all.erase(at, at + count);
    }
    all.insert(all.end(), {"--train-samples", train_samples, "--lr-warmup-samples", "16"});
    all.insert(all.end(), data.begin(), data.end());
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  // Trains in this process, whose passes are written down.
  void train(const Arguments& all) {
    ParsedArguments parsed = parse_arguments(all);
    ASSERT_THAT(parsed.problems, testing::IsEmpty());
    ASSERT_THAT(problems_of(parsed.config), testing::IsEmpty());
    parsed.config.fill_defaults();
    const auto ranks = join_ranks({});
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> out(std::tmpfile(), std::fclose);
    TrainLoop(parsed.config, {}, TrainLoop::Clock::now(), *ranks, out.get()).run();
  }

  // Returns the samples of all passes that trained, or of the others, in order.
  static std::vector<std::vector<int32_t>> samples_of_passes(bool trains) {
    std::vector<std::vector<int32_t>> samples;
    for (const Pass& pass : passes) {
      if (pass.trains != trains) continue;
      const auto length = std::ssize(pass.tokens) / kMicroBatch;
      for (auto at = pass.tokens.begin(); at != pass.tokens.end(); at += length)
        samples.emplace_back(at, at + length);
    }
    return samples;
  }
  // Appends the inputs of the samples that inspect shows, and checks that their parts name them.
  void append_shown(const Arguments& more, std::vector<std::vector<int32_t>>& all) {
    ASSERT_EQ(inspect_run("run", more), 0) << output();
    for (const nlohmann::json& sample : samples()) {
      all.push_back(sample.at("ids").get<std::vector<int32_t>>());
      EXPECT_EQ(all.back(), tokens_of_parts(sample)) << sample;
      ASSERT_GE(all.back().size(), 2U);
      all.back().pop_back();
    }
  }
  static std::vector<int32_t> tokens_of_parts(const nlohmann::json& sample) {
    const DatasetReader reader(sample.at("dataset").get<std::string>());
    std::vector<int32_t> tokens;
    for (const nlohmann::json& part : sample.at("parts")) {
      const auto count = part.at("num_tokens").get<int64_t>();
      tokens.resize(tokens.size() + static_cast<size_t>(count));
      reader.copy_tokens(part.at("sequence"), part.at("begin_token"), count,
                         &*tokens.end() - count);
    }
    return tokens;
  }
  void expect_shown_is_trained() {
    std::vector<std::vector<int32_t>> shown;
    const auto num_iterations = metrics("run").back().at("iteration").get<int64_t>();
    for (int64_t i = 1; i <= num_iterations; ++i)
      append_shown({"--iteration", std::to_string(i)}, shown);
    EXPECT_EQ(shown, samples_of_passes(/*trains=*/true));
  }
  // A ramp-up from 4 to 8, then a resumption with batches of 6.
  void train_in_two_segments(const Arguments& data) { train_in_two_segments(data, data); }
  void train_in_two_segments(const Arguments& data, const Arguments& later) {
    passes.clear();
    train(run_of(data, "96", {"--rampup-batch-size", "4", "2", "24", "--exit-interval", "8"}));
    train(run_of(later, "96", {"--global-batch-size", "6", "--override-lr-scheduler"}));
    expect_shown_is_trained();
  }

  std::string other_ = write_tiny_dataset(folder_ / "other", 80);
  const Arguments weighted_ = {"--data-path", "0.25", prefix_, "0.75", other_, "--split", "90,5,5"};
};

TEST_F(InspectTokens, OfEveryOrderAreThoseThatWereTrained) {
  for (const auto& [name, kind] : kOrderKinds) {
    SCOPED_TRACE(name);
    Arguments data = weighted_;
    data.insert(data.end(), {"--sample-order", name});
    train_in_two_segments(data);
    std::filesystem::remove_all(folder_ / "run");
  }
}

TEST_F(InspectTokens, OfEveryFormOfABlendAreThoseThatWereTrained) {
  const std::string list = (folder_ / "list").string(), lists = (folder_ / "lists.json").string();
  write_file_atomically(list, "1 " + prefix_ + "\n3 " + other_ + "\n");
  write_file_atomically(lists, nlohmann::json{{"train", {"0.5", prefix_, "0.5", other_}},
                                              {"valid", {other_}},
                                              {"test", {prefix_}}}
                                   .dump());
  for (const Arguments& data :
       {Arguments{"--data-path", prefix_, other_, "--split", "90,5,5"},
        Arguments{"--data-args-path", list, "--split", "90,5,5"},
        Arguments{"--per-split-data-args-path", lists},
        Arguments{"--train-data-path", "2", prefix_, "1", other_, "--valid-data-path", other_}}) {
    SCOPED_TRACE(data.front());
    train_in_two_segments(data);
    // The files change after the run; inspect must not read them.
    if (data.front() == "--data-args-path") {
      write_file_atomically(list, "3 " + prefix_ + "\n1 " + other_ + "\n");
      expect_shown_is_trained();
    }
    std::filesystem::remove_all(folder_ / "run");
  }
}

TEST_F(InspectTokens, OfCachedIndexesAreThoseThatWereTrained) {
  Arguments data = weighted_;
  data.insert(data.end(), {"--data-cache-path", (folder_ / "cache").string()});
  train_in_two_segments(data);
}

// The names of caches tell the prefixes as the run was given them.
TEST_F(InspectTokens, OfRelativePrefixesAreFoundInTheirCachesFromAnywhere) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder_.path());
  Arguments data = weighted_;
  data[2] = std::filesystem::relative(prefix_).string();
  data[4] = "./" + std::filesystem::relative(other_).string();
  data.insert(data.end(), {"--data-cache-path", "cache"});
  train_in_two_segments(data);
  std::filesystem::current_path("/");
  expect_shown_is_trained();
  for (const RunSegment& segment : read_run_segments(folder_ / "run")) {
    const SampleOrder& order = segment.order;
    EXPECT_EQ(order.data.cache_path, (folder_ / "cache").string());
    const TrainingDatasets datasets = build_training_datasets(order.data, *order.asked_samples);
    ASSERT_GT(datasets.reports.size(), 6U);
    for (const IndexReport& report : datasets.reports)
      EXPECT_TRUE(report.was_cached) << split_name(report.split) << " " << report.name;
  }
  std::filesystem::current_path(before);
}

TEST_F(InspectTokens, OfBatchesWhoseSizeStepsAreThoseThatWereTrained) {
  Arguments data = weighted_;
  data.insert(data.end(), {"--step-batch-size-schedule", "0:2 160:4,0.4K:8 1040:4"});
  passes.clear();
  Arguments all = run_of(data, "96", {"--exit-interval", "9"});
  const auto at = std::find(all.begin(), all.end(), "--global-batch-size");
  all.erase(at, at + 2);
  for (int segment = 0; segment < 3; ++segment) train(all);
  std::vector<int64_t> sizes;
  for (const nlohmann::json& line : metrics("run")) {
    if (line.contains("lm_loss")) sizes.push_back(line.at("global_batch_size"));
  }
  // 10 samples of 16 tokens are 160 tokens; 25 and 65 begin the next sizes.
  EXPECT_THAT(sizes,
              testing::ElementsAre(2, 2, 2, 2, 2, 4, 4, 4, 4, 8, 8, 8, 8, 8, 4, 4, 4, 4, 4, 4, 4));
  expect_shown_is_trained();
}

TEST_F(InspectTokens, OfTheCyclicSamplerAreThoseThatWereTrained) {
  // One epoch of both has fewer samples than the run takes.
  const std::string small = write_tiny_dataset(folder_ / "small", 6);
  for (const Arguments& sharding : {Arguments{}, Arguments{"--no-data-sharding"}}) {
    Arguments data = {"--train-data-path",
                      small,
                      write_tiny_dataset(folder_ / "tinier", 3),
                      "--valid-data-path",
                      other_,
                      "--dataloader-type",
                      "cyclic"};
    data.insert(data.end(), sharding.begin(), sharding.end());
    train_in_two_segments(data);
    const auto trained = samples_of_passes(/*trains=*/true);
    EXPECT_LT(std::set(trained.begin(), trained.end()).size(), trained.size());
    std::filesystem::remove_all(folder_ / "run");
  }
}

TEST_F(InspectTokens, OfEvaluationsAreThoseThatWereEvaluatedAlsoAfterAResumption) {
  passes.clear();
  train(run_of(weighted_, "96", {"--eval-interval", "3", "--exit-interval", "7"}));
  train(run_of(weighted_, "96", {"--eval-interval", "2", "--eval-iters", "2"}));
  std::vector<std::vector<int32_t>> shown;
  for (const std::string iteration : {"3", "6", "8", "10", "12"})
    append_shown({"--split-name", "valid", "--iteration", iteration}, shown);
  auto evaluated = samples_of_passes(/*trains=*/false);
  ASSERT_GT(evaluated.size(), shown.size());  // the ends of the run come behind
  evaluated.resize(shown.size());
  EXPECT_EQ(shown, evaluated);
}

// Rows of 4 to 16 tokens, of which a reshaping curriculum repeats some for context.
class InspectRows : public InspectTokens {
 protected:
  Arguments growing(const std::string& mode) const {
    Arguments data = weighted_;
    data.insert(data.end(), {"--curriculum-schedule-type", "fixed_linear",
                             "--curriculum-min-difficulty", "4", "--curriculum-total-step", "11",
                             "--curriculum-difficulty-step", "4", "--curriculum-mode", mode});
    return data;
  }
  // Returns the samples of all iterations as inspect shows them.
  std::vector<nlohmann::json> all_shown() {
    const auto last = last_step().at("iteration").dump();
    EXPECT_EQ(inspect_run("run", {"--iterations", "1", last}), 0) << output();
    return samples();
  }
  // The line of the last iteration in metrics.jsonl; those of evaluations are behind it.
  nlohmann::json last_step() const {
    nlohmann::json last;
    for (const nlohmann::json& line : metrics("run")) {
      if (line.contains("lm_loss")) last = line;
    }
    return last;
  }
  std::vector<nlohmann::json> answers_of(const std::string& command, Arguments more) {
    more.insert(more.end(), {"--run", (folder_ / "run").string()});
    EXPECT_EQ(inspect_by(command, more), 0) << output();
    return samples();
  }
  // Every position that a mask leaves out is one of those that inspect says were repeated.
  static void expect_masks_of_repeated(const std::vector<nlohmann::json>& shown) {
    std::vector<float> mask;
    for (const Pass& pass : passes) {
      if (pass.trains) mask.insert(mask.end(), pass.mask.begin(), pass.mask.end());
    }
    std::vector<float> expected;
    for (const nlohmann::json& sample : shown) {
      const auto length = sample.at("ids").size() - 1;
      for (size_t i = 0; i < length; ++i)
        expected.push_back(i < sample.at("num_repeated") ? 0.0F : 1.0F);
    }
    EXPECT_EQ(mask, expected);
  }
  // Tokens by dataset and document, without those that are repeated.
  static std::map<std::pair<std::string, int64_t>, int64_t> seen_in(
      const std::vector<nlohmann::json>& shown) {
    std::map<std::pair<std::string, int64_t>, int64_t> seen;
    for (const nlohmann::json& sample : shown) {
      int64_t position = 0;
      const auto repeated = sample.at("num_repeated").get<int64_t>();
      const auto length = std::ssize(sample.at("ids")) - 1;
      for (const nlohmann::json& part : sample.at("parts")) {
        for (int64_t i = 0; i < part.at("num_tokens"); ++i, ++position) {
          if (position >= repeated && position < length)
            ++seen[{sample.at("dataset"), part.at("document")}];
        }
      }
    }
    return seen;
  }
};

TEST_F(InspectRows, OfACurriculumAreThoseThatWereTrained) {
  for (const std::string mode : {"truncate", "reshape"}) {
    SCOPED_TRACE(mode);
    train_in_two_segments(growing(mode));
    const std::vector<nlohmann::json> shown = all_shown();
    const auto lengths = samples_of_passes(/*trains=*/true);
    EXPECT_EQ(lengths.front().size(), 4U);
    EXPECT_EQ(lengths.back().size(), 16U);
    if (mode == "reshape") expect_masks_of_repeated(shown);
    std::filesystem::remove_all(folder_ / "run");
  }
}

TEST_F(InspectRows, AreCountedAndFoundByDocument) {
  for (const std::string mode : {"truncate", "reshape"}) {
    SCOPED_TRACE(mode);
    train_in_two_segments(growing(mode));
    const std::vector<nlohmann::json> shown = all_shown();
    const auto seen = seen_in(shown);
    decltype(seen_in({})) exposed;
    for (const nlohmann::json& row : answers_of("exposure", {"--by", "document", "--top", "1000"}))
      exposed[{row.at("dataset"), row.at("document")}] = row.at("tokens");
    EXPECT_EQ(exposed, seen);
    int64_t num_tokens = 0, num_samples = 0;
    for (const nlohmann::json& row : answers_of("exposure", {})) {
      num_tokens += row.at("tokens").get<int64_t>();
      num_samples += row.at("samples").get<int64_t>();
    }
    EXPECT_EQ(num_samples, last_step().at("consumed_samples"));
    EXPECT_EQ(num_tokens, last_step().at("consumed_tokens"));
    for (const int64_t document : {0, 7, 31}) {
      std::vector<nlohmann::json> expected;
      for (const nlohmann::json& sample : shown) {
        if (sample.at("dataset") != other_) continue;
        for (const nlohmann::json& part : sample.at("parts")) {
          if (part.at("document") != document) continue;
          expected.push_back({sample.at("sample"), sample.at("iteration"), sample.at("slot"),
                              part.at("begin_token"), part.at("num_tokens")});
        }
      }
      std::vector<nlohmann::json> found;
      const auto answers = answers_of("documents", {"--document", std::to_string(document),
                                                    "--dataset", "other", "--split-name", "train"});
      ASSERT_EQ(answers.size(), 1U);
      for (const nlohmann::json& reading : answers[0].at("readings")) {
        if (!reading.at("is_logged").get<bool>()) continue;
        found.push_back({reading.at("sample"), reading.at("iteration"), reading.at("slot"),
                         reading.at("begin_token"), reading.at("num_tokens")});
      }
      EXPECT_EQ(found, expected) << document;
    }
    // Each of these has a loss in the run's folder.
    EXPECT_EQ(answers_of("samples", {"--iteration", "5", "--sort", "loss"}).size(), 6U) << output();
    std::filesystem::remove_all(folder_ / "run");
  }
}

TEST_F(InspectRows, DifferWhereOneRunHasACurriculumOnly) {
  train(run_of(growing("reshape"), "96"));
  std::filesystem::rename(folder_ / "run", folder_ / "reshaped");
  train(run_of(growing("reshape"), "96", {"--exit-interval", "5"}));
  train(run_of(growing("reshape"), "96"));
  const std::string reshaped = (folder_ / "reshaped").string(), run = (folder_ / "run").string();
  ASSERT_EQ(inspect_by("diff", {reshaped, run}), 0) << output();
  EXPECT_EQ(samples().at(0).at("different_samples"), 0) << output();
  std::filesystem::remove_all(run);
  train(run_of(weighted_, "96"));
  ASSERT_EQ(inspect_by("diff", {reshaped, run}), 0) << output();
  EXPECT_EQ(samples().at(0).at("different_iterations"), 12) << output();
  EXPECT_THAT(output(),
              testing::HasSubstr("the curriculum: reshape fixed_linear from 4 to 16 tokens"));
}

class InspectUnseen : public InspectRows {
 protected:
  // Positions whose input or label is of a piece that inspect marks have no loss, nor those that are
  // repeated.
  static std::vector<float> mask_of(const std::vector<nlohmann::json>& shown) {
    std::vector<float> mask;
    for (const nlohmann::json& sample : shown) {
      std::vector<bool> is_unseen;
      for (const nlohmann::json& part : sample.at("parts"))
        is_unseen.insert(is_unseen.end(), part.at("num_tokens").get<size_t>(),
                         part.contains("unseen"));
      const auto num_repeated = sample.value("num_repeated", size_t{0});
      for (size_t i = 0; i + 1 < is_unseen.size(); ++i) {
        const bool has_loss = i >= num_repeated && !is_unseen[i] && !is_unseen[i + 1];
        mask.push_back(has_loss ? 1.0F : 0.0F);
      }
    }
    return mask;
  }
  static std::vector<float> mask_of_passes() {
    std::vector<float> all;
    for (const Pass& pass : passes) {
      if (!pass.trains) continue;
      const std::vector<float> ones(pass.tokens.size(), 1.0F);
      const std::vector<float>& mask = pass.mask.empty() ? ones : pass.mask;
      all.insert(all.end(), mask.begin(), mask.end());
    }
    return all;
  }
  // The inputs of pieces that inspect marks, without those that are repeated.
  static int64_t num_marked(const std::vector<nlohmann::json>& shown) {
    int64_t count = 0;
    for (const nlohmann::json& sample : shown) {
      int64_t position = 0;
      for (const nlohmann::json& part : sample.at("parts")) {
        for (int64_t i = 0; i < part.at("num_tokens"); ++i, ++position) {
          const bool is_new = position >= sample.value("num_repeated", int64_t{0}) &&
                              position + 1 < std::ssize(sample.at("ids"));
          if (is_new && part.contains("unseen")) ++count;
        }
      }
    }
    return count;
  }
  int64_t num_exposed(const Arguments& more) {
    int64_t count = 0;
    for (const nlohmann::json& row : answers_of("exposure", more))
      count += row.value("masked_tokens", int64_t{0});
    return count;
  }
};

TEST_F(InspectUnseen, DocumentsHaveNoLossFromThatSegmentOn) {
  const std::string file = (folder_ / "unsee").string();
  std::string lines = "# found by inspect\n\n" + other_ + " 3\n";
  for (int64_t i = 0; i < 60; i += 2)
    lines += "document " + std::to_string(i) + " of other, 5 tokens in 1 piece\n";
  for (int64_t i = 0; i < 300; i += 3)
    lines += nlohmann::json{{"score", 3}, {"dataset", prefix_}, {"document", i}}.dump() + "\r\n";
  passes.clear();
  train(run_of(weighted_, "96"));
  const auto plain = samples_of_passes(/*trains=*/true);
  std::filesystem::rename(folder_ / "run", folder_ / "plain");
  for (const Arguments& data : {weighted_, growing("reshape")}) {
    write_file_atomically(file, lines);
    passes.clear();
    train(run_of(data, "96", {"--exit-interval", "4"}));
    const auto num_before = std::ssize(mask_of_passes());
    train(run_of(data, "96", {"--unsee", file}));
    // Neither the order nor the counts change.
    if (data == weighted_) {
      EXPECT_EQ(samples_of_passes(/*trains=*/true), plain);
    }
    std::filesystem::remove(file);  // the run's folder has a copy
    const std::vector<nlohmann::json> shown = all_shown();
    const auto mask = mask_of_passes();
    EXPECT_EQ(mask, mask_of(shown));
    const auto num_masked = std::count(mask.begin() + num_before, mask.end(), 0.0F);
    EXPECT_GT(num_masked, 100);
    EXPECT_LT(num_masked, std::ssize(mask) - num_before - 100);
    EXPECT_EQ(num_exposed({}), num_marked(shown));
    EXPECT_EQ(num_exposed({"--by", "document", "--top", "1000"}), num_marked(shown));
    if (data == weighted_) {
      ASSERT_EQ(inspect_by("diff", {(folder_ / "plain").string(), (folder_ / "run").string()}), 0);
      EXPECT_EQ(samples().at(0).at("iterations").at(0).at("iteration"), 5) << output();
      EXPECT_THAT(output(), testing::HasSubstr("--unsee, by its SHA-256: none and "));
    }
    std::filesystem::remove_all(folder_ / "run");
  }
}

TEST_F(InspectUnseen, AFileThatChangedIsRefusedWithoutItsCopy) {
  const std::string file = (folder_ / "unsee").string();
  write_file_atomically(file, other_ + " 3\n");
  train(run_of(weighted_, "96", {"--unsee", file, "--exit-interval", "4"}));
  ASSERT_EQ(inspect_run("run", {"--iteration", "2"}), 0) << output();
  std::vector<std::filesystem::path> copies;
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "run")) {
    if (entry.path().filename().string().starts_with("unsee-")) copies.push_back(entry.path());
  }
  ASSERT_EQ(copies.size(), 1U);
  std::filesystem::remove(copies[0]);
  ASSERT_EQ(inspect_run("run", {"--iteration", "2"}), 0) << output();
  write_file_atomically(file, other_ + " 4\n");
  EXPECT_EQ(inspect_run("run", {"--iteration", "2"}), static_cast<int>(ExitCode::kChecksumMismatch))
      << output();
  EXPECT_THAT(output(), testing::HasSubstr("not the file of --unsee that the run has read"));
}

TEST_F(InspectTokens, OfABlendThatChangesAreThoseThatWereTrained) {
  const std::string third = write_tiny_dataset(folder_ / "third", 40);
  const std::string path = (folder_ / "schedule").string();
  write_file_atomically(
      path, nlohmann::json{{{"from_samples", 50}, {"blend", {0.6, prefix_, 0.4, third}}},
                           {{"from_tokens", 80 * kLength}, {"blend", {1, other_, 3, third}}}}
                .dump());
  Arguments scheduled = weighted_;
  scheduled.insert(scheduled.end(), {"--blend-schedule", path});
  train_in_two_segments(scheduled, scheduled);
  const auto whole = samples_of_passes(/*trains=*/true);
  std::filesystem::remove_all(folder_ / "run");
  // The schedule comes when 48 samples are consumed.
  train_in_two_segments(weighted_, scheduled);
  EXPECT_EQ(samples_of_passes(/*trains=*/true), whole);
  // All datasets of the schedule are known by their bytes.
  for (const char* suffix : {".bin", ".idx"}) std::filesystem::remove(third + suffix);
  write_tiny_dataset(third, 41);
  EXPECT_EQ(inspect_run("run", {"--iteration", "2"}), 0) << output();
  EXPECT_EQ(inspect_run("run", {"--iteration", "12"}), static_cast<int>(ExitCode::kBadInput));
  EXPECT_THAT(output(), testing::HasSubstr("the dataset " + third + " was replaced"));
}

TEST_F(InspectTokens, OfEveryGroupAreThoseThatWereEvaluated) {
  const Arguments groups = {"--train-weighted-split-paths",
                            "T: 1 0:0.8 " + prefix_ + ", 2 0:0.8 " + other_,
                            "--valid-weighted-split-paths",
                            "ONE: 1 0.8:0.9 " + prefix_ + ", 3 0.8:0.9 " + other_,
                            "TWO: 1 0.8:0.9 " + other_,
                            "--test-weighted-split-paths",
                            "LAST: 1 0.9:1 " + prefix_,
                            "--sample-order",
                            "bigscience"};
  passes.clear();
  train(run_of(groups, "160", {"--eval-interval", "8"}));
  expect_shown_is_trained();
  std::vector<std::vector<int32_t>> shown;
  // After iterations 8 and 16, and at the end.
  for (const std::string first : {"0", "8", "16"}) {
    const std::string last = std::to_string(std::stoi(first) + 8);
    for (const std::string group : {"ONE", "TWO"}) {
      append_shown({"--split-name", "valid", "--group", group, "--sample-range", first, last},
                   shown);
    }
  }
  append_shown({"--split-name", "test", "--sample-range", "0", "8"}, shown);
  EXPECT_EQ(shown, samples_of_passes(/*trains=*/false));
  std::vector<std::vector<int32_t>> by_iteration;
  for (const std::string iteration : {"8", "16"}) {
    for (const std::string group : {"ONE", "TWO"}) {
      append_shown({"--split-name", "valid", "--group", group, "--iteration", iteration},
                   by_iteration);
    }
  }
  shown.resize(by_iteration.size());
  EXPECT_EQ(by_iteration, shown);
  EXPECT_EQ(inspect_run("run", {"--split-name", "valid", "--group", "ONE", "--iteration", "9"}),
            static_cast<int>(ExitCode::kUsage));
  EXPECT_THAT(output(), testing::HasSubstr("no evaluation follows it"));

  EXPECT_EQ(inspect_run("run", {"--split-name", "valid", "--sample-range", "0", "1"}),
            static_cast<int>(ExitCode::kUsage));
  EXPECT_THAT(output(), testing::HasSubstr("several groups; give one with --group: ONE, TWO"));
  EXPECT_EQ(
      inspect_run("run", {"--split-name", "valid", "--group", "X", "--sample-range", "0", "1"}),
      static_cast<int>(ExitCode::kUsage));
  EXPECT_THAT(output(), testing::HasSubstr("no group of this name: ONE, TWO"));
}

TEST_F(InspectTokens, OfAWholeEvaluationEndWhereTheGroupDoes) {
  passes.clear();
  train(run_of({"--train-weighted-split-paths", "T: 1 0:0.8 " + prefix_,
                "--valid-weighted-split-paths", "LARGE: 1 0.8:1 " + prefix_,
                "SMALL: 1 0.8:1 " + other_, "--sample-order", "bigscience", "--full-validation"},
               "64", {"--eval-interval", "8"}));
  std::vector<std::vector<int32_t>> evaluated = samples_of_passes(/*trains=*/false);
  // Rows of the last batch that no sample fills are zeros, which the dataset has in no row.
  std::erase(evaluated, std::vector<int32_t>(kLength, 0));
  std::vector<std::vector<int32_t>> large, small;
  append_shown({"--split-name", "valid", "--group", "LARGE", "--iteration", "8"}, large);
  append_shown({"--split-name", "valid", "--group", "SMALL", "--iteration", "8"}, small);
  EXPECT_GT(large.size(), small.size());
  ASSERT_GE(evaluated.size(), large.size() + small.size());
  const auto end_of_large = evaluated.begin() + std::ssize(large);
  EXPECT_EQ(std::vector(evaluated.begin(), end_of_large), large);
  EXPECT_EQ(std::vector(end_of_large, end_of_large + std::ssize(small)), small);
  EXPECT_EQ(inspect_run("run", {"--split-name", "valid", "--group", "SMALL", "--sample-range", "0",
                                std::to_string(small.size() + 1)}),
            static_cast<int>(ExitCode::kUsage));
}

}  // namespace
}  // namespace weft
