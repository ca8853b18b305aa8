#include "trainer/command_line/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <type_traits>

#include "indexed_dataset/base/process/nearest_name.h"
#include "indexed_dataset/base/terminal/option_set.h"
#include "trainer/command_line/deepspeed_config.h"
#include "trainer/command_line/megatron_flags.h"
#include "trainer/command_line/options.h"

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

template <typename Enum, size_t kSize>
std::string parse_name(const std::string& text, Enum& value,
                       const std::pair<const char*, Enum> (&names)[kSize]) {
  std::string choices;
  for (const auto& [name, candidate] : names) {
    if (text == name) {
      value = candidate;
      return "";
    }
    choices += fmt::format("{}{}", choices.empty() ? "" : ", ", name);
  }
  return "is none of " + choices;
}

std::string parse(const std::string& text, LrDecayStyle& value) {
  return parse_name(text, value, kLrDecayStyles);
}
std::string parse(const std::string& text, LogFormat& value) {
  return parse_name(text, value, kLogFormats);
}
std::string parse(const std::string& text, OrderKind& value) {
  return parse_name(text, value, kOrderKinds);
}

template <typename T>
std::string parse(const std::string& text, std::optional<T>& value) {
  return parse(text, value.emplace());
}

template <typename T>
struct IsVector : std::false_type {};
template <typename T>
struct IsVector<std::vector<T>> : std::true_type {};

// Declares every option to CLI11. Values arrive as text and are parsed here, so that all bad values
// are reported together.
class Declare {
 public:
  Declare(CLI::App& app, ParsedArguments& parsed, std::vector<std::string>& flags)
      : app_(app), parsed_(parsed), flags_(flags) {}

  void group(const char* name) { group_ = name; }

  template <typename T>
  void operator()(const std::string& name, T& value, ChangeEffect, const std::string& help) {
    const std::string flag = "--" + name;
    flags_.push_back(flag);
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
    if (flag == "--no-log-learning-rate-to-tensorboard")
      return flag + ",--no-log-learnig-rate-to-tensorboard";
    if (flag == "--optimizer-offload") return flag + ",--optimizer-cpu-offload";
    if (flag == "--layernorm-epsilon") return flag + ",--norm-epsilon";
    if (flag == "--recompute-num-layers") return flag + ",--checkpoint-num-layers";
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
  std::string group_;
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

void report_unknown(const std::vector<std::string>& extras, const std::vector<std::string>& flags,
                    std::vector<std::string>& problems) {
  for (size_t i = 0; i < extras.size(); ++i) {
    const std::string flag = extras[i].substr(0, extras[i].find('='));
    if (!flag.starts_with("-")) {
      // The value of an unknown flag is not a problem of its own.
      const bool is_value = i > 0 && extras[i - 1].starts_with("-");
      if (!is_value)
        problems.push_back(fmt::format("{}: every argument belongs to a --flag", flag));
      continue;
    }
    const std::string_view ours = megatron_name_of(flag);
    if (!ours.empty()) {
      problems.push_back(fmt::format("unknown flag {}: Megatron's name for it is {}", flag, ours));
      continue;
    }
    const std::string nearest = nearest_name(flag, flags);
    problems.push_back(nearest.empty()
                           ? fmt::format("unknown flag {}; --help lists all", flag)
                           : fmt::format("unknown flag {}: did you mean {}?", flag, nearest));
  }
}

// The text tells the number of CUDA devices, or why there are none: scripts choose a model by it.
std::string version_text() {
  std::string why;
  const int devices = num_cuda_devices(&why);
  return fmt::format("weft-train {}\nCUDA devices: {}{}\n", WEFT_VERSION, devices,
                     devices == 0 ? " (" + why + ")" : "");
}

}  // namespace

ParsedArguments parse_arguments(std::vector<std::string> arguments) {
  ParsedArguments parsed;
  CLI::App app(
      "Trains a GPT on Megatron datasets.\n\n"
      "  weft-train --num-layers 12 --hidden-size 768 --num-attention-heads 12 --seq-length 1024\n"
      "    --max-position-embeddings 1024 --micro-batch-size 8 --global-batch-size 64 --train-iters 1000 --lr 6e-4\n"
      "    --bf16 --data-path my_text_document --save checkpoints --save-interval 100 --load checkpoints",
      "weft-train");
  app.allow_extras();
  app.option_defaults()->always_capture_default(false);
  app.set_help_flag("-h,--help", "print this and exit");
  bool version = false;
  app.add_flag("--version", version, "print the version and the CUDA devices, and exit");
  std::vector<std::string> flags{"-h", "--help", "--version"};
  Declare declare(app, parsed, flags);
  visit_options(parsed.config, declare);
  // --eval-only is Megatron-DeepSpeed's word for --skip-train.
  app.add_flag("--eval-only", parsed.config.skip_train)->group("");
  for (const KnownFlag& known : flags_without_effect())
    declare_known_flag(app, known, true, parsed);
  for (const KnownFlag& known : flags_not_supported())
    declare_known_flag(app, known, false, parsed);

  for (std::string& argument : arguments) strip_stray_quotes(argument);
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes a vector back to front
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::CallForHelp&) {
    parsed.help = app.help();
    return parsed;
  } catch (const CLI::ParseError& error) {
    parsed.problems.emplace_back(error.what());
    parsed.stopped_early = true;
  }
  if (version) parsed.help = version_text();
  const auto is_given = [&app](const std::string& flag) { return app.count(flag) > 0; };
  apply_deepspeed_config(parsed.config, is_given, parsed.problems, parsed.notes);
  load_curriculum_metrics(parsed.config, parsed.problems);
  report_unknown(app.remaining(), flags, parsed.problems);
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
