// Arguments that stand in files: those of --args, and those that a checkpoint has saved.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <vector>

namespace weft {

// Replaces each "--args FILE" by what the file holds: flags and values, with spaces or ends of
// lines between them, `#` before comments and quotes around values with spaces; or a
// run_manifest.json. They count as if they stood before all other arguments, so what the command
// line says itself wins. Throws UsageError for a missing value, std::system_error if a
// file cannot be read, and std::runtime_error for JSON that is no manifest.
std::vector<std::string> with_argument_files(const std::vector<std::string>& arguments);

// Writes resolved_json() as a command line; of `names` alone, if there are any.
std::vector<std::string> words_of_resolved(const nlohmann::json& resolved,
                                           const std::set<std::string>& names = {});

// Returns the command line of the shape of a checkpoint's model, by the arguments that it has saved
// (--use-checkpoint-args).
std::vector<std::string> shape_words_of(const std::string& arguments_json);

}  // namespace weft
