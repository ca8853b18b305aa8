// weft-data inspect on runs that train rows of samples (a curriculum) or mask documents: what it
// shows is what was trained.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <map>
#include <sstream>

#include "tests/preprocess/inspect/inspect_tokens.h"

namespace weft {
namespace {

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

// Megatron-DeepSpeed's lines tell the tokens, which a curriculum counts by itself.
TEST_F(InspectRows, AreThoseOfThePastedLinesOfTheirLog) {
  for (const std::string mode : {"truncate", "reshape"}) {
    SCOPED_TRACE(mode);
    std::string lines;
    const auto train_and_keep_lines = [&](const Arguments& more) {
      Arguments all = more;
      all.insert(all.end(), {"--log-format", "megatron-ds"});
      ASSERT_EQ(run(run_of(growing(mode), "96", all)), 0) << output();
      std::istringstream log(output());
      for (std::string line; std::getline(log, line);)
        if (line.find("| consumed tokens:") != std::string::npos) lines += line + "\n";
    };
    train_and_keep_lines({"--rampup-batch-size", "4", "2", "24", "--exit-interval", "8"});
    train_and_keep_lines({"--global-batch-size", "6", "--override-lr-scheduler"});
    const std::vector<nlohmann::json> shown = all_shown();
    ASSERT_EQ(inspect_run("run", {"--log-line", lines}), 0) << output();
    EXPECT_EQ(samples(), shown);
    const std::string tokens =
        fmt::format("consumed tokens: {:12d}", last_step().at("consumed_tokens").get<int64_t>());
    const size_t at = lines.find(tokens);
    ASSERT_NE(at, std::string::npos) << lines;
    EXPECT_EQ(inspect_run("run", {"--log-line", lines.replace(at + 17, 12, "          16")}),
              static_cast<int>(ExitCode::kBadInput));
    EXPECT_THAT(output(), testing::HasSubstr("ended with 16 consumed tokens by the line, and "));
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
  EXPECT_EQ(samples().at(0).at("different_iterations"), 0) << output();
  std::filesystem::remove_all(run);
  train(run_of(weighted_, "96"));
  ASSERT_EQ(inspect_by("diff", {reshaped, run}), 0) << output();
  EXPECT_EQ(samples().at(0).at("different_iterations"), 12) << output();
  EXPECT_THAT(output(), testing::HasSubstr("--curriculum-mode: reshape and truncate"));
}

class InspectUnseen : public InspectRows {
 protected:
  // Positions whose input or label is of a piece that inspect marks have no loss, nor those that
  // are repeated.
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
  for (int64_t i = 0; i < 60; i += 2) lines += other_ + " " + std::to_string(i) + "\n";
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
      EXPECT_EQ(samples().at(0).at("first_different_iteration"), 5) << output();
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

}  // namespace
}  // namespace weft
