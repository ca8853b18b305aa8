#include "trainer/checkpoint/checkpoint_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <system_error>

#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/base/storage/text_file.h"

namespace weft {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kPrefix = "iter_", kPart = ".part", kReplaced = ".replaced";

// Returns the number of "iter_0000300", or nothing for any other name.
std::optional<int64_t> iteration_of(const std::string& name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  int64_t iteration = -1;
  const char* end = name.data() + name.size();
  const auto [parsed, error] = std::from_chars(name.data() + kPrefix.size(), end, iteration);
  if (error != std::errc{} || parsed != end || iteration < 0) return std::nullopt;
  // "iter_300" is nobody's name for iteration 300.
  if (checkpoint_folder("", iteration) != name) return std::nullopt;
  return iteration;
}

// Returns whether a folder holds only what checkpoints of ours are made of, whole or torn.
bool holds_only_our_files(const fs::path& folder) {
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const bool is_state = name.starts_with("state") && name.ends_with(".safetensors");
    if (!entry.is_regular_file() || !(is_state || entry.path() == manifest_path(folder)))
      return false;
  }
  return true;
}

}  // namespace

fs::path checkpoint_folder(const fs::path& dir, int64_t iteration) {
  return dir / fmt::format("iter_{:07d}", iteration);
}

fs::path manifest_path(const fs::path& folder) { return folder / "manifest.json"; }

std::optional<int64_t> latest_iteration(const fs::path& dir) {
  const fs::path tracker = dir / kTrackerFile;
  if (!fs::exists(tracker)) return std::nullopt;
  // A tracker is a few bytes long; anything longer is another file, which is not read.
  constexpr uintmax_t kMaxBytes = 64;
  std::string text = fs::is_regular_file(tracker) && fs::file_size(tracker) <= kMaxBytes
                         ? read_text_file(tracker)
                         : "";
  text.erase(text.find_last_not_of(" \t\r\n") + 1);  // people edit it
  text.erase(0, text.find_first_not_of(" \t\r\n"));
  int64_t iteration = -1;
  const char* end = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data(), end, iteration);
  if (error != std::errc{} || parsed != end || iteration < 0) {
    throw std::runtime_error(
        tracker.string() +
        (text == "release"
             ? std::string(": \"release\" names a model of Megatron, ") + kWayFromMegatron
             : ": holds no iteration number; write the number of an iter_ folder into it"));
  }
  return iteration;
}

void set_latest_iteration(const fs::path& dir, int64_t iteration) {
  write_file_atomically(dir / kTrackerFile, std::to_string(iteration) + "\n");
}

std::vector<int64_t> stored_iterations(const fs::path& dir) {
  std::vector<int64_t> iterations;
  if (!fs::is_directory(dir)) return iterations;
  for (const fs::directory_entry& entry : fs::directory_iterator(dir)) {
    const std::optional<int64_t> iteration = iteration_of(entry.path().filename().string());
    if (iteration && entry.is_directory()) iterations.push_back(*iteration);
  }
  std::sort(iterations.begin(), iterations.end(), std::greater());
  return iterations;
}

bool holds_model_of_megatron(const fs::path& folder) {
  if (!fs::is_directory(folder)) return false;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("mp_rank_") || name.starts_with("global_step") ||
        name.ends_with(".distcp") || name == "model_optim_rng.pt")
      return true;
  }
  return false;
}

bool is_replaceable(const fs::path& folder) {
  return fs::exists(manifest_path(folder)) || holds_only_our_files(folder);
}

void commit_folder(const fs::path& part, const fs::path& final_folder) {
  if (!fs::exists(final_folder)) return commit_rename(part, final_folder);
  if (!is_replaceable(final_folder)) {
    throw std::runtime_error(final_folder.string() +
                             " holds files but no checkpoint of Weft, so it is not replaced; move "
                             "it away or give another --save");
  }
  const fs::path replaced = final_folder.string() + std::string(kReplaced);
  // With an exchange the name stands for a whole checkpoint at every instant.
  if (exchange_names(part, final_folder)) {
    commit_rename(part, replaced);
  } else {
    try {
      commit_rename(final_folder, replaced);
      commit_rename(part, final_folder);
    } catch (...) {
      // A killed run leaves this to remove_leftovers().
      std::error_code ignored;
      if (!fs::exists(final_folder)) fs::rename(replaced, final_folder, ignored);
      throw;
    }
  }
  fs::remove_all(replaced);
}

void remove_leftovers(const fs::path& dir) {
  if (!fs::exists(dir)) return;
  std::vector<fs::path> leftovers;
  for (const fs::directory_entry& entry : fs::directory_iterator(dir)) {
    const std::string name = entry.path().filename().string();
    for (const std::string_view suffix : {kPart, kReplaced}) {
      if (name.ends_with(suffix) && iteration_of(name.substr(0, name.size() - suffix.size())))
        leftovers.push_back(entry.path());
    }
  }
  for (const fs::path& leftover : leftovers) {
    const std::string path = leftover.string();
    const bool was_replaced = path.ends_with(kReplaced);
    const std::string successor = path.substr(0, path.size() - kReplaced.size());
    if (was_replaced && !fs::exists(successor)) {
      commit_rename(leftover, successor);
    } else {
      fs::remove_all(leftover);
    }
  }
}

}  // namespace weft
