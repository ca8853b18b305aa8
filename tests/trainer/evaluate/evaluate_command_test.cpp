// Runs weft-model evaluate as a user does, on a checkpoint of weft-train.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "indexed_dataset/base/process/exit_code.h"
#include "tests/trainer/generate/byte_tokenizer.h"
#include "tests/trainer/training_run.h"

namespace weft {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class EvaluateCommand : public Training {
 protected:
  void SetUp() override {
    Training::SetUp();
    write_byte_tokenizer(folder_ / "bytes");
    Arguments all = arguments("run", 60);
    *(std::find(all.begin(), all.end(), "--vocab-size") + 1) = std::to_string(kByteTokens);
    ASSERT_EQ(run(all), 0) << output();
  }
  ExitCode evaluate(const Arguments& more) {
    Arguments all = {std::string(std::getenv("WEFT_BIN_DIR")) + "/weft-model",
                     "evaluate",
                     "--load",
                     (folder_ / "run").string(),
                     "--device",
                     "cpu",
                     "--vocab-file",
                     (folder_ / "bytes/vocab.json").string(),
                     "--merge-file",
                     (folder_ / "bytes/merges.txt").string()};
    return static_cast<ExitCode>(wait(start_program(with(all, more))));
  }
  nlohmann::json result(const Arguments& more) {
    EXPECT_EQ(evaluate(with(more, {"--format", "json"})), ExitCode::kDone) << output();
    const std::string all = output();
    const size_t begin = all.find('{');
    return nlohmann::json::parse(all.substr(begin, all.find('\n', begin) - begin));
  }
  std::string write(const std::string& name, const std::string& text) const {
    write_file_atomically(folder_ / name, text);
    return (folder_ / name).string();
  }
};

// The model has learned sequences like "!#%')+": what goes on so is more likely than what does not.
TEST_F(EvaluateCommand, TellsTheLossOfTextAndOfTheDataset) {
  const auto learned = result({"--text", write("learned", "!#%')+-/13579;=?")});
  const auto other = result({"--text", write("other", "9!?3%=/;#1)5'7+-")});
  EXPECT_LT(learned.at("loss"), other.at("loss"));
  EXPECT_EQ(learned.at("bytes"), 16);
  EXPECT_DOUBLE_EQ(learned.at("perplexity"), std::exp(learned.at("loss").get<double>()));
  EXPECT_NEAR(
      learned.at("bits_per_byte"),
      learned.at("loss").get<double>() / std::log(2.0) * learned.at("tokens").get<double>() / 16,
      1e-9);

  const auto dataset = result({"--data-path", prefix_, "--max-tokens", "2000"});
  EXPECT_EQ(dataset.at("seq_length"), 16);
  EXPECT_EQ(dataset.at("stride"), 16);
  // Half of a window before each token tells more than none does.
  const auto overlapping =
      result({"--data-path", prefix_, "--max-tokens", "2000", "--stride", "8"});
  EXPECT_EQ(overlapping.at("tokens"), dataset.at("tokens"));
  EXPECT_LT(overlapping.at("loss"), dataset.at("loss"));
  EXPECT_EQ(evaluate({"--data-path", prefix_, "--max-tokens", "2000"}), ExitCode::kDone);
  EXPECT_THAT(output(), AllOf(HasSubstr(": loss "), HasSubstr(" bits per byte ("),
                              HasSubstr("tokens in windows of 16, stride 16)")));
}

// The validation set is one sample, whose first token ends a document as the prefix does: both
// predict the same tokens.
TEST_F(EvaluateCommand, KeepsDocumentsApartAsTheRunDid) {
  constexpr uint16_t kEnd = 63;
  const std::vector<uint16_t> sample = {kEnd, 7,  9,  11, 13, kEnd, 3,  4, 5,
                                        kEnd, 20, 25, 30, 35, 40,   45, 50};
  const auto write_dataset = [&](const char* name, size_t first) {
    DatasetWriter writer(folder_ / name, TokenType::kUInt16);
    const auto tokens = std::span(sample).subspan(first);
    const auto length = static_cast<int32_t>(tokens.size());
    writer.append_documents(std::as_bytes(tokens), {&length, 1});
    writer.finish();
    return (folder_ / name).string();
  };
  const std::string valid = write_dataset("valid", 0), text = write_dataset("text", 1);
  std::vector<double> losses;
  for (const Arguments& flags :
       {Arguments{}, Arguments{"--reset-position-ids"}, Arguments{"--reset-attention-mask"},
        Arguments{"--reset-position-ids", "--reset-attention-mask"}}) {
    std::filesystem::remove_all(folder_ / "run");
    Arguments all = with(arguments("run", 20), {"--train-data-path", prefix_, "--valid-data-path",
                                                valid, "--full-validation"});
    for (const char* flag : {"--data-path", "--split"}) {
      const auto found = std::find(all.begin(), all.end(), flag);
      all.erase(found, found + 2);
    }
    for (const char* flag : {"--micro-batch-size", "--global-batch-size"})
      *(std::find(all.begin(), all.end(), flag) + 1) = "1";
    *(std::find(all.begin(), all.end(), "--vocab-size") + 1) = std::to_string(kByteTokens);
    all = with(all, {"--eod-token-id", std::to_string(kEnd)});
    ASSERT_EQ(run(with(all, flags)), 0) << output();
    const std::string log = output();
    const size_t at = log.rfind("lm loss value: ");
    ASSERT_NE(at, std::string::npos) << log;
    const double expected = std::stod(log.substr(at + std::strlen("lm loss value: ")));
    EXPECT_NEAR(result({"--data-path", text}).at("loss"), expected, 2e-5 * expected) << log;
    losses.push_back(expected);
  }
  std::ranges::sort(losses);
  EXPECT_EQ(std::ranges::adjacent_find(losses), losses.end()) << "the flags change nothing";
}

TEST_F(EvaluateCommand, JudgesEndings) {
  const std::string task =
      write("steps.jsonl",
            "{\"context\": \"!#%')\", \"endings\": [\"+-/1\", \"9=1/\"], \"label\": 0}\n"
            "{\"context\": \"-/135\", \"endings\": [\"=1'9\", \"79;=\"], \"label\": 1}\n"
            "{\"context\": \"%')+-\", \"endings\": [\"/135\", \"5;)1\"], \"label\": 0}\n");
  const auto summary = result({"--tasks", task, "--output", (folder_ / "scores").string()});
  EXPECT_EQ(summary.at("task"), "steps");
  EXPECT_EQ(summary.at("accuracy"), 1.0);
  EXPECT_EQ(summary.at("accuracy_stderr"), 0.0);
  std::istringstream lines(read_file(folder_ / "scores"));
  int64_t number = 0;
  for (std::string line; std::getline(lines, line); ++number) {
    const auto example = nlohmann::json::parse(line);
    EXPECT_EQ(example.at("example"), number);
    const size_t label = example.at("label");
    EXPECT_GT(example.at("log_likelihoods").at(label), example.at("log_likelihoods").at(1 - label));
    EXPECT_TRUE(example.at("correct"));
  }
  EXPECT_EQ(number, 3);
  EXPECT_EQ(result({"--tasks", task, "--limit", "2"}).at("examples"), 2);
  // A name need not be UTF-8.
  EXPECT_EQ(result({"--tasks", write("st\xff.jsonl", read_file(task)), "--output",
                    (folder_ / "scores").string()})
                .at("task"),
            "st\ufffd");
  EXPECT_EQ(evaluate({"--tasks", task}), ExitCode::kDone);
  EXPECT_THAT(output(), HasSubstr("steps: accuracy 1.0000 +- 0.0000, normalised by length 1.0000"));
}

TEST_F(EvaluateCommand, WhatCannotWorkIsToldWithItsReason) {
  EXPECT_EQ(evaluate({}), ExitCode::kUsage);
  EXPECT_THAT(output(), HasSubstr("give --data-path, --text or --tasks, one of them"));
  EXPECT_EQ(evaluate({"--text", "x", "--output", "y", "--seq-length", "8", "--stride", "9"}),
            ExitCode::kUsage);
  EXPECT_THAT(output(), AllOf(HasSubstr("--output belongs to --tasks"),
                              HasSubstr("--stride must not be larger than --seq-length")));
  EXPECT_EQ(evaluate({"--text", write("t", "abc"), "--seq-length", "17"}), ExitCode::kUsage);
  EXPECT_THAT(output(), HasSubstr("--seq-length 17: the model has positions for 16"));
  EXPECT_EQ(evaluate({"--text", (folder_ / "absent").string()}), ExitCode::kIo);
  // An output that cannot be written is told before anything is read.
  for (const char* name : {"absent/scores", "run"}) {
    EXPECT_EQ(evaluate({"--tasks", "no", "--output", (folder_ / name).string()}), ExitCode::kIo);
    EXPECT_THAT(output(), AllOf(HasSubstr(name), testing::Not(HasSubstr("no: "))));
  }
  EXPECT_EQ(evaluate({"--text", write("bytes.txt", "ab\xff")}), ExitCode::kBadInput);
  EXPECT_THAT(output(), HasSubstr("bytes.txt: byte 2 is no UTF-8"));
  EXPECT_EQ(evaluate({"--text", write("nothing", "")}), ExitCode::kBadInput);
  EXPECT_THAT(output(), HasSubstr("nothing has too few tokens to predict"));
  EXPECT_EQ(evaluate({"--tasks", write("bad.jsonl", "{\"context\": 1}\n")}), ExitCode::kBadInput);
  EXPECT_THAT(output(), HasSubstr("bad.jsonl:1: not an example like"));
}

}  // namespace
}  // namespace weft
