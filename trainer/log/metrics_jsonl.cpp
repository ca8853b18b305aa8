#include "trainer/log/metrics_jsonl.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>

#include "indexed_dataset/base/process/json_integer.h"
#include "indexed_dataset/base/process/parse_json.h"
#include "indexed_dataset/base/storage/file_io.h"

namespace weft {

namespace {

using Json = nlohmann::ordered_json;

// JSON has no NaN and no infinity.
Json finite_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(); }

bool is_kept(const std::string& line, int64_t resumed_iteration) {
  try {
    const Json json = parse_json<Json>(line);
    return json.is_object() && !json.contains("end_of_training") &&
           find_json_integer(json, "iteration").value_or(0) <= resumed_iteration;
  } catch (const std::exception&) {
    return false;  // another program's line
  }
}

std::string kept_lines(const std::string& text, std::optional<int64_t> resumed_iteration) {
  if (!resumed_iteration) return text.substr(0, text.rfind('\n') + 1);
  std::string kept;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    if (end == std::string::npos) break;  // the line is torn
    const std::string line = text.substr(begin, end - begin);
    if (is_kept(line, *resumed_iteration)) kept += line + "\n";
    begin = end + 1;
  }
  return kept;
}

}  // namespace

std::string to_json_line(const StepMetrics& step) {
  Json json = {{"iteration", step.iteration},
               {"consumed_samples", step.consumed_samples},
               {"consumed_tokens", step.consumed_tokens},
               {"learning_rate", step.learning_rate},
               {"global_batch_size", step.global_batch_size},
               {"lm_loss", finite_or_null(step.lm_loss)},
               {"grad_norm", finite_or_null(step.grad_norm)}};
  if (step.curriculum_seqlen) json["curriculum_seqlen"] = *step.curriculum_seqlen;
  if (step.params_norm) json["params_norm"] = finite_or_null(*step.params_norm);
  if (step.loss_scale) json["loss_scale"] = *step.loss_scale;
  if (step.skipped) json["skipped"] = *step.skipped;
  for (size_t i = 0; i < step.fp8_errors.size(); ++i) {
    json["fp8_errors"][kFp8Products[i % std::size(kFp8Products)]].push_back(
        finite_or_null(step.fp8_errors[i]));
  }
  json["elapsed_ms"] = step.elapsed_ms;
  json["forward_ms"] = step.forward_ms;
  json["backward_ms"] = step.backward_ms;
  if (step.exchange_ms) json["exchange_ms"] = *step.exchange_ms;
  json["optimizer_ms"] = step.optimizer_ms;
  if (step.timestamp.empty()) return json.dump() + "\n";
  json["tokens_per_second"] = step.tokens_per_second;
  json["tflops_per_device"] = step.tflops_per_device;
  if (step.mfu) json["mfu"] = *step.mfu;
  json["memory_bytes"] = step.memory_bytes;
  json["timestamp"] = step.timestamp;
  return json.dump() + "\n";
}

std::string to_json_line(int64_t iteration, const std::string& name, double loss, bool at_end) {
  Json json = {{"iteration", iteration}, {name + "_loss", finite_or_null(loss)}};
  if (at_end) json["end_of_training"] = true;
  return json.dump() + "\n";
}

std::string scores_json_line(int64_t iteration, const std::string& task, int64_t num_examples,
                             const NamedNumbers& numbers) {
  Json json = {{"iteration", iteration}, {"task", task}, {"examples", num_examples}};
  for (const auto& [name, value] : numbers) json[name] = finite_or_null(value);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string sample_json_line(int64_t iteration, const std::string& prompt,
                             const std::string& text) {
  const Json json = {{"iteration", iteration}, {"prompt", prompt}, {"text", text}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string untrained_step_line(int64_t iteration, int64_t consumed_samples,
                                int64_t consumed_tokens, int64_t global_batch_size) {
  const Json json = {{"iteration", iteration},
                     {"consumed_samples", consumed_samples},
                     {"consumed_tokens", consumed_tokens},
                     {"global_batch_size", global_batch_size},
                     {"not_trained", true}};
  return json.dump() + "\n";
}

std::string lost_output_line(int64_t iteration, const std::string& reason) {
  return Json{{"iteration", iteration}, {"lost_output", reason}}.dump() + "\n";
}

MetricsFile::MetricsFile(const std::filesystem::path& path,
                         std::optional<int64_t> resumed_iteration)
    : path_(path) {
  if (std::filesystem::exists(path)) {
    const std::string text = read_file(path);
    const std::string kept = kept_lines(text, resumed_iteration);
    num_dropped_lines_ = std::ranges::count(text, '\n') - std::ranges::count(kept, '\n');
    // Later steps lie at the end. To cut them off needs no space, and no kill leaves another file.
    if (!text.starts_with(kept)) {
      write_file_atomically(path, kept);
    } else if (kept != text) {
      std::filesystem::resize_file(path, kept.size());
    }
  }
  fd_ = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd_ < 0) throw std::system_error(errno, std::generic_category(), path.string());
}

MetricsFile::~MetricsFile() {
  if (fd_ >= 0) close(fd_);
}

void MetricsFile::add(const std::string& line) {
  const ssize_t written = write(fd_, line.data(), line.size());
  if (written != static_cast<ssize_t>(line.size())) {
    throw std::system_error(written < 0 ? errno : ENOSPC, std::generic_category(), path_.string());
  }
}

}  // namespace weft
