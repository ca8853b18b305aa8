#include "trainer/log/run_starts.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/run_record/run_metrics.h"

namespace weft {
namespace {

constexpr const char* kStartName = "start.json";

// Returns an empty object for a file that is not there or holds none.
nlohmann::json object_in(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return nlohmann::json::object();
  nlohmann::json json = nlohmann::json::parse(read_file(path), nullptr, /*allow_exceptions=*/false);
  return json.is_object() ? json : nlohmann::json::object();
}

std::string reason_in(const nlohmann::json& end) {
  if (!end.contains("exit_code") || !end.contains("reason")) return "";
  return fmt::format("exit code {}: {}", end.at("exit_code").get<int>(),
                     end.at("reason").get<std::string>());
}

int64_t last_logged_iteration(const std::filesystem::path& run_folder) {
  try {
    const auto step = find_logged_step(run_folder, std::numeric_limits<int64_t>::max());
    return step ? step->iteration : 0;
  } catch (const std::exception&) {
    return 0;  // whoever opens the log reports a damaged one
  }
}

void write_start(const std::filesystem::path& run_folder, const nlohmann::ordered_json& json) {
  write_file_atomically(run_folder / kStartName,
                        json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

}  // namespace

std::string begin_start(const std::filesystem::path& run_folder, bool goes_on, int64_t iteration) {
  const nlohmann::json last = object_in(run_folder / kStartName);
  const int64_t number = last.value("start", int64_t{0});
  const std::filesystem::path failure_file = run_folder / "failure.json";
  std::string reason = reason_in(object_in(failure_file));
  if (reason.empty()) reason = reason_in(last);
  if (reason.empty())
    reason = "it could not say why: it was killed, or its machine or the network to it was lost";
  if (std::filesystem::exists(failure_file)) {
    std::filesystem::rename(failure_file, run_folder / fmt::format("failure.start_{:05d}.json",
                                                                   std::max<int64_t>(number, 1)));
  }
  const bool is_first = !goes_on || number == 0;
  write_start(run_folder, {{"start", is_first ? 1 : number + 1}});
  if (is_first) return "";
  const int64_t reached = last_logged_iteration(run_folder);
  return fmt::format(
      "start {}: the last one ended {} ({}); this one goes on from iteration {}, {}\n", number + 1,
      reached > 0 ? fmt::format("at iteration {}", reached) : "before its first iteration", reason,
      iteration,
      reached > iteration ? fmt::format("{} iterations are done again", reached - iteration)
                          : "none is done again");
}

void end_start(const std::filesystem::path& run_folder, int exit_code, const std::string& reason) {
  write_start(run_folder, {{"start", object_in(run_folder / kStartName).value("start", int64_t{1})},
                           {"exit_code", exit_code},
                           {"reason", reason}});
}

}  // namespace weft
