#include "preprocess/benchmarks/benchmarks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "preprocess/benchmarks/python_text.h"

namespace weft {
namespace {

using Row = nlohmann::json;
using Example = nlohmann::ordered_json;

std::string text_of(const Row& row, const char* key) { return row.at(key).get<std::string>(); }

// Some files have labels as numbers, others as texts. The hub's test sets have none.
int64_t label_of(const Row& label) {
  if (label.is_number_integer()) return label.get<int64_t>();
  const auto text = label.get<std::string>();
  if (text.size() == 1 && text[0] >= '0' && text[0] <= '9') return text[0] - '0';
  throw std::runtime_error(text.empty() ? "its label is empty, as those of test sets are"
                                        : "its label '" + text + "' is no number");
}

Example choices(const std::string& context, std::vector<std::string> endings, int64_t label) {
  if (label < 0 || label >= std::ssize(endings))
    throw std::runtime_error(
        fmt::format("its label {} is none of the {} choices", label, endings.size()));
  for (std::string& ending : endings) ending.insert(ending.begin(), ' ');
  return {{"context", context}, {"endings", endings}, {"label", label}};
}

// lm_eval/tasks/hellaswag/utils.py
Example hellaswag(const Row& row) {
  const std::string context = text_of(row, "ctx_a") + " " + capitalized(text_of(row, "ctx_b"));
  std::vector<std::string> endings = row.at("endings").get<std::vector<std::string>>();
  for (std::string& ending : endings) ending = without_wikihow_marks(ending);
  return choices(without_wikihow_marks(text_of(row, "activity_label") + ": " + context), endings,
                 label_of(row.at("label")));
}

// lm_eval/tasks/lambada/lambada_openai.yaml
Example lambada(const Row& row) {
  const std::string text = text_of(row, "text");
  const size_t last = text.rfind(' ');
  const size_t word = last == text.npos ? 0 : last + 1;
  return {{"context", text.substr(0, word == 0 ? 0 : last)},
          {"endings", {" " + text.substr(word)}}};
}

// lm_eval/tasks/arc/arc_easy.yaml
Example arc(const Row& row) {
  const Row& of_row = row.at("choices");
  const auto names = of_row.at("label").get<std::vector<std::string>>();
  const std::string answer = text_of(row, "answerKey");
  const auto found = std::ranges::find(names, answer);
  if (found == names.end())
    throw std::runtime_error("no choice has its answerKey '" + answer + "'");
  return choices("Question: " + text_of(row, "question") + "\nAnswer:",
                 of_row.at("text").get<std::vector<std::string>>(), found - names.begin());
}

// lm_eval/tasks/piqa/piqa.yaml
Example piqa(const Row& row) {
  return choices("Question: " + text_of(row, "goal") + "\nAnswer:",
                 {text_of(row, "sol1"), text_of(row, "sol2")}, label_of(row.at("label")));
}

// lm_eval/tasks/winogrande/preprocess_winogrande.py
Example winogrande(const Row& row) {
  const std::string sentence = text_of(row, "sentence");
  const size_t gap = sentence.find('_');
  if (gap == sentence.npos) throw std::runtime_error("its sentence has no '_'");
  const int64_t answer = label_of(row.at("answer"));
  if (answer < 1 || answer > 2) throw std::runtime_error("its answer is neither 1 nor 2");
  const std::string begin = sentence.substr(0, gap);
  return {{"contexts", {begin + text_of(row, "option1"), begin + text_of(row, "option2")}},
          {"ending", " " + std::string(stripped(std::string_view(sentence).substr(gap + 1)))},
          {"label", answer - 1}};
}

// lm_eval/tasks/mmlu/default/_default_template_yaml and the descriptions of its subjects
Example mmlu(const Row& row) {
  std::string subject = text_of(row, "subject");
  std::ranges::replace(subject, '_', ' ');
  const auto texts = row.at("choices").get<std::array<std::string, 4>>();
  const std::string question = text_of(row, "question");
  return choices(fmt::format("The following are multiple choice questions (with answers) about {}."
                             "\n\n{}\nA. {}\nB. {}\nC. {}\nD. {}\nAnswer:",
                             subject, stripped(question), texts[0], texts[1], texts[2], texts[3]),
                 {"A", "B", "C", "D"}, label_of(row.at("answer")));
}

constexpr Benchmark kBenchmarks[] = {
    {"hellaswag",
     "hf://datasets/Rowan/hellaswag@218ec52e09a7e7462a5400043bb9a69a41d06b76/"
     "data/validation-00000-of-00001.parquet",
     "899813071e1e95efafec90f856e1987d2150fa4d020fc005df6962c259f660cd", hellaswag},
    {"lambada_openai",
     "hf://datasets/EleutherAI/lambada_openai@900124bf3b8235c6daf21033af9948b3f07346c4/"
     "data/lambada_test.jsonl",
     "4aa8d02cd17c719165fc8a7887fddd641f43fcafa4b1c806ca8abc31fabdb226", lambada},
    {"arc_easy",
     "hf://datasets/allenai/ai2_arc@210d026faf9955653af8916fad021475a3f00453/"
     "ARC-Easy/test-00000-of-00001.parquet",
     "4160597d618ae851c7eb04e281574f3f654776216ac6b6641588d64527b47177", arc},
    {"arc_challenge",
     "hf://datasets/allenai/ai2_arc@210d026faf9955653af8916fad021475a3f00453/"
     "ARC-Challenge/test-00000-of-00001.parquet",
     "62f03257e737aed263f55c6abf87c7bb0028a44a6bdd2a26eb1279eb42c1d1e9", arc},
    {"piqa",
     "hf://datasets/baber/piqa@142f6d7367fd9877f0fb3b5734ea6a545f54cdd1/piqa_validation.parquet",
     "2b17ee1215b1ceb2ddabf4c90a05c5a8b833bef9d207960f57d111c43a2080f3", piqa},
    {"winogrande",
     "hf://datasets/allenai/winogrande@01e74176c63542e6b0bcb004dcdea22d94fb67b5/"
     "winogrande_xl/validation-00000-of-00001.parquet",
     "", winogrande},
    {"mmlu",
     "hf://datasets/cais/mmlu@c30699e8356da336a370243923dbaf21066bb9fe/"
     "all/test-00000-of-00001.parquet",
     "74a41822ce7d3def56e1682f958469c04642a5336a5ce912fa375fdb90fb25d7", mmlu},
};

}  // namespace

std::span<const Benchmark> benchmarks() { return kBenchmarks; }

const Benchmark* find_benchmark(const std::string& name) {
  const auto found = std::ranges::find(kBenchmarks, name, &Benchmark::name);
  return found == std::end(kBenchmarks) ? nullptr : found;
}

std::string benchmark_names() {
  std::string names;
  for (const Benchmark& each : kBenchmarks)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", each.name);
  return names;
}

}  // namespace weft
