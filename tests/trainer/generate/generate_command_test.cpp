// Runs weft-model generate as a user does, on checkpoints of weft-train.
#include <gmock/gmock.h>

#include "indexed_dataset/base/process/exit_code.h"
#include "tests/trainer/generate/byte_tokenizer.h"
#include "tests/trainer/mpirun_ranks.h"

namespace weft {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class GenerateCommand : public Ranks {
 protected:
  void SetUp() override {
    Training::SetUp();
    write_byte_tokenizer(folder_ / "bytes");
  }
  // Returns the arguments of a run whose model knows 257 tokens.
  Arguments training(const std::string& run, const Arguments& more = {}) const {
    Arguments all = arguments(run, 40, more);
    *(std::find(all.begin(), all.end(), "--vocab-size") + 1) = std::to_string(kByteTokens);
    return all;
  }
  ExitCode generate(const std::string& model, const Arguments& more) {
    Arguments all = {std::string(std::getenv("WEFT_BIN_DIR")) + "/weft-model",
                     "generate",
                     "--load",
                     (folder_ / model).string(),
                     "--device",
                     "cpu"};
    return static_cast<ExitCode>(wait(start_program(with(with(all, tokenizer()), more))));
  }
  Arguments tokenizer() const {
    return {"--vocab-file", (folder_ / "bytes/vocab.json").string(), "--merge-file",
            (folder_ / "bytes/merges.txt").string()};
  }
  // Returns the objects that a run with --format jsonl has printed.
  std::vector<nlohmann::json> lines() const {
    std::vector<nlohmann::json> lines;
    std::istringstream in(output());
    for (std::string line; std::getline(in, line);) {
      if (line.starts_with("{")) lines.push_back(nlohmann::json::parse(line));
    }
    return lines;
  }
  std::string write(const std::string& name, const std::string& text) const {
    write_file_atomically(folder_ / name, text);
    return (folder_ / name).string();
  }
};

TEST_F(GenerateCommand, ContinuesPromptsAsLinesOfJsonAndAsText) {
  ASSERT_EQ(run(training("run")), 0) << output();
  const std::string prompts = write("prompts", "!#%')\n+,-\r\n!#%')\n");
  const Arguments asked = {"--prompts", prompts, "--tokens", "9", "--format", "jsonl"};
  ASSERT_EQ(generate("run", with(asked, {"--seed", "3"})), ExitCode::kDone) << output();
  const auto sampled = lines();
  ASSERT_EQ(sampled.size(), 3U);
  EXPECT_EQ(sampled[1].at("prompt"), "+,-");
  for (const auto& line : sampled) {
    std::string bytes;
    for (const int id : line.at("ids")) bytes += byte_of_token(id);
    EXPECT_LE(bytes.size(), 9U);
    const auto is_ascii = [](char byte) { return static_cast<unsigned char>(byte) < 0x80; };
    if (std::all_of(bytes.begin(), bytes.end(), is_ascii)) {
      EXPECT_EQ(line.at("text"), bytes);
    }
  }
  EXPECT_NE(sampled[0].at("ids"), sampled[2].at("ids")) << "each prompt has numbers of its own";

  ASSERT_EQ(generate("run", with(asked, {"--seed", "3", "--batch-size", "1"})), ExitCode::kDone);
  EXPECT_EQ(lines(), sampled);
  ASSERT_EQ(generate("run", with(asked, {"--seed", "4"})), ExitCode::kDone);
  EXPECT_NE(lines(), sampled);

  // A prompt alone is shown with its text. The model has 16 positions, so 12 more tokens.
  const Arguments greedy = {"--prompt", "!#%')", "--temperature", "0", "--tokens", "100"};
  ASSERT_EQ(generate("run", with(greedy, {"--format", "jsonl"})), ExitCode::kDone);
  const auto line = lines().front();
  EXPECT_EQ(line.at("ids").size(), 12U);
  EXPECT_THAT(output(), HasSubstr("note: 1 of 1 texts end where the model has no more positions"));
  ASSERT_EQ(generate("run", greedy), ExitCode::kDone);
  EXPECT_THAT(output(), HasSubstr("!#%')" + line.at("text").get<std::string>() + "\n"));
  // A temperature that fp32 holds with few bits leaves the most likely token as well.
  const Arguments cold = {"--prompt", "!#%')", "--temperature", "1e-40", "--tokens", "100"};
  ASSERT_EQ(generate("run", cold), ExitCode::kDone) << output();
  EXPECT_THAT(output(), HasSubstr("!#%')" + line.at("text").get<std::string>() + "\n"));
  // The same up to a text that stops it.
  const std::string text = line.at("text"), stop = text.substr(3, 1);
  ASSERT_EQ(generate("run", with(greedy, {"--format", "jsonl", "--stop", stop})), ExitCode::kDone);
  EXPECT_EQ(lines().front().at("text"), text.substr(0, text.find(stop)));
}

TEST_F(GenerateCommand, ReadsCheckpointsOfAnyTopologyAndHuggingFaceFolders) {
  if (!has_mpirun_) GTEST_SKIP() << "mpirun (openmpi-bin) cannot start two processes here";
  ASSERT_EQ(run_ranks(4, training("run", {"--tensor-model-parallel-size", "2",
                                          "--pipeline-model-parallel-size", "2"})),
            0)
      << output();
  const Arguments asked = {"--prompt", "!#%')", "--temperature", "0",
                           "--tokens", "10",    "--format",      "jsonl"};
  ASSERT_EQ(generate("run", asked), ExitCode::kDone) << output();
  const auto from_checkpoint = lines();
  ASSERT_EQ(from_checkpoint.size(), 1U);
  Arguments exported = {std::string(std::getenv("WEFT_BIN_DIR")) + "/weft-model",
                        "export",
                        "--load",
                        (folder_ / "run").string(),
                        "--output",
                        (folder_ / "hf").string()};
  ASSERT_EQ(wait(start_program(with(exported, tokenizer()))), 0) << output();
  ASSERT_EQ(generate("hf", asked), ExitCode::kDone) << output();
  EXPECT_EQ(lines(), from_checkpoint);
}

// The same tokens as those of the vocab.json.
TEST_F(GenerateCommand, ReadsATokenizerOfOneFile) {
  ASSERT_EQ(run(training("run")), 0) << output();
  const Arguments asked = {"--prompt", "!#%')", "--temperature", "0",
                           "--tokens", "8",     "--format",      "jsonl"};
  ASSERT_EQ(generate("run", asked), ExitCode::kDone) << output();
  const auto wanted = lines();
  const nlohmann::json byte_level = {{"type", "ByteLevel"},
                                     {"add_prefix_space", false},
                                     {"trim_offsets", true},
                                     {"use_regex", true}};
  const nlohmann::json tokenizer = {
      {"version", "1.0"},
      {"added_tokens",
       {{{"id", 256},
         {"content", "<|endoftext|>"},
         {"special", true},
         {"normalized", false},
         {"lstrip", false},
         {"rstrip", false},
         {"single_word", false}}}},
      {"normalizer", nullptr},
      {"pre_tokenizer", byte_level},
      {"post_processor", nullptr},
      {"decoder", byte_level},
      {"model",
       {{"type", "BPE"},
        {"vocab", nlohmann::json::parse(read_file(folder_ / "bytes/vocab.json"))},
        {"merges", nlohmann::json::array()}}}};
  const std::string file = write("tokenizer.json", tokenizer.dump());
  Arguments all = {std::string(std::getenv("WEFT_BIN_DIR")) + "/weft-model",
                   "generate",
                   "--load",
                   (folder_ / "run").string(),
                   "--device",
                   "cpu",
                   "--tokenizer",
                   file};
  ASSERT_EQ(wait(start_program(with(all, asked))), 0) << output();
  EXPECT_EQ(lines(), wanted);
  EXPECT_EQ(generate("run", with(asked, {"--tokenizer", file})), ExitCode::kUsage);
  EXPECT_THAT(output(), HasSubstr("--tokenizer and --vocab-file name two tokenizers: give one"));
}

TEST_F(GenerateCommand, WhatCannotWorkIsToldWithItsReason) {
  ASSERT_EQ(run(training("run")), 0) << output();
  EXPECT_EQ(generate("run", {}), ExitCode::kUsage);
  EXPECT_THAT(output(), HasSubstr("give --prompt TEXT or --prompts FILE, one of them"));
  EXPECT_EQ(generate("run", {"--prompt", "a", "--prompts", "b", "--temperature", "hot", "--top-p",
                             "2", "--tokens", "0"}),
            ExitCode::kUsage);
  EXPECT_THAT(output(), AllOf(HasSubstr("give --prompt TEXT or --prompts FILE, one of them"),
                              HasSubstr("--temperature must be a number from 0 to"),
                              HasSubstr("--top-p must be a number from"), HasSubstr("--tokens")));
  EXPECT_EQ(generate("nowhere", {"--prompt", "a"}), ExitCode::kBadInput);
  EXPECT_THAT(output(), HasSubstr("nowhere does not exist"));
  EXPECT_EQ(generate("bytes", {"--prompt", "a"}), ExitCode::kBadInput);
  EXPECT_THAT(output(), HasSubstr("holds no checkpoint"));
  EXPECT_EQ(generate("run", {"--prompts", write("empty", "")}), ExitCode::kBadInput);
  EXPECT_THAT(output(), HasSubstr("empty is empty: write a prompt into each line"));
  EXPECT_EQ(generate("run", {"--prompts", (folder_ / "absent").string()}), ExitCode::kIo);
  EXPECT_EQ(generate("run", {"--prompts", write("gap", "one\n\nthree\n")}), ExitCode::kBadInput);
  EXPECT_THAT(output(), HasSubstr("gap:2: the prompt is empty"));
  EXPECT_EQ(generate("run", {"--prompts", write("bytes.txt", "one\n\xff\n")}), ExitCode::kBadInput);
  EXPECT_THAT(output(), HasSubstr("bytes.txt:2: byte 0 of the prompt is no UTF-8"));
  EXPECT_EQ(generate("run", {"--prompt", std::string(17, 'a')}), ExitCode::kBadInput);
  EXPECT_THAT(output(), HasSubstr("the prompt has 17 tokens, the model has positions for 16"));

  // Without a tokenizer the hint names the options that this command has.
  for (const Arguments& command : {Arguments{"generate", "--prompt", "a"},
                                   Arguments{"evaluate", "--text", (folder_ / "gap").string()}}) {
    const Arguments program = {"/usr/bin/env", "WEFT_GPT2_DIR=" + (folder_ / "absent").string(),
                               std::string(std::getenv("WEFT_BIN_DIR")) + "/weft-model"};
    const Arguments model = {"--load", (folder_ / "run").string(), "--device", "cpu"};
    EXPECT_EQ(static_cast<ExitCode>(wait(start_program(with(with(program, command), model)))),
              ExitCode::kUsage);
    EXPECT_THAT(output(), AllOf(HasSubstr("give --vocab-file and --merge-file, or --tokenizer"),
                                Not(HasSubstr("--no-tokenizer"))));
  }

  // The model of another run knows 64 tokens.
  ASSERT_EQ(run(arguments("small", 5)), 0) << output();
  EXPECT_EQ(generate("small", {"--prompt", "a"}), ExitCode::kUsage);
  EXPECT_THAT(output(), HasSubstr("vocab.json has 257 tokens, the model 64"));
}

}  // namespace
}  // namespace weft
