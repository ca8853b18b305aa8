#include "trainer/ranks/failure_file.h"

#include <exception>
#include <nlohmann/json.hpp>

#include "indexed_dataset/base/storage/file_io.h"

namespace weft {

void write_failure_file(const std::filesystem::path& folder, int exit_code,
                        const std::string& reason, const std::vector<RankAtFailure>& ranks) {
  if (folder.empty()) return;
  nlohmann::ordered_json json = {{"exit_code", exit_code}, {"reason", reason}};
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    json["ranks"].push_back({{"rank", rank},
                             {"place", ranks[rank].place},
                             {"is_gone", ranks[rank].is_gone},
                             {"iteration", ranks[rank].progress.iteration},
                             {"operation", ranks[rank].progress.number},
                             {"name", ranks[rank].progress.operation}});
  }
  try {
    write_file_atomically(
        folder / "failure.json",
        json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  } catch (const std::exception&) {
  }
}

}  // namespace weft
