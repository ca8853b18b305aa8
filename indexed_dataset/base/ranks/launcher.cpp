#include "indexed_dataset/base/ranks/launcher.h"

#include <charconv>
#include <cstdlib>

#include "indexed_dataset/base/process/exit_code.h"

namespace weft {
namespace {

// No cluster starts more; a larger number is a mistake.
constexpr int64_t kMaxProcesses = 1'000'000;

// The text of a variable that is there and not empty.
std::optional<std::string> find_text(const FindVariable& find_variable, const char* name) {
  std::optional<std::string> text = find_variable(name);
  return text && !text->empty() ? text : std::nullopt;
}

std::optional<uint64_t> parse_number(const std::string& text) {
  uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [stopped_at, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stopped_at == end ? std::optional(number) : std::nullopt;
}

// Returns the number of processes that the variable `name` gives, or nothing without it.
std::optional<Launch> find_size(const FindVariable& find_variable, const char* name, bool has_mpi) {
  const std::optional<std::string> text = find_text(find_variable, name);
  if (!text) return std::nullopt;
  const std::optional<uint64_t> number = parse_number(*text);
  if (!number || *number < 1 || *number > kMaxProcesses) {
    throw UsageError(std::string(name) + "='" + *text +
                     "' in the environment is no number of processes; unset it");
  }
  return Launch{static_cast<int64_t>(*number), has_mpi, std::string(name) + "=" + *text};
}

// Slurm numbers the steps of an allocation from 0; batch scripts and interactive shells have ids at
// the upper end of 32 bits, if any (slurm.h: SLURM_BATCH_SCRIPT, SLURM_INTERACTIVE_STEP).
bool is_srun_task(const FindVariable& find_variable) {
  const std::optional<std::string> step = find_text(find_variable, "SLURM_STEP_ID");
  const std::optional<uint64_t> id = step ? parse_number(*step) : std::nullopt;
  return id && *id < 0xFFFFFF00u;
}

}  // namespace

Launch find_launch(const FindVariable& find_variable) {
  if (const auto launch = find_size(find_variable, "OMPI_COMM_WORLD_SIZE", true)) return *launch;
  const bool has_pmix = find_text(find_variable, "PMIX_RANK").has_value();
  const bool has_pmi = find_text(find_variable, "PMI_RANK").has_value();
  if (has_pmi) {
    if (const auto launch = find_size(find_variable, "PMI_SIZE", true)) return *launch;
  }
  if (is_srun_task(find_variable)) {
    const auto launch = find_size(find_variable, "SLURM_STEP_NUM_TASKS", has_pmix || has_pmi);
    if (launch) return *launch;
  }
  if (has_pmix || has_pmi) return Launch{0, true, has_pmix ? "PMIX_RANK" : "PMI_RANK"};
  return {};
}

Launch find_launch() {
  return find_launch([](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    if (value == nullptr) return std::nullopt;
    return value;
  });
}

}  // namespace weft
