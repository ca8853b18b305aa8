#include "preprocess/benchmarks/lm_eval_samples.h"

#include <algorithm>
#include <regex>
#include <stdexcept>
#include <vector>

namespace weft {
namespace {

using Texts = std::vector<std::string>;

bool are_equal(const Texts& texts) {
  return std::ranges::all_of(texts, [&](const std::string& text) { return text == texts[0]; });
}

// The index of the right choice, which lm-evaluation-harness writes as text; or the choice itself.
int64_t label_of_target(const std::string& target, const Texts& endings) {
  const bool is_number =
      !target.empty() && target.size() < 4 && target.find_first_not_of("0123456789") == target.npos;
  if (is_number && std::stoul(target) < endings.size()) return std::stol(target);
  const auto found = std::ranges::find_if(endings, [&](const std::string& ending) {
    return ending == target || ending == " " + target;
  });
  if (found == endings.end() || are_equal(endings))
    throw std::runtime_error("its target '" + target + "' is none of the choices");
  return found - endings.begin();
}

}  // namespace

std::optional<std::string> task_of_samples(const std::string& file_name) {
  static const std::regex kName(R"(samples_(.+)_\d{4}-\d\d-\d\dT.*\.jsonl)");
  std::smatch parts;
  if (!std::regex_match(file_name, parts, kName)) return std::nullopt;
  return parts[1].str();
}

nlohmann::ordered_json example_of_sample(const nlohmann::json& sample) {
  const nlohmann::json& requests = sample.at("arguments");
  Texts contexts, endings;
  for (size_t i = 0; i < requests.size(); ++i) {
    const nlohmann::json& request = requests.at("gen_args_" + std::to_string(i));
    if (!request.at("arg_1").is_string())
      throw std::runtime_error(
          "its task lets the model write: only choices and continuations are "
          "log-likelihoods");
    contexts.push_back(request.at("arg_0"));
    endings.push_back(request.at("arg_1"));
  }
  if (endings.empty()) throw std::runtime_error("it has no requests");
  if (endings.size() == 1) return {{"context", contexts[0]}, {"endings", endings}};
  nlohmann::ordered_json example;
  are_equal(contexts) ? example["context"] = contexts[0] : example["contexts"] = contexts;
  are_equal(endings) ? example["ending"] = endings[0] : example["endings"] = endings;
  example["label"] = label_of_target(sample.at("target").get<std::string>(), endings);
  return example;
}

}  // namespace weft
