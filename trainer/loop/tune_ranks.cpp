#include "trainer/loop/tune_ranks.h"

#include <set>

#include "trainer/ranks/agreement.h"

namespace weft {

namespace {

// A key's ",workspace=...,cublaslt=...,gpu=..." names what makes algorithms comparable at all.
// Behind the GPU, whose name has no comma, it may say which question a choice answers (",fused",
// ",own").
std::set<std::string> kinds_of(const std::string& table) {
  std::set<std::string> kinds;
  for (const auto& [key, value] : parse_algorithms(table, "a rank's table")) {
    const size_t at = key.find(",workspace=");
    if (at == std::string::npos) continue;
    const size_t gpu = key.find(",gpu=", at);
    const size_t end = gpu == std::string::npos ? gpu : key.find(',', gpu + 1);
    kinds.insert(key.substr(at, end == std::string::npos ? end : end - at));
  }
  return kinds;
}

// Returns the choices of all ranks; the first value of a key stays.
std::string joined_algorithms(const std::vector<std::string>& tables) {
  AlgorithmChoices joined;
  for (const std::string& table : tables) joined.merge(parse_algorithms(table, "a rank's table"));
  return text_of(joined);
}

}  // namespace

std::string tune_on_first_rank(Trainer& trainer, Backend& backend, HostGroup& ranks,
                               const std::filesystem::path& algorithm_file) {
  std::string notes;
  if (ranks.rank() == 0) notes = trainer.tune(algorithm_file);
  if (ranks.size() == 1) return notes;
  const std::string table = ranks.all_gather(ranks.rank() == 0 ? backend.algorithms() : "")[0];
  if (ranks.rank() != 0) {
    backend.use_algorithms(table);
    notes = trainer.tune(
        algorithm_file);  // times what rank 0 could not, and counts what it finds as in use
  }
  const std::string mine = backend.algorithms();
  const std::vector<std::string> checksums = ranks.all_gather(checksum_of(mine));
  if (std::set<std::string>(checksums.begin(), checksums.end()).size() == 1) return notes;
  // Some rank lacked memory to time. One whose algorithms are of another kind is refused instead.
  const std::vector<std::string> tables = ranks.all_gather(mine);
  const std::string joined = joined_algorithms(tables);
  const std::set<std::string> all = kinds_of(joined), own = kinds_of(mine);
  std::string kinds;
  for (const std::string& kind : own.empty() ? all : own) kinds += kind;
  check_ranks_agree(ranks, {{"the kind of the GEMM algorithms in use", kinds}});
  backend.use_algorithms(joined);
  return notes;
}

}  // namespace weft
