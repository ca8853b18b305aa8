#include "preprocess/inspect/foreign_runs/log_line.h"

#include <string>

#include "indexed_dataset/base/terminal/text_pieces.h"

namespace weft {
namespace {

// Megatron-LM and Megatron-DeepSpeed print the first, GPT-NeoX the second.
constexpr std::string_view kValidations[] = {"validation loss at iteration ",
                                             "validation results at iteration "};

std::string_view without_spaces(std::string_view text) {
  const size_t begin = text.find_first_not_of(' ');
  return begin == std::string_view::npos ? std::string_view() : text.substr(begin);
}

// Takes a number that may have spaces before it.
std::optional<int64_t> take_aligned_number(std::string_view& text) {
  text = without_spaces(text);
  return take_number(text);
}

// Returns the number after "| NAME:".
std::optional<int64_t> find_field(std::string_view line, std::string_view name) {
  const size_t at = line.find("| " + std::string(name) + ":");
  if (at == std::string_view::npos) return std::nullopt;
  line.remove_prefix(at + name.size() + 3);
  const auto number = take_aligned_number(line);
  // "1.5E+00" is no count.
  if (!line.empty() && (line.front() == '.' || line.front() == 'E')) return std::nullopt;
  return number;
}

std::optional<LogLine> parse_validation(std::string_view line) {
  for (const std::string_view begin : kValidations) {
    const size_t at = line.find(begin);
    if (at == std::string_view::npos) continue;
    std::string_view rest = line.substr(at + begin.size());
    if (const auto iteration = take_aligned_number(rest))
      return LogLine{.iteration = *iteration,
                     .is_validation = true,
                     .consumed_samples = {},
                     .global_batch_size = {},
                     .consumed_tokens = {},
                     .num_iterations = {}};
  }
  return std::nullopt;
}

// Reads NeMo's "Training epoch 0, iteration 8/9 | ... | global_step: 8 |". NeMo counts
// both from 0, the iteration anew in each epoch. Sets `is_nemo` for such lines, with a step or not.
std::optional<LogLine> parse_nemo(std::string_view line, bool& is_nemo) {
  constexpr std::string_view kBegin = "Training epoch ", kIteration = ", iteration ";
  const size_t at = line.find(kBegin);
  if (at == std::string_view::npos) return std::nullopt;
  line.remove_prefix(at + kBegin.size());
  const auto epoch = take_aligned_number(line);
  if (!epoch || !line.starts_with(kIteration)) return std::nullopt;
  line.remove_prefix(kIteration.size());
  const auto of_epoch = take_aligned_number(line);
  if (!of_epoch || !line.starts_with('/')) return std::nullopt;
  is_nemo = true;
  auto step = find_field(line, "global_step");
  if (!step && *epoch == 0) step = of_epoch;
  if (!step || *step == INT64_MAX) return std::nullopt;
  return LogLine{.iteration = *step + 1,
                 .consumed_samples = find_field(line, "consumed_samples"),
                 .global_batch_size = find_field(line, "global_batch_size"),
                 .consumed_tokens = {},
                 .num_iterations = {}};
}

// Reads " iteration     200/    1000 |"; other words of a log may be "iteration", too.
std::optional<LogLine> parse_iteration(std::string_view line) {
  constexpr std::string_view kWord = "iteration ";
  for (size_t at = line.find(kWord); at != std::string_view::npos; at = line.find(kWord, at + 1)) {
    if (at > 0 && line[at - 1] != ' ') continue;
    std::string_view rest = line.substr(at + kWord.size());
    const auto iteration = take_aligned_number(rest);
    if (!iteration || rest.empty() || rest.front() != '/') continue;
    rest.remove_prefix(1);
    const auto num_iterations = take_aligned_number(rest);
    if (!num_iterations || !without_spaces(rest).starts_with('|')) continue;
    return LogLine{.iteration = *iteration,
                   .consumed_samples = find_field(rest, "consumed samples"),
                   .global_batch_size = find_field(rest, "global batch size"),
                   .consumed_tokens = find_field(rest, "consumed tokens"),
                   .num_iterations = num_iterations};
  }
  return std::nullopt;
}

}  // namespace

std::vector<LogLine> parse_log_lines(std::string_view text) {
  std::vector<LogLine> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    bool is_nemo = false;
    auto parsed = parse_validation(line);
    if (!parsed) parsed = parse_nemo(line, is_nemo);
    if (!parsed && !is_nemo) parsed = parse_iteration(line);
    if (parsed && parsed->iteration > 0) lines.push_back(*parsed);
  }
  return lines;
}

}  // namespace weft
