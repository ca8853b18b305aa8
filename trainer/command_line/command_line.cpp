#include "trainer/command_line/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <type_traits>

#include "indexed_dataset/base/terminal/option_set.h"
#include "indexed_dataset/base/terminal/option_table.h"
#include "trainer/command_line/deepspeed_config.h"
#include "trainer/command_line/megatron_flags.h"
#include "trainer/command_line/options.h"
#include "trainer/command_line/unknown_flags.h"

namespace weft {

namespace {

// --- text to value: each returns what is wrong, or an empty string ---

std::string parse(const std::string& text, int64_t& value) {
  const std::optional<int64_t> number = parse_int64(text);
  value = number.value_or(value);
  if (number) return "";
  return is_written_as_integer(text) ? "does not fit into 64 bits" : "is not an integer";
}

template <typename Real>
requires std::is_floating_point_v<Real> std::string parse(const std::string& text, Real& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range) return "is too large or too small";
  const bool whole = error == std::errc{} && end == text.data() + text.size();
  return whole && std::isfinite(value) ? "" : "is not a number";
}

std::string parse(const std::string& text, std::string& value) {
  value = text;
  return "";
}

// The names of an enumeration's values.
constexpr auto& names_of(LrDecayStyle) { return kLrDecayStyles; }
constexpr auto& names_of(WsdDecayStyle) { return kWsdDecayStyles; }
constexpr auto& names_of(WeightDecayStyle) { return kWeightDecayStyles; }
constexpr auto& names_of(LogFormat) { return kLogFormats; }
constexpr auto& names_of(OrderKind) { return kOrderKinds; }

template <typename Enum>
std::string joined_names(const char* between) {
  std::string names;
  for (const auto& [name, value] : names_of(Enum{}))
    names += fmt::format("{}{}", names.empty() ? "" : between, name);
  return names;
}

template <typename Enum>
requires std::is_enum_v<Enum> std::string parse(const std::string& text, Enum& value) {
  for (const auto& [name, candidate] : names_of(Enum{})) {
    if (text != name) continue;
    value = candidate;
    return "";
  }
  return "is none of " + joined_names<Enum>(", ");
}

template <typename T>
std::string parse(const std::string& text, std::optional<T>& value) {
  return parse(text, value.emplace());
}

template <typename T>
struct IsVector : std::false_type {};
template <typename T>
struct IsVector<std::vector<T>> : std::true_type {};

// The options that nearly every run has; --help-all shows the others, too.
bool is_usual(const std::string& name) {
  static constexpr std::string_view kUsual[] = {"num-layers",
                                                "hidden-size",
                                                "ffn-hidden-size",
                                                "num-attention-heads",
                                                "group-query-attention",
                                                "num-query-groups",
                                                "seq-length",
                                                "max-position-embeddings",
                                                "normalization",
                                                "swiglu",
                                                "position-embedding-type",
                                                "untie-embeddings-and-output-weights",
                                                "disable-bias-linear",
                                                "micro-batch-size",
                                                "global-batch-size",
                                                "train-iters",
                                                "train-samples",
                                                "eval-iters",
                                                "eval-interval",
                                                "optimizer",
                                                "lr",
                                                "min-lr",
                                                "lr-decay-style",
                                                "lr-warmup-fraction",
                                                "weight-decay",
                                                "clip-grad",
                                                "seed",
                                                "bf16",
                                                "device",
                                                "tensor-model-parallel-size",
                                                "pipeline-model-parallel-size",
                                                "sequence-parallel",
                                                "use-distributed-optimizer",
                                                "recompute-granularity",
                                                "data-path",
                                                "split",
                                                "vocab-size",
                                                "save",
                                                "save-interval",
                                                "load",
                                                "log-interval",
                                                "tensorboard-dir",
                                                "dry-run"};
  return std::ranges::find(kUsual, name) != std::end(kUsual);
}

// Declares every option to CLI11. Values arrive as text and are parsed here, so that all bad values
// are reported together.
class Declare {
 public:
  // With `shows_all` the help lists every option, else the usual ones.
  Declare(CLI::App& app, ParsedArguments& parsed, std::vector<std::string>& flags, bool shows_all)
      : app_(app), parsed_(parsed), flags_(flags), shows_all_(shows_all) {}

  void group(const char* name) { group_name_ = name; }

  template <typename T>
  void operator()(const std::string& name, T& value, ChangeEffect, const std::string& help) {
    const std::string flag = "--" + name;
    flags_.push_back(flag);
    group_ = shows_all_ || is_usual(name) ? group_name_ : "";
    if constexpr (std::is_same_v<T, bool>) {
      app_.add_flag(spellings(flag), value, help)->group(group_);
    } else if constexpr (IsVector<T>::value) {
      // The callback runs at each occurrence, with the values of that one.
      app_.add_option_function<std::vector<std::string>>(
              flag,
              [this, flag, &value, num_given = 0](const auto& texts) mutable {
                if (num_given++ == 1)
                  parsed_.notes.push_back(flag + " is given more than once: the last one counts");
                set_all(flag, texts, value);
              },
              help)
          ->group(group_)
          ->trigger_on_parse()
          ->expected(0, -1);
    } else {
      app_.add_option_function<std::string>(
              spellings(flag),
              [this, flag, &value](const std::string& text) {
                report(flag, text, parse(text, value));
              },
              help + default_text(value))
          ->group(group_)
          ->expected(0, 1)  // a missing value is reported like a bad one, together with the rest
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
          ->type_name(type_name<T>());
    }
  }

 private:
  // Returns the flag with its other name in a Megatron, if it has one.
  static std::string spellings(const std::string& flag) {
    static constexpr std::pair<const char*, const char*> kOthers[] = {
        {"--no-log-learning-rate-to-tensorboard", "--no-log-learnig-rate-to-tensorboard"},
        {"--optimizer-offload", "--optimizer-cpu-offload"},
        {"--muon-nesterov", "--muon-use-nesterov"},
        {"--layernorm-epsilon", "--norm-epsilon"},
        {"--recompute-num-layers", "--checkpoint-num-layers"},
        {"--override-lr-scheduler", "--override-opt_param-scheduler"},
        {"--use-checkpoint-lr-scheduler", "--use-checkpoint-opt_param-scheduler"},
        {"--check-weights-interval", "--check-weight-hash-across-dp-replicas-interval"},
        {"--eod-token-id", "--null-tokenizer-eod-id"},
    };
    for (const auto& [ours, theirs] : kOthers) {
      if (flag == ours) return flag + "," + theirs;
    }
    return flag;
  }
  void report(const std::string& flag, const std::string& text, const std::string& what) {
    if (!text.empty() && what.empty()) return;
    parsed_.problems.push_back(text.empty() ? flag + ": needs a value"
                                            : fmt::format("{} {}: {}", flag, text, what));
    parsed_.unread_flags.push_back(flag);
  }
  template <typename T>
  void set_all(const std::string& flag, const std::vector<std::string>& texts,
               std::vector<T>& values) {
    values.assign(texts.size(), T{});
    for (size_t i = 0; i < texts.size(); ++i) report(flag, texts[i], parse(texts[i], values[i]));
  }
  template <typename T>
  static std::string type_name() {
    if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, std::optional<int64_t>>)
      return "INT";
    if constexpr (std::is_floating_point_v<T> || std::is_same_v<T, std::optional<double>>)
      return "FLOAT";
    if constexpr (std::is_enum_v<T>) return joined_names<T>("|");
    return "TEXT";
  }
  template <typename T>
  static std::string default_text(const T& value) {
    std::string text;
    if constexpr (std::is_arithmetic_v<T>) text = value == T{} ? "" : fmt::format("{}", value);
    if constexpr (std::is_enum_v<T>) text = name_of(value);
    if constexpr (std::is_same_v<T, std::string>) text = value;
    return text.empty() ? "" : " [" + text + "]";
  }

  CLI::App& app_;
  ParsedArguments& parsed_;
  std::vector<std::string>& flags_;
  const bool shows_all_;
  std::string group_name_, group_;  // that of the table, and that of the help; "" is not shown
};

bool is_one_of(std::string_view value, std::string_view choices) {
  while (true) {
    const size_t bar = choices.find('|');
    if (choices.substr(0, bar) == value) return true;
    if (bar == std::string_view::npos) return false;
    choices.remove_prefix(bar + 1);
  }
}

void declare_known_flag(CLI::App& app, const KnownFlag& known, bool supported,
                        ParsedArguments& parsed) {
  const std::string flag(known.flag);
  const auto seen = [&parsed, &known, flag, supported](const std::vector<std::string>& values) {
    const std::string given = values.empty() ? flag : fmt::format("{} {}", flag, values[0]);
    const bool harmless =
        known.values.empty() || (!values.empty() && is_one_of(values[0], known.values));
    if (!supported) {
      const bool has_other_name =
          known.reason.starts_with("give ") || known.reason.starts_with("use ");
      parsed.problems.push_back(fmt::format("{} is not supported{}: {}", flag,
                                            has_other_name ? "" : " yet", known.reason));
    } else if (!harmless) {
      parsed.problems.push_back(
          fmt::format("{} is not supported yet: only {} is", given, known.values));
    } else {
      parsed.notes.push_back(fmt::format("{} has no effect: {}", given, known.reason));
    }
  };
  if (known.num_values == 0) {
    app.add_flag_callback(flag, [seen] { seen({}); })->group("");
  } else {
    app.add_option_function<std::vector<std::string>>(flag, seen)
        ->group("")
        ->expected(0, known.num_values < 0 ? -1 : 1);
  }
}

// Takes off one pair of quotes: scripts that do not pass through `bash -c` deliver those of
// 'type:transformer' literally.
void strip_stray_quotes(std::string& text) {
  if (text.size() >= 2 && text.front() == text.back() &&
      (text.front() == '\'' || text.front() == '"')) {
    text = text.substr(1, text.size() - 2);
  }
}

constexpr std::string_view kSummary = "Trains a GPT on Megatron datasets.";
constexpr std::string_view kExample =
    "  weft-train --num-layers 12 --hidden-size 768 --num-attention-heads 12\n"
    "    --seq-length 1024 --max-position-embeddings 1024 --micro-batch-size 8\n"
    "    --global-batch-size 64 --train-iters 1000 --lr 6e-4 --bf16\n"
    "    --data-path my_text_document --save checkpoints --save-interval 100\n"
    "    --load checkpoints";

// The text tells the number of CUDA devices, or why there are none: scripts choose a model by it.
std::string version_text() {
  std::string why;
  const int devices = num_cuda_devices(&why);
  return fmt::format("weft-train {} ({})\nCUDA devices: {}{}\n", WEFT_VERSION, WEFT_BUILD, devices,
                     devices == 0 ? " (" + why + ")" : "");
}

}  // namespace

ParsedArguments parse_arguments(std::vector<std::string> arguments) {
  ParsedArguments parsed;
  CLI::App app(fmt::format("{}\n\n{}\n\nWith --dry-run it says what the run would be and need, "
                           "and ends.",
                           kSummary, kExample),
               "weft-train");
  app.allow_extras();
  app.option_defaults()->always_capture_default(false);
  app.set_help_flag("-h,--help", "print the usual options and exit");
  app.set_help_all_flag("--help-all", "print all options and exit");
  const ProgramText program_text = find_program_text(arguments);
  const bool shows_all = program_text != nullptr || std::ranges::count(arguments, "--help-all") > 0;
  app.add_option("--args", "a file of flags, or a run_manifest.json, that stand before all others");
  bool version = false;
  app.add_flag("--version", version, "print the version and the CUDA devices, and exit");
  std::vector<std::string> flags{"-h", "--help", "--help-all", "--args", "--version"};
  Declare declare(app, parsed, flags, shows_all);
  visit_options(parsed.config, declare);
  app.add_flag("--mock-data", parsed.mock_data, "train on made-up documents, to try a shape")
      ->group("Data");
  flags.emplace_back("--mock-data");
  // --eval-only is Megatron-DeepSpeed's word for --skip-train.
  app.add_flag("--eval-only", parsed.config.skip_train)->group("");
  for (const KnownFlag& known : flags_without_effect())
    declare_known_flag(app, known, true, parsed);
  for (const KnownFlag& known : flags_not_supported())
    declare_known_flag(app, known, false, parsed);

  if (program_text != nullptr) {
    const std::string summary(kSummary.substr(0, kSummary.size() - 1));
    parsed.help =
        program_text({"weft-train",
                      summary,
                      "weft-train " WEFT_VERSION,
                      {{"", summary, std::string(kExample.substr(2)), option_entries(app)}}});
    return parsed;
  }
  const size_t num_arguments = arguments.size();
  for (std::string& argument : arguments) strip_stray_quotes(argument);
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes a vector back to front
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::CallForHelp&) {
    parsed.help = wrapped_help(app.help());
    return parsed;
  } catch (const CLI::CallForAllHelp&) {
    parsed.help = wrapped_help(app.help());
    return parsed;
  } catch (const CLI::ParseError& error) {
    parsed.problems.emplace_back(error.what());
    parsed.stopped_early = true;
  }
  if (version) parsed.help = version_text();
  if (num_arguments == 0) {
    parsed.problems.emplace_back(
        "no arguments are given; --help shows the usual ones, and this is a run:\n\n" +
        std::string(kExample));
    parsed.stopped_early = true;
  }
  const auto is_given = [&app](const std::string& flag) { return app.count(flag) > 0; };
  apply_deepspeed_config(parsed.config, is_given, parsed.problems, parsed.notes);
  load_curriculum_metrics(parsed.config, parsed.problems);
  if (parsed.mock_data && !parsed.config.paths.empty())
    parsed.problems.emplace_back("--mock-data and --data-path exclude each other");
  const UnknownFlags unknown = unknown_flags(app.remaining(), flags);
  parsed.problems.insert(parsed.problems.end(), unknown.problems.begin(), unknown.problems.end());
  if (unknown.are_slips) parsed.stopped_early = true;
  return parsed;
}

void add_problems(ParsedArguments& parsed, const std::vector<std::string>& of_config) {
  if (parsed.stopped_early) return;
  const auto names = [](const std::string& problem, const std::string& flag) {
    for (size_t at = problem.find(flag); at != std::string::npos; at = problem.find(flag, at + 1)) {
      const size_t end = at + flag.size();
      const bool goes_on =
          end < problem.size() && (std::isalnum(static_cast<unsigned char>(problem[end])) != 0 ||
                                   problem[end] == '-' || problem[end] == '_');
      if (!goes_on) return true;
    }
    return false;
  };
  for (const std::string& problem : of_config) {
    const bool follows = std::any_of(parsed.unread_flags.begin(), parsed.unread_flags.end(),
                                     [&](const std::string& flag) { return names(problem, flag); });
    if (!follows) parsed.problems.push_back(problem);
  }
}

}  // namespace weft
