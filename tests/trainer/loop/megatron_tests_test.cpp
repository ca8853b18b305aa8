// The command lines of Megatron-LM's own functional tests, planned by weft-train.
#include <gmock/gmock.h>

#include <map>
#include <set>

#include "tests/trainer/training_run.h"

namespace weft {
namespace {

using testing::HasSubstr;
using testing::Not;

class MegatronTests : public Training {
 protected:
  using Options = std::map<std::string, std::string>;  // "" for a flag without a value

  void SetUp() override {
    Training::SetUp();
    // A vocabulary that a run without --vocab-file finds, too.
    nlohmann::json vocabulary;
    for (int i = 0; i < 63; ++i) vocabulary[std::string("t").append(std::to_string(i))] = i;
    vocabulary["<|endoftext|>"] = 63;
    write_file_atomically(folder_ / "vocab.json", vocabulary.dump());
    write_file_atomically(folder_ / "merges.txt", "#version: 0.2\n");
    setenv("WEFT_GPT2_DIR", folder_.path().c_str(), 1);
  }
  void TearDown() override { unsetenv("WEFT_GPT2_DIR"); }

  // Reads tests/golden/megatron/functional_tests.txt, whose head tells its form.
  static std::map<std::string, Options> configurations() {
    const char* source = std::getenv("WEFT_SOURCE_DIR");
    std::ifstream in(std::string(source ? source : ".") +
                     "/tests/golden/megatron/functional_tests.txt");
    Options base;
    std::map<std::string, Options> all;
    for (std::string line; std::getline(in, line);) {
      if (line.empty() || line[0] == '#') continue;
      const Arguments parts = words(line);
      Options options = base;
      bool is_lacking = false;
      for (size_t i = 1; i < parts.size(); ++i) {
        const size_t equals = parts[i].find('=');
        std::string value = equals == std::string::npos ? "" : parts[i].substr(equals + 1);
        std::replace(value.begin(), value.end(), '~', ' ');
        if (parts[i] == "without")
          is_lacking = true;
        else if (is_lacking)
          options.erase(parts[i]);
        else
          options[parts[i].substr(0, equals)] = value;
      }
      if (parts[0] == "base")
        base = options;
      else
        all[parts[0]] = options;
    }
    return all;
  }

  Arguments command_line(const Options& options) const {
    Arguments all{"--dry-run", "--device-profile", "h200"};
    for (const auto& [flag, value] : options) {
      all.push_back(flag);
      if (value == "$DATA_BLEND") {
        for (const char* weight : {"0.4", "0.6"}) {
          all.emplace_back(weight);
          all.push_back(prefix_);
        }
      } else if (value == "PATH") {
        all.push_back(flag == "--data-path"    ? prefix_
                      : flag == "--vocab-file" ? (folder_ / "vocab.json").string()
                      : flag == "--merge-file" ? (folder_ / "merges.txt").string()
                                               : (folder_ / "new").string());
      } else if (!value.empty()) {
        all.push_back(value);
      }
    }
    return all;
  }

  std::vector<std::string> errors() const {
    std::vector<std::string> lines;
    std::istringstream in(output());
    for (std::string line; std::getline(in, line);) {
      if (line.starts_with("error: ")) lines.push_back(line.substr(7));
    }
    return lines;
  }
};

// The others are refused with the names of what they ask for. None of their flags is unknown.
TEST_F(MegatronTests, MostOfThemStartAndTheOthersAreToldWhatIsMissing) {
  const auto all = configurations();
  ASSERT_EQ(all.size(), 167U);
  int num_started = 0;
  std::map<std::string, int> reasons;
  for (const auto& [name, options] : all) {
    if (run(command_line(options)) == 0) {
      ++num_started;
      continue;
    }
    EXPECT_FALSE(errors().empty()) << name << output();
    for (const std::string& error : errors()) reasons[error] += 1;
  }
  std::string text;
  for (const auto& [reason, count] : reasons) text += std::to_string(count) + "  " + reason + "\n";
  EXPECT_GE(num_started, 115) << text;
  std::printf("%d of %zu start; the others:\n%s", num_started, all.size(), text.c_str());
}

TEST_F(MegatronTests, OneLineTellsASubjectThatIsMissing) {
  EXPECT_EQ(
      run(with(arguments("run", 4), words("--num-experts 8 --moe-router-topk 2 --moe-router-topk 2 "
                                          "--moe-token-dispatcher-type alltoall"))),
      2);
  EXPECT_THAT(errors(),
              testing::ElementsAre("mixtures of experts are not supported (--num-experts, "
                                   "--moe-router-topk, --moe-token-dispatcher-type)"));
}

// Options that are missing may be missing because of the misspelt flag.
TEST_F(MegatronTests, AnUnknownFlagIsToldAlone) {
  EXPECT_EQ(run({"--num-layer", "2", "--hidden-size", "-3"}), 2);
  EXPECT_THAT(errors(),
              testing::ElementsAre("unknown flag --num-layer: did you mean --num-layers?"));
  for (const char* flag : {"--window-sizes", "--s3-cache", "--mtq-num-layers", "--fp9-format"}) {
    EXPECT_EQ(run(arguments("run", 4, {flag, "3"})), 2);
    EXPECT_THAT(output(), HasSubstr(std::string("unknown flag ") + flag));
    EXPECT_THAT(output(), Not(HasSubstr("did you mean")));
  }
}

TEST_F(MegatronTests, NoArgumentsShowARun) {
  EXPECT_EQ(run({}), 2);
  EXPECT_THAT(output(), HasSubstr("error: no arguments are given; --help shows the usual ones"));
  EXPECT_THAT(output(), HasSubstr("  weft-train --num-layers 12"));
  EXPECT_EQ(errors().size(), 1U);
}

TEST_F(MegatronTests, HelpFitsTheTerminalAndShowsTheUsualOptionsFirst) {
  setenv("COLUMNS", "80", 1);
  ASSERT_EQ(run({"--help"}), 0);
  const std::string usual = output();
  ASSERT_EQ(run({"--help-all"}), 0);
  const std::string all = output();
  unsetenv("COLUMNS");
  EXPECT_THAT(usual, HasSubstr("--num-layers"));
  EXPECT_THAT(usual, HasSubstr("--help-all"));
  EXPECT_THAT(usual, Not(HasSubstr("--lr-warmup-samples")));
  EXPECT_THAT(all, HasSubstr("--lr-warmup-samples"));
  for (const std::string& text : {usual, all}) {
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) EXPECT_LE(line.size(), 80U) << line;
  }
  EXPECT_LT(std::ranges::count(usual, '\n'), 120);
}

TEST_F(MegatronTests, AFileOfArgumentsStandsBeforeTheCommandLine) {
  ASSERT_EQ(run(arguments("run", 5)), 0) << output();
  const std::string manifest = (folder_ / "run/run_manifest.json").string();
  const std::string fresh = (folder_ / "fresh").string();
  ASSERT_EQ(run({"--args", manifest, "--save", fresh, "--load", fresh}), 0) << output();
  EXPECT_EQ(trajectory("fresh"), trajectory("run"));
  std::string flags = "# a run\n";
  for (const std::string& word : arguments("typed", 5)) flags += "'" + word + "'\n";
  write_file_atomically(folder_ / "flags", flags);
  ASSERT_EQ(run({"--args", (folder_ / "flags").string()}), 0) << output();
  EXPECT_EQ(trajectory("typed"), trajectory("run"));
  EXPECT_EQ(run({"--args"}), 2);
  EXPECT_EQ(run({"--args", (folder_ / "nowhere").string()}), 4);
}

}  // namespace
}  // namespace weft
