// The folders of checkpoints in a --save folder DIR, and the tracker that names the latest.
//
//   DIR/latest_checkpointed_iteration.txt    decimal iteration; written last ("the tracker")
//   DIR/iter_0000300/                        a whole checkpoint
//   DIR/iter_0000300.part/                   one that is being written, or a killed run's
//   DIR/iter_0000300.replaced/               the older one of the two while one replaces the other
//
// The names and the tracker are Megatron-LM's [megatron/training/checkpointing.py], so that scripts
// that read or edit them keep working.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace weft {

inline constexpr const char* kTrackerFile = "latest_checkpointed_iteration.txt";

// Returns DIR/iter_%07d.
std::filesystem::path checkpoint_folder(const std::filesystem::path& dir, int64_t iteration);
// Returns FOLDER/manifest.json.
std::filesystem::path manifest_path(const std::filesystem::path& folder);

// Returns the iteration that DIR's tracker names, or nothing where there is no tracker. Throws
// std::runtime_error if the tracker holds no number.
std::optional<int64_t> latest_iteration(const std::filesystem::path& dir);
// Points the tracker at a checkpoint. Throws std::system_error.
void set_latest_iteration(const std::filesystem::path& dir, int64_t iteration);

// Returns the iterations of all iter_ folders in DIR, newest first, whether they are whole or not.
std::vector<int64_t> stored_iterations(const std::filesystem::path& dir);

// Returns whether the folder holds weights as Megatron or DeepSpeed writes them: mp_rank_00/,
// __0_0.distcp, model_optim_rng.pt, global_step10/.
bool holds_model_of_megatron(const std::filesystem::path& folder);
// The way from there, as the end of a sentence.
inline constexpr const char* kWayFromMegatron =
    "which is not read: write it as a Hugging Face folder with Megatron's tools, and make a checkpoint of "
    "that with weft-model import";

// Returns whether a checkpoint may replace an existing folder: it is one of ours, whole or torn.
bool is_replaceable(const std::filesystem::path& folder);

// Gives the folder `part` the name `final_folder`, so that at every instant the name, or that name
// with ".replaced", stands for a whole checkpoint. Throws std::runtime_error if a folder of that
// name is not replaceable, std::system_error.
void commit_folder(const std::filesystem::path& part, const std::filesystem::path& final_folder);

// Removes what killed runs left behind in DIR: parts of checkpoints and replaced ones. A replaced
// one whose successor never got its name gets its own name back. No other process may be saving
// into DIR.
void remove_leftovers(const std::filesystem::path& dir);

}  // namespace weft
