#include "trainer/ceilings/algorithm_file.h"

#include <exception>
#include <stdexcept>
#include <string>
#include <system_error>

#include "indexed_dataset/base/storage/file_io.h"
#include "trainer/ceilings/shared_file.h"

namespace weft {
namespace {

struct StoredChoices {
  AlgorithmChoices choices;
  bool is_of_another_version = false;  // or damaged: its choices are not known
};

StoredChoices read_choices(const std::filesystem::path& file) {
  std::error_code error;  // what cannot be looked at is absent: add() finds out why
  if (!std::filesystem::exists(file, error)) return {};
  const std::string text = read_regular_file(file);
  try {
    return {.choices = parse_algorithms(text, file.string())};
  } catch (const std::runtime_error&) {
    if (!is_text_of_algorithms(text)) throw;  // not ours: perhaps the path is mistyped
    return {.choices = {}, .is_of_another_version = true};
  }
}

// Adds `timed` to the file, and returns the choices of those keys that another process has added
// before. `known` are those that the file had when the timing began.
AlgorithmChoices add(const std::filesystem::path& file, const AlgorithmChoices& timed,
                     const AlgorithmChoices& known) {
  const LockFile lock = lock_shared_file(file);
  AlgorithmChoices stored = read_choices(file).choices, first;
  bool is_changed = false;
  for (const auto& [key, value] : timed) {
    const auto [it, added] = stored.emplace(key, value);
    // A choice that was known, and timed all the same, is one that the library no longer takes.
    const auto before = known.find(key);
    const bool is_outdated = !added && before != known.end() && before->second == it->second;
    if (is_outdated) it->second = value;
    if (added || is_outdated) is_changed = true;
    if (it->second != value) first.insert(*it);
  }
  if (is_changed) write_file_atomically(file, text_of(stored));
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
  StoredChoices known;
  std::string problem;
  try {
    known = read_choices(file);
  } catch (const std::system_error& error) {
    problem = error.what();
  }
  TuneResult result = backend.tune(operations, known.choices);
  if (result.timed.empty()) return result.notes;
  if (known.is_of_another_version) {
    result.notes += file.string() +
                    ": its GEMM algorithms are another version's, or damaged; they were timed "
                    "anew, and this version's take their place\n";
  }
  if (!problem.empty()) return result.notes + note_of_loss(problem);
  try {
    backend.use_algorithms(text_of(add(file, result.timed, known.choices)));
  } catch (const std::exception& error) {
    return result.notes + note_of_loss(error.what());
  }
  return result.notes;
}

}  // namespace weft
