#include "indexed_dataset/run_folder/run_metrics.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "indexed_dataset/storage/file_io.h"

namespace weft {
namespace {

using Json = nlohmann::json;

// Reads the members of a step while its line is parsed: a run may have a million lines, and a tree of each
// would take three times as long.
class StepReader final : public nlohmann::json_sax<Json> {
 public:
  // Returns the step of a line; nothing for that of an evaluation. Throws std::runtime_error.
  std::optional<LoggedStep> read(std::string_view line) {
    found_ = 0;
    depth_ = 0;
    member_ = kNone;
    if (!Json::sax_parse(line.begin(), line.end(), this)) throw std::runtime_error(error_);
    if ((found_ & kLoss) == 0) return std::nullopt;
    if (found_ != (kIteration | kSamples | kBatch | kLoss | kNorm))
      throw std::runtime_error(
          "iteration, consumed_samples, global_batch_size or grad_norm is missing");
    return step_;
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

}  // namespace weft
