#include "trainer/evaluate/tasks.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>

#include "indexed_dataset/base/storage/file_io.h"
#include "tests/temporary_folder.h"
#include "tests/trainer/generate/byte_tokenizer.h"
#include "tokenizer/formats/load_gpt2.h"
#include "tokenizer/formats/load_tokenizer.h"

namespace weft {
namespace {

using testing::HasSubstr;

class Tasks : public testing::Test {
 protected:
  Tasks() { write_byte_tokenizer(folder_.path()); }

  std::string write(const std::string& text) {
    write_file_atomically(folder_ / "task.jsonl", text);
    return (folder_ / "task.jsonl").string();
  }
  std::string error_of(const std::string& text) {
    try {
      read_task(write(text), std::nullopt);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "none";
  }
  ScoreRequest request(const TaskChoice& choice, int64_t longest = 100, int32_t prefix = 256) {
    const std::string vocab = read_file(folder_ / "vocab.json"),
                      merges = read_file(folder_ / "merges.txt");
    Tokenizer tokenizer(load_gpt2({"vocab.json", vocab}, {"merges.txt", merges}));
    return request_of(choice, tokenizer, prefix, longest);
  }
  static std::string text_of(const ScoreRequest& request, bool of_context) {
    std::string text;
    for (size_t i = of_context ? 0 : request.num_context;
         i < (of_context ? request.num_context : request.tokens.size()); ++i)
      text += byte_of_token(request.tokens[i]);
    return text;
  }

  TemporaryFolder folder_;
};

TEST_F(Tasks, ExamplesHaveEndingsOrContexts) {
  const Task task = read_task(
      write("{\"context\": \"c\", \"endings\": [\" a\", \" b\"], \"label\": 1}\n"
            "{\"contexts\": [\"c\", \"d\"], \"ending\": \" e\", \"label\": 0}\n"
            "{\"contexts\": [\"c\", \"d\"], \"endings\": [\" e\", \" f\"], \"label\": 0}\n"),
      std::nullopt);
  EXPECT_EQ(task.name, "task");
  EXPECT_FALSE(task.is_continuation);
  ASSERT_EQ(task.examples.size(), 3U);
  EXPECT_EQ(task.examples[0].choices[1].context + task.examples[0].choices[1].ending, "c b");
  EXPECT_EQ(task.examples[0].label, 1U);
  EXPECT_EQ(task.examples[1].choices[1].context + task.examples[1].choices[1].ending, "d e");
  EXPECT_EQ(read_task(folder_ / "task.jsonl", 2).examples.size(), 2U);
  EXPECT_TRUE(read_task(write("{\"context\": \"c\", \"endings\": [\" a\"]}\n"), std::nullopt)
                  .is_continuation);
}

// As the tokenizer.json of LLaMA: <|endoftext|> stands for its <s>.
TEST_F(Tasks, TextsBeginAsTheTokenizerSays) {
  const nlohmann::json vocab = nlohmann::json::parse(read_file(folder_ / "vocab.json"));
  const nlohmann::json end = {
      {"id", "<|endoftext|>"}, {"ids", {256}}, {"tokens", {"<|endoftext|>"}}};
  nlohmann::json model = {{"type", "BPE"}, {"vocab", vocab}, {"merges", nlohmann::json::array()}};
  model["vocab"].erase("<|endoftext|>");
  const nlohmann::json file = {
      {"added_tokens",
       {{{"id", 256},
         {"content", "<|endoftext|>"},
         {"special", true},
         {"normalized", false},
         {"lstrip", false},
         {"rstrip", false},
         {"single_word", false}}}},
      {"normalizer", nullptr},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
      {"post_processor",
       {{"type", "TemplateProcessing"},
        {"single",
         {{{"SpecialToken", {{"id", "<|endoftext|>"}, {"type_id", 0}}}},
          {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
        {"pair", nlohmann::json::array()},
        {"special_tokens", {{"<|endoftext|>", end}}}}},
      {"decoder", {{"type", "ByteLevel"}}},
      {"model", model}};
  const std::string text = file.dump();
  Tokenizer tokenizer(load_tokenizer({"tokenizer.json", text}, {}), SpecialTokens::kToken);
  const auto first_tokens = [&](const std::string& context) {
    const ScoreRequest made = request_of({context, "y"}, tokenizer, 7, 100);
    EXPECT_EQ(made.num_context + 1, made.tokens.size());
    return std::vector<int32_t>(made.tokens.begin(), made.tokens.end() - 1);
  };
  const int32_t x = 'x' - 33;
  EXPECT_EQ(first_tokens("x"), (std::vector<int32_t>{256, x}));
  EXPECT_EQ(first_tokens("<|endoftext|>x"), (std::vector<int32_t>{256, x}));
  EXPECT_EQ(first_tokens(""), (std::vector<int32_t>{256}));
}

TEST_F(Tasks, BrokenLinesAreNamed) {
  const std::string good = "{\"context\": \"c\", \"endings\": [\" a\", \" b\"], \"label\": 1}\n";
  EXPECT_THAT(error_of(good + "{\"context\": \"c\"\n"),
              HasSubstr("task.jsonl:2: not an example like"));
  EXPECT_THAT(error_of(good + good + "\n"), HasSubstr("task.jsonl:3: "));
  EXPECT_THAT(error_of("{\"context\": \"c\", \"endings\": [\"a\", \"b\"], \"label\": 2}\n"),
              HasSubstr("label 2 is none of the 2 choices"));
  EXPECT_THAT(error_of("{\"context\": \"c\", \"endings\": [\"a\", \"b\"]}\n"), HasSubstr("label"));
  EXPECT_THAT(error_of("{\"context\": \"c\", \"endings\": [\"a\", \"b\"], \"label\": 0.7}\n"),
              HasSubstr("label 0.7 is no integer"));
  EXPECT_THAT(error_of("{\"context\": \"c\", \"endings\": [\"a\", \"\"], \"label\": 0}\n"),
              HasSubstr("an ending is empty"));
  EXPECT_THAT(error_of("{\"context\": \"c\", \"endings\": 3, \"label\": 0}\n"),
              HasSubstr("task.jsonl:1: "));
  EXPECT_THAT(error_of("[1]\n"), HasSubstr("task.jsonl:1: "));
  EXPECT_THAT(error_of(""), HasSubstr("holds no examples"));
}

TEST_F(Tasks, RequestsAreThoseOfLmEval) {
  const ScoreRequest plain = request({"The sky", " blue"});
  EXPECT_EQ(text_of(plain, true), "The sky");
  EXPECT_EQ(text_of(plain, false), " blue");
  // Spaces at the end of the context are the ending's.
  const ScoreRequest spaced = request({"The sky ", "blue"});
  EXPECT_EQ(text_of(spaced, true), "The sky");
  EXPECT_EQ(text_of(spaced, false), " blue");
  const ScoreRequest empty = request({"", "blue"});
  EXPECT_EQ(empty.tokens.front(), 256);
  EXPECT_EQ(text_of(empty, false), "blue");
  EXPECT_THROW(request({"", "blue"}, 100, /*prefix=*/-1), std::runtime_error);
  // The last inputs are kept.
  const ScoreRequest cut = request({"The sky", " blue"}, 7);
  EXPECT_EQ(cut.num_inputs(), 7);
  EXPECT_EQ(text_of(cut, true), "sky");
  EXPECT_EQ(text_of(cut, false), " blue");
  EXPECT_THROW(request({"The sky", " blue"}, 4), std::runtime_error);
}

// The same files are compared with what `weft-data tasks` writes.
TEST_F(Tasks, WhatLmEvalMakesOfBenchmarksIsRead) {
  const std::filesystem::path golden =
      std::filesystem::path(std::getenv("WEFT_SOURCE_DIR")) / "tests/golden/lm_eval";
  int num_requests = 0;
  for (const char* name :
       {"hellaswag", "lambada_openai", "arc_easy", "piqa", "winogrande", "mmlu"}) {
    const Task task = read_task(golden / (name + std::string(".jsonl")), std::nullopt);
    EXPECT_EQ(task.name, name);
    EXPECT_EQ(task.is_continuation, task.name == "lambada_openai");
    for (const TaskExample& example : task.examples) {
      for (const TaskChoice& choice : example.choices) {
        const ScoreRequest asked = request(choice, 1000);
        const std::string all = text_of(asked, true) + text_of(asked, false);
        const size_t begin = choice.context.empty() ? all.size() - choice.ending.size() : 0;
        EXPECT_EQ(all.substr(begin), choice.context + choice.ending);
        ++num_requests;
      }
    }
  }
  EXPECT_EQ(num_requests, 3 * 4 + 6 + (4 + 3 + 5) + 2 * 2 + 3 * 2 + 3 * 4);
}

TEST_F(Tasks, TheLongerEndingWinsByCharactersNotBySum) {
  const Task task{.name = "t", .examples = {}};
  const TaskExample example{.choices = {{"c", " b\u00e4"}, {"c", " bcdefg"}}, .label = 1};
  const ExampleResult result = judge(task, example, {{-3.0, false}, {-4.0, false}});
  EXPECT_FALSE(result.is_correct);
  EXPECT_TRUE(result.is_correct_normalised);  // -3 / 2 < -4 / 6
  const ExampleResult other = judge(task, example, {{-3.0, false}, {-9.5, false}});
  EXPECT_FALSE(other.is_correct_normalised);  // -3 / 2 > -9.5 / 6, and -3 / 3 for bytes
  // A second space is the ending's own.
  const TaskExample spaced{.choices = {{"c", "  b"}, {"c", " bc"}}, .label = 1};
  EXPECT_TRUE(judge(task, spaced, {{-2.0, false}, {-1.5, false}}).is_correct_normalised);
  EXPECT_FALSE(judge(task, spaced, {{-2.0, false}, {-2.5, false}}).is_correct_normalised);
}

TEST_F(Tasks, SummariesHaveTheStandardErrorOfTheMean) {
  std::vector<ExampleResult> results(10);
  for (size_t i = 0; i < results.size(); ++i)
    results[i] = {.scores = {{-2.0, true}}, .is_correct = i < 3, .is_correct_normalised = i < 5};
  const TaskResult total = summarise(results);
  EXPECT_DOUBLE_EQ(total.accuracy, 0.3);
  EXPECT_NEAR(total.accuracy_error, 0.152752523, 1e-9);  // statistics.stdev([1]*3+[0]*7)/10**0.5
  EXPECT_DOUBLE_EQ(total.accuracy_normalised, 0.5);
  EXPECT_DOUBLE_EQ(total.perplexity, std::exp(2.0));
}

}  // namespace
}  // namespace weft
