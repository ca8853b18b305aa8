#include "trainer/config/config.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <type_traits>

#include "trainer/config/megatron_flags.h"
#include "trainer/config/options.h"

namespace weft {

namespace {

constexpr std::pair<const char*, LrDecayStyle> kLrDecayStyles[] = {
    {"constant", LrDecayStyle::kConstant},
    {"linear", LrDecayStyle::kLinear},
    {"cosine", LrDecayStyle::kCosine},
    {"inverse-square-root", LrDecayStyle::kInverseSquareRoot},
};
constexpr std::pair<const char*, LogFormat> kLogFormats[] = {
    {"megatron-2021", LogFormat::kMegatron2021},
    {"megatron-ds", LogFormat::kMegatronDeepSpeed},
    {"megatron-2024", LogFormat::kMegatron2024},
};

// --- text to value: each returns what is wrong, or an empty string ---

// Digits may be grouped with single underscores, as in Python's int().
std::string parse(std::string text, int64_t& value) {
  const bool grouped_badly = text.empty() || text.front() == '_' || text.back() == '_' ||
                             text.find("__") != std::string::npos;
  std::erase(text, '_');
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range) return "does not fit into 64 bits";
  const bool whole = error == std::errc{} && end == text.data() + text.size();
  return whole && !grouped_badly ? "" : "is not an integer";
}

template <typename Real>
requires std::is_floating_point_v<Real> std::string parse(const std::string& text, Real& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
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
  Declare(CLI::App& app, std::vector<std::string>& problems, std::vector<std::string>& flags)
      : app_(app), problems_(problems), flags_(flags) {}

  void group(const char* name) { group_ = name; }

  template <typename T>
  void operator()(const std::string& name, T& value, const std::string& help) {
    const std::string flag = "--" + name;
    flags_.push_back(flag);
    if constexpr (std::is_same_v<T, bool>) {
      const std::string spellings = name == "no-log-learning-rate-to-tensorboard"
                                        ? flag + ",--no-log-learnig-rate-to-tensorboard"
                                        : flag;
      app_.add_flag(spellings, value, help)->group(group_);
    } else if constexpr (IsVector<T>::value) {
      app_.add_option_function<std::vector<std::string>>(
              flag, [this, flag, &value](const auto& texts) { set_all(flag, texts, value); }, help)
          ->group(group_)
          ->expected(0, -1);
    } else {
      app_.add_option_function<std::string>(
              flag,
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
  void report(const std::string& flag, const std::string& text, const std::string& what) {
    if (text.empty()) {
      problems_.push_back(flag + ": needs a value");
    } else if (!what.empty()) {
      problems_.push_back(fmt::format("{} {}: {}", flag, text, what));
    }
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
  std::vector<std::string>& problems_;
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
      parsed.problems.push_back(fmt::format("{} is not supported yet: {}", flag, known.reason));
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
    const std::string nearest = nearest_flag(flag, flags);
    problems.push_back(nearest.empty()
                           ? fmt::format("unknown flag {}; --help lists all", flag)
                           : fmt::format("unknown flag {}: did you mean {}?", flag, nearest));
  }
}

// --- value to text, in Python's spelling: True, None, 1e-05, [1, 2] ---

template <typename Real>
std::string python_float(Real value) {
  std::string text = fmt::format("{}", value);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

template <typename T>
std::string python_text(const T& value) {
  if constexpr (std::is_same_v<T, bool>)
    return value ? "True" : "False";
  else if constexpr (std::is_floating_point_v<T>)
    return python_float(value);
  else if constexpr (std::is_enum_v<T>)
    return name_of(value);
  else if constexpr (std::is_same_v<T, std::string>)
    return value.empty() ? "None" : value;
  else
    return fmt::format("{}", value);
}
template <typename T>
std::string python_text(const std::optional<T>& value) {
  return value ? python_text(*value) : "None";
}
template <typename T>
std::string python_text(const std::vector<T>& values) {
  if (values.empty()) return "None";
  std::string text;
  for (const T& value : values) {
    const std::string quote = std::is_same_v<T, std::string> ? "'" : "";
    text += (text.empty() ? "" : ", ") + quote + python_text(value) + quote;
  }
  return "[" + text + "]";
}

std::string snake_case(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

class ToText {
 public:
  void group(const char*) {}
  template <typename T>
  void operator()(const std::string& name, const T& value, const char*) {
    values.emplace_back(snake_case(name), python_text(value));
  }
  std::vector<std::pair<std::string, std::string>> values;
};

class ToJson {
 public:
  void group(const char*) {}
  template <typename T>
  void operator()(const std::string& name, const T& value, const char*) {
    object[snake_case(name)] = json_value(value);
  }
  nlohmann::json object = nlohmann::json::object();

 private:
  template <typename T>
  static nlohmann::json json_value(const T& value) {
    if constexpr (std::is_enum_v<T>) return name_of(value);
    // The nearest double of the float 0.9 prints as 0.8999999761581421. The shortest text that
    // reads back as the float is the one that was typed.
    else if constexpr (std::is_same_v<T, float>)
      return nlohmann::json::parse(fmt::format("{}", value));
    else if constexpr (std::is_same_v<T, std::string>)
      return value.empty() ? nlohmann::json() : nlohmann::json(value);
    else
      return value;
  }
  template <typename T>
  static nlohmann::json json_value(const std::optional<T>& value) {
    return value ? json_value(*value) : nlohmann::json();
  }
};

// The text tells the number of CUDA devices, or why there are none: scripts choose a model by it.
std::string version_text() {
  std::string why;
  const int devices = num_cuda_devices(&why);
  return fmt::format("weft-train {}\nCUDA devices: {}{}\n", WEFT_VERSION, devices,
                     devices == 0 ? " (" + why + ")" : "");
}

}  // namespace

const char* name_of(LrDecayStyle style) {
  for (const auto& [name, value] : kLrDecayStyles) {
    if (value == style) return name;
  }
  return "?";
}

const char* name_of(LogFormat format) {
  for (const auto& [name, value] : kLogFormats) {
    if (value == format) return name;
  }
  return "?";
}

std::vector<std::pair<std::string, std::string>> Config::resolved() const {
  ToText visitor;
  visit_options(*this, visitor);
  std::sort(visitor.values.begin(), visitor.values.end());
  return visitor.values;
}

std::string Config::resolved_json() const {
  ToJson visitor;
  visit_options(*this, visitor);
  // JSON cannot hold a path that is not UTF-8; such bytes are replaced, which is no reason to stop.
  return visitor.object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

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
  app.set_help_flag("--help", "print this and exit");
  bool version = false;
  app.add_flag("--version", version, "print the version and the CUDA devices, and exit");
  std::vector<std::string> flags{"--help", "--version"};
  Declare declare(app, parsed.problems, flags);
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
  }
  if (version) parsed.help = version_text();
  report_unknown(app.remaining(), flags, parsed.problems);
  return parsed;
}

}  // namespace weft
