#include "inspect/lookup/megatron_arguments.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "indexed_dataset/terminal/option_set.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;
using Values = std::vector<std::string>;
// The words behind each argument, by its name with underscores; "None" is none.
using Arguments = std::map<std::string, Values>;

constexpr std::string_view kNumbers[] = {
    "seq_length", "seed",          "train_samples",     "train_iters",
    "eval_iters", "eval_interval", "global_batch_size", "micro_batch_size",
};
constexpr std::string_view kTexts[] = {
    "split",          "data_cache_path", "data_args_path",           "per_split_data_args_path",
    "vocab_file",     "merge_file",      "step_batch_size_schedule", "dataloader_type",
    "blend_schedule",
};
constexpr std::string_view kLists[] = {
    "data_path",
    "train_data_path",
    "valid_data_path",
    "test_data_path",
    "train_weighted_split_paths",
    "valid_weighted_split_paths",
    "test_weighted_split_paths",
};
// With any of these a run takes samples that are not computed here.
constexpr std::string_view kUnknown[] = {
    "mock_data",
    "fim_data",
    "sft",
    "curriculum_learning",
    "curriculum_learning_legacy",
    "data_efficiency_curriculum_learning",
    "decrease_batch_size_if_needed",
    "full_validation",
    "phase_transition_iterations",
    "skip_train_iteration_range",
    "iterations_to_skip",
    "hybrid_context_parallel",
    "packing_impl",
};

[[noreturn]] void throw_bad(const std::string& what) {
  throw std::invalid_argument("--megatron-args: " + what);
}

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// A Python value as it is printed: None, True, 43, text, or ['0.4', '/data/a'].
Values python_values(std::string_view text) {
  if (text == "None" || text.empty()) return {};
  if (text.front() != '[') return {std::string(text)};
  Values values;
  for (size_t at = 1; at < text.size() && text[at] != ']';) {
    if (text[at] == ' ' || text[at] == ',') {
      ++at;
      continue;
    }
    const bool is_quoted = text[at] == '\'' || text[at] == '"';
    const size_t begin = is_quoted ? at + 1 : at;
    const size_t end = is_quoted ? text.find(text[at], begin) : text.find_first_of(",]", begin);
    if (end == std::string_view::npos)
      throw_bad("a list without its end: " + std::string(text.substr(0, 200)));
    values.emplace_back(trimmed(text.substr(begin, end - begin)));
    at = is_quoted ? end + 1 : end;
  }
  return values;
}

// Reads "  seed ........ 43", whatever a launcher has put before it; nothing for other lines.
void add_banner_line(std::string_view line, Arguments& arguments) {
  const size_t dots = line.find(" ..");
  if (dots == std::string_view::npos) return;
  const size_t end_of_dots = line.find_first_not_of('.', dots + 1);
  std::string_view name = trimmed(line.substr(0, dots));
  if (const size_t space = name.rfind(' '); space != std::string_view::npos)
    name = name.substr(space + 1);
  const auto is_name = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  if (name.empty() || !std::all_of(name.begin(), name.end(), is_name)) return;
  const std::string_view value =
      end_of_dots == std::string_view::npos ? "" : trimmed(line.substr(end_of_dots));
  arguments[std::string(name)] = python_values(value);
}

// The arguments of the last banner; nothing if there is none.
std::optional<Arguments> find_banner(std::string_view text) {
  std::optional<Arguments> arguments;
  bool is_inside = false;
  for (const std::string_view line : lines_of(text)) {
    if (line.find("--- end of arguments ---") != std::string_view::npos) {
      is_inside = false;
    } else if (line.find("--- arguments ---") != std::string_view::npos) {
      arguments.emplace();
      is_inside = true;
    } else if (is_inside) {
      add_banner_line(line, *arguments);
    }
  }
  if (is_inside) throw_bad("the banner of arguments has no end");
  return arguments;
}

// The words of a command line, as a shell divides them.
Values shell_words(std::string_view text) {
  Values words;
  std::string word;
  bool has_word = false;
  char quote = 0;
  const auto end_word = [&] {
    if (has_word) words.push_back(std::exchange(word, {}));
    has_word = false;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '$' && quote != '\'') {
      throw_bad(
          "a shell would replace " + std::string(text.substr(i, 40)) +
          "; give the words as the program got them (the log's banner of arguments has them)");
    }
    if (quote != 0) {
      if (c == quote) quote = 0;
      if (c != quote && quote != 0) word += c;
      continue;
    }
    if (c == '\\' && i + 1 < text.size()) {
      const bool ends_line = text[i + 1] == '\n' || text.substr(i + 1, 2) == "\r\n";
      if (!ends_line) {
        word += text[i + 1];
        has_word = true;
      }
      i += ends_line && text[i + 1] == '\r' ? 2 : 1;
    } else if (c == '\'' || c == '"') {
      quote = c;
      has_word = true;
    } else if (c == '#' && !has_word) {
      i = std::min(text.find('\n', i), text.size()) - 1;
    } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      end_word();
    } else {
      word += c;
      has_word = true;
    }
  }
  if (quote != 0) throw_bad("a quote without its end");
  end_word();
  return words;
}

// "--seed 43" and "--seed=43"; words before the first flag are a program and its launcher.
Arguments arguments_of_words(const Values& words) {
  Arguments arguments;
  Values* values = nullptr;
  for (const std::string& word : words) {
    if (!word.starts_with("--") || word.size() < 3) {
      if (values) values->push_back(word);
      continue;
    }
    const size_t equals = word.find('=');
    std::string name = word.substr(2, equals == std::string::npos ? equals : equals - 2);
    std::replace(name.begin(), name.end(), '-', '_');
    values = &arguments[name];
    values->clear();
    if (equals != std::string::npos) values->push_back(word.substr(equals + 1));
  }
  // A flag without a value is set.
  for (auto& [name, of_name] : arguments) {
    if (of_name.empty()) of_name = {"True"};
  }
  return arguments;
}

Json number_of(const std::string& name, const std::string& text) {
  const auto number = parse_int64(text);
  if (!number) throw_bad(name + " is '" + text + "', which is no integer");
  return *number;
}

const Values* find(const Arguments& arguments, std::string_view name) {
  const auto found = arguments.find(std::string(name));
  return found == arguments.end() || found->second.empty() ? nullptr : &found->second;
}

void refuse_unknown(const Arguments& arguments) {
  std::string given;
  for (const std::string_view name : kUnknown) {
    const Values* values = find(arguments, name);
    if (!values || values->front() == "False") continue;
    given += (given.empty() ? "" : ", ") + std::string(name) + " " + values->front();
  }
  if (!given.empty())
    throw_bad("with " + given + " a run takes samples that are not computed here");
  // DeepSpeed reads its curricula from this file, after Megatron has printed its arguments.
  for (const std::string_view name : {"deepspeed_config", "deepscale_config"}) {
    if (const Values* values = find(arguments, name)) {
      throw_bad("with " + std::string(name) + " " + values->front() +
                " a run follows that file, too, which is not read here; if it has neither "
                "curriculum_learning nor data_efficiency, take " +
                std::string(name) + " out of the arguments");
    }
  }
}

Json converted(const Arguments& arguments) {
  // Megatron's defaults.
  Json json = {
      {"split", "969, 30, 1"}, {"seed", 1234}, {"eval_iters", 100}, {"eval_interval", 1000}};
  for (const std::string_view name : kNumbers) {
    if (const Values* values = find(arguments, name))
      json[std::string(name)] = number_of(std::string(name), values->front());
  }
  for (const std::string_view name : kTexts) {
    if (const Values* values = find(arguments, name)) json[std::string(name)] = values->front();
  }
  for (const std::string_view name : kLists) {
    if (const Values* values = find(arguments, name)) json[std::string(name)] = *values;
  }
  if (const Values* values = find(arguments, "rampup_batch_size")) {
    for (const std::string& value : *values)
      json["rampup_batch_size"].push_back(number_of("rampup_batch_size", value));
  }
  if (const Values* sharding = find(arguments, "data_sharding"); sharding)
    json["no_data_sharding"] = sharding->front() == "False";
  if (find(arguments, "no_data_sharding")) json["no_data_sharding"] = true;
  if (const Values* surplus = find(arguments, "mid_level_dataset_surplus")) {
    json["mid_level_dataset_surplus"] = Json::parse(surplus->front(), nullptr, false);
    if (!json["mid_level_dataset_surplus"].is_number())
      throw_bad("mid_level_dataset_surplus is '" + surplus->front() + "', which is no number");
  }
  return json;
}

// Nothing is guessed that decides which samples a run takes.
void check_told(const Json& manifest) {
  const Json& arguments = manifest["arguments"];
  if (!arguments.contains("seq_length")) throw_bad("it does not tell seq_length");
  if (!arguments.contains("train_samples") && !arguments.contains("train_iters"))
    throw_bad("it tells neither train_samples nor train_iters");
  if (!arguments.contains("global_batch_size"))
    throw_bad(
        "it tells neither global_batch_size, nor micro_batch_size and data_parallel_size "
        "(--data-parallel-size)");
  const std::string loader = arguments.value("dataloader_type", "single");
  if (loader != "single" && loader != "cyclic")
    throw_bad("with dataloader_type " + loader + " a run takes samples that are not computed here");
  if (loader == "cyclic" &&
      !(manifest.contains("data_parallel_size") && arguments.contains("micro_batch_size")))
    throw_bad(
        "with dataloader_type cyclic the samples depend on micro_batch_size and data_parallel_size, "
        "which it does not both tell (--data-parallel-size)");
}

}  // namespace

Json parse_megatron_arguments(std::string_view text, std::optional<int64_t> data_parallel_size) {
  std::optional<Arguments> arguments = find_banner(text);
  if (!arguments) arguments = arguments_of_words(shell_words(text));
  if (arguments->empty()) {
    throw_bad(
        "it has neither a banner of arguments (--- arguments ---) nor words such as --seed 43");
  }
  refuse_unknown(*arguments);
  Json manifest = {{"arguments", converted(*arguments)}};
  if (const Values* size = find(*arguments, "data_parallel_size"))
    manifest["data_parallel_size"] = number_of("data_parallel_size", size->front());
  if (data_parallel_size) {
    if (manifest.value("data_parallel_size", *data_parallel_size) != *data_parallel_size) {
      throw_bad("it tells data_parallel_size " + manifest["data_parallel_size"].dump() +
                ", and --data-parallel-size is " + std::to_string(*data_parallel_size) +
                ": leave the option out");
    }
    manifest["data_parallel_size"] = *data_parallel_size;
  }
  Json& told = manifest["arguments"];
  // Megatron's default: one micro-batch of each rank.
  int64_t batch = 0;
  if (!told.contains("global_batch_size") && told.contains("micro_batch_size") &&
      manifest.contains("data_parallel_size") &&
      !__builtin_mul_overflow(told["micro_batch_size"].get<int64_t>(),
                              manifest["data_parallel_size"].get<int64_t>(), &batch))
    told["global_batch_size"] = batch;
  check_told(manifest);
  return manifest;
}

}  // namespace weft
