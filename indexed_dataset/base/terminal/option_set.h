// Command-line options, declared once: parsing, --help, bounds and the resolved configuration come
// from one place.
//
// All programs share these habits: options have long names only, but for -h; integers may hold
// underscores (300_000_000); a mistake does not end the parsing, so that all of them are reported
// at once; an unknown option is answered with the nearest known one.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace CLI {
class App;
}

namespace weft {

// The options of one command. Values bound to it must outlive it.
class OptionSet {
 public:
  explicit OptionSet(CLI::App& app) : app_(app) {}

  // Options that are declared from here on stand under this title in the help.
  void group(const std::string& title) { group_ = title; }

  // A name without dashes is that of an argument: of the next one, or of all that are left.
  void text(const std::string& name, std::string& value, const std::string& help);
  void texts(const std::string& name, std::vector<std::string>& values, const std::string& help);
  void flag(const std::string& name, bool& value, const std::string& help);
  // Declares an option with the names of some values, of which `value` is one.
  template <typename T>
  void choice(const std::string& name, T& value,
              const std::type_identity_t<std::vector<std::pair<std::string, T>>>& choices,
              const std::string& help) {
    std::vector<std::string> names;
    for (const auto& [choice, meaning] : choices) names.push_back(choice);
    declare_choice(
        name, names, help, [&value, choices](size_t i) { value = choices[i].second; },
        [&value, choices] {
          size_t i = 0;
          while (choices.at(i).second != value) ++i;
          return choices[i].first;
        });
  }
  // `value` is an integer, or an optional one.
  template <typename T>
  void integer(const std::string& name, T& value, const std::string& help, int64_t min = 0,
               int64_t max = std::numeric_limits<int64_t>::max()) {
    declare_integer(
        name, help, min, max, [&value](int64_t number) { value = static_cast<T>(number); },
        [&value] { return std::optional<int64_t>(value); });
  }
  // Declares an option with two or more integers after its name.
  void integers(const std::string& name, std::vector<int64_t>& values, int count,
                const std::string& help);

  // Gives advice for an option that this command does not have, but that people know from
  // elsewhere.
  void advise(const std::string& name, const std::string& advice) { advice_[name] = advice; }
  // Returns "" where no advice was given.
  std::string advice_for(const std::string& name) const;

  // True if the command line has the option, with its default value or another.
  bool given(const std::string& name) const;

  // Notes a problem. All are reported together before the command runs.
  void problem(const std::string& what) { problems_.push_back(what); }
  // Runs a check; the UsageError that it throws is a problem.
  void check(const std::function<void()>& run);
  const std::vector<std::string>& problems() const { return problems_; }

  // Returns every option with its value, in the order of declaration.
  std::vector<std::pair<std::string, std::string>> resolved() const;
  // Returns the same as words of a command line, without options that have no value.
  std::string command_line() const;

 private:
  void declare_choice(const std::string& name, const std::vector<std::string>& names,
                      const std::string& help, const std::function<void(size_t i)>& set,
                      const std::function<std::string()>& value);
  void declare_integer(const std::string& name, const std::string& help, int64_t min, int64_t max,
                       const std::function<void(int64_t)>& set,
                       const std::function<std::optional<int64_t>()>& value);
  std::optional<int64_t> parse_integer(const std::string& name, const std::string& text,
                                       int64_t min, int64_t max);
  void remember(const std::string& name, std::function<std::string()> value);

  CLI::App& app_;
  std::string group_;
  std::vector<std::string> problems_;
  std::map<std::string, std::string> advice_;
  std::vector<std::pair<std::string, std::function<std::string()>>> values_;
};

// Reads decimal digits with single underscores between them, as Python's int() does: "300_000_000",
// "-5". Returns nothing for other texts and for numbers that do not fit.
std::optional<int64_t> parse_int64(const std::string& text);
// For a text that parse_int64() refuses: true if it is a number that does not fit.
bool is_written_as_integer(const std::string& text);

}  // namespace weft
