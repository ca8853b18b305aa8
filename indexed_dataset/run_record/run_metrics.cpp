#include "indexed_dataset/run_record/run_metrics.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "indexed_dataset/base/storage/file_io.h"

namespace weft {
namespace {

using SortedJson = nlohmann::json;

// Reads the members of a step while its line is parsed: a run may have a million lines, and a tree
// of each would take three times as long.
class StepReader final : public nlohmann::json_sax<SortedJson> {
 public:
  // Returns the step of a line; nothing for that of an evaluation. Throws std::runtime_error.
  std::optional<LoggedStep> read(std::string_view line) {
    found_ = 0;
    depth_ = 0;
    member_ = kNone;
    step_ = {};
    if (!SortedJson::sax_parse(line.begin(), line.end(), this)) throw std::runtime_error(error_);
    if ((found_ & kLoss) == 0) return std::nullopt;
    if (found_ != (kIteration | kSamples | kBatch | kLoss | kNorm))
      throw std::runtime_error(
          "iteration, consumed_samples, global_batch_size or grad_norm is missing");
    return step_;
  }

  // The iteration of the last line, be it a step or an evaluation, if it tells one.
  std::optional<int64_t> iteration() const {
    if ((found_ & kIteration) == 0) return std::nullopt;
    return step_.iteration;
  }

  bool null() override { return take_real(NAN); }
  bool boolean(bool) override { return refuse_member(); }
  bool number_integer(number_integer_t value) override { return take_integer(value); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value <= INT64_MAX) return take_integer(static_cast<int64_t>(value));
    return take_real(static_cast<double>(value));
  }
  bool number_float(number_float_t value, const string_t&) override { return take_real(value); }
  bool string(string_t&) override { return refuse_member(); }
  bool binary(binary_t&) override { return refuse_member(); }
  bool start_object(size_t) override {
    ++depth_;
    return depth_ == 1 || refuse_member();
  }
  bool end_object() override {
    --depth_;
    return true;
  }
  bool start_array(size_t) override {
    if (depth_++ > 0) return refuse_member();
    error_ = "no object";
    return false;
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool key(string_t& name) override {
    member_ = kNone;
    if (depth_ != 1) return true;
    for (const auto& [known, member] : {std::pair{"iteration", kIteration},
                                        {"consumed_samples", kSamples},
                                        {"global_batch_size", kBatch},
                                        {"lm_loss", kLoss},
                                        {"grad_norm", kNorm}}) {
      if (name == known) member_ = member;
    }
    found_ |= member_;
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& error) override {
    error_ = error.what();
    return false;
  }

 private:
  enum Member : unsigned {
    kNone = 0,
    kIteration = 1,
    kSamples = 2,
    kBatch = 4,
    kLoss = 8,
    kNorm = 16
  };

  bool take_integer(int64_t value) {
    if (member_ == kIteration) step_.iteration = value;
    if (member_ == kSamples) step_.consumed_samples = value;
    if (member_ == kBatch) step_.global_batch_size = value;
    return take_real(static_cast<double>(value), /*is_integer=*/true);
  }
  bool take_real(double value, bool is_integer = false) {
    if (depth_ == 0 || (!is_integer && (member_ & (kIteration | kSamples | kBatch)) != 0))
      return refuse_member();
    if (member_ == kLoss) step_.lm_loss = value;
    if (member_ == kNorm) step_.grad_norm = value;
    member_ = kNone;
    return true;
  }
  // A member of a step is no text, object or list; others may be anything.
  bool refuse_member() {
    if (member_ == kNone && depth_ > 0) return true;
    error_ = "a number is expected";
    return false;
  }

  LoggedStep step_;
  unsigned found_ = 0;
  int depth_ = 0;
  Member member_ = kNone;
  std::string error_;
};

// A whole line of the file, bytes [begin, end), without its end.
struct Line {
  size_t begin = 0, end = 0;
};

// The line that holds the byte `at`, or ends with it.
Line line_around(std::string_view text, size_t at) {
  const size_t before = at == 0 ? std::string_view::npos : text.rfind('\n', at - 1);
  return {.begin = before == std::string_view::npos ? 0 : before + 1, .end = text.find('\n', at)};
}

}  // namespace

std::vector<LoggedStep> read_logged_steps(const std::filesystem::path& run_folder) {
  const std::filesystem::path path = run_folder / "metrics.jsonl";
  const std::string text = read_regular_file(path);
  std::vector<LoggedStep> steps;
  StepReader reader;
  int64_t line_number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    if (end == std::string::npos) break;  // the run is writing it
    ++line_number;
    try {
      const std::optional<LoggedStep> step =
          reader.read(std::string_view(text).substr(begin, end - begin));
      begin = end + 1;
      if (!step) continue;  // of an evaluation
      steps.push_back(*step);
    } catch (const std::exception& error) {
      throw std::runtime_error(path.string() + ", line " + std::to_string(line_number) +
                               ": not a step of a training run: " + error.what());
    }
    if (steps.size() > 1 && steps.back().iteration <= steps[steps.size() - 2].iteration) {
      throw std::runtime_error(path.string() + ", line " + std::to_string(line_number) +
                               ": iteration " + std::to_string(steps.back().iteration) +
                               " comes behind iteration " +
                               std::to_string(steps[steps.size() - 2].iteration) +
                               "; the file holds lines of several runs");
    }
  }
  return steps;
}

std::optional<LoggedStep> find_logged_step(const std::filesystem::path& run_folder,
                                           int64_t iteration) {
  const std::filesystem::path path = run_folder / "metrics.jsonl";
  std::error_code no_file;
  if (!std::filesystem::is_regular_file(path, no_file)) return std::nullopt;
  const MappedFile file(path);
  std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  text = text.substr(0, text.rfind('\n') + 1);  // the run may be writing the last line
  StepReader reader;
  const auto read = [&](const Line& line) {
    try {
      return reader.read(text.substr(line.begin, line.end - line.begin));
    } catch (const std::exception& error) {
      throw std::runtime_error(path.string() + ", byte " + std::to_string(line.begin) +
                               ": not a step of a training run: " + error.what());
    }
  };
  // Iterations ascend: those of lines before `first` are not above the one that is looked for,
  // those of lines from `last` on are. A line without an iteration counts as the one before it.
  size_t first = 0, last = text.size();
  while (first < last) {
    const Line middle = line_around(text, first + (last - first) / 2);
    Line line = middle;
    read(line);
    while (!reader.iteration() && line.begin > first) {
      line = line_around(text, line.begin - 1);
      read(line);
    }
    if (reader.iteration().value_or(iteration) <= iteration)
      first = middle.end + 1;
    else
      last = line.begin;
  }
  while (first > 0) {
    const Line line = line_around(text, first - 1);
    // Evaluations that are out of order may have misled the search.
    if (const auto step = read(line); step && step->iteration <= iteration) return step;
    first = line.begin;
  }
  return std::nullopt;
}

}  // namespace weft
