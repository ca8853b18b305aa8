#include "trainer/ceilings/algorithm_file.h"

#include <exception>
#include <system_error>

#include "indexed_dataset/base/storage/file_io.h"
#include "trainer/ceilings/shared_file.h"

namespace weft {
namespace {

AlgorithmChoices read_choices(const std::filesystem::path& file) {
  std::error_code error;  // what cannot be looked at is absent: add() finds out why
  if (!std::filesystem::exists(file, error)) return {};
  return parse_algorithms(read_regular_file(file), file.string());
}

// Adds `timed` to the file, and returns the choices of those keys that another process has added
// before.
AlgorithmChoices add(const std::filesystem::path& file, const AlgorithmChoices& timed) {
  const LockFile lock = lock_shared_file(file);
  AlgorithmChoices stored = read_choices(file), first;
  const size_t num_before = stored.size();
  for (const auto& [key, value] : timed) {
    const auto [it, added] = stored.emplace(key, value);
    if (!added && it->second != value) first.insert(*it);
  }
  if (stored.size() > num_before) write_file_atomically(file, text_of(stored));
  return first;
}

std::string note_of_loss(const std::string& problem) {
  return "the timed GEMM algorithms are not kept: " + problem +
         "; a run that is started anew times them again (--gemm-algorithm-cache names another "
         "file)\n";
}

}  // namespace

std::string tune_with_file(Backend& backend, std::span<const AnyOperation> operations,
                           const std::filesystem::path& file) {
  if (file.empty()) return "";
  AlgorithmChoices known;
  std::string problem;
  try {
    known = read_choices(file);
  } catch (const std::system_error& error) {
    problem = error.what();
  }
  const TuneResult result = backend.tune(operations, known);
  if (result.timed.empty()) return result.notes;
  if (!problem.empty()) return result.notes + note_of_loss(problem);
  try {
    backend.use_algorithms(text_of(add(file, result.timed)));
  } catch (const std::exception& error) {
    return result.notes + note_of_loss(error.what());
  }
  return result.notes;
}

}  // namespace weft
