#include "indexed_dataset/format/sidecars/output_conflicts.h"

#include <unistd.h>

#include <climits>
#include <system_error>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/base/storage/free_space.h"
#include "indexed_dataset/format/pair/dataset_files.h"
#include "indexed_dataset/format/sidecars/dataset_locks.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(int error, const std::string& text) {
  throw std::system_error(error, std::generic_category(), text);
}

void check_name(const fs::path& file) {
  const std::string name = file.filename().string();
  if (name.find('\n') != std::string::npos) {
    throw UsageError("'" + file.string() + "': names of outputs cannot have line ends in them");
  }
  const fs::path folder = folder_of(file);
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    fail(ENOENT, "folder '" + folder.string() + "' for the output does not exist; create it first");
  }
  const long longest = ::pathconf(folder.c_str(), _PC_NAME_MAX);
  if (std::ssize(name) + kPartNameBytes > (longest > 0 ? longest : NAME_MAX)) {
    fail(ENAMETOOLONG, "'" + file.string() + "' cannot be written; choose a shorter name");
  }
  if (fs::is_directory(file, error)) {
    fail(EISDIR, "'" + file.string() + "' cannot be written; move the folder away");
  }
}

}  // namespace

void guard_outputs(const std::vector<fs::path>& dataset_prefixes, const fs::path& lock_file,
                   const std::vector<fs::path>& other_files, const std::vector<fs::path>& inputs) {
  std::vector<fs::path> files;
  for (const fs::path& prefix : dataset_prefixes) {
    for (const char* suffix : kDatasetSuffixes) files.push_back(prefix.string() + suffix);
  }
  for (const fs::path& other : other_files) {
    for (const fs::path& file : files) {
      if (fs::absolute(other).lexically_normal() != fs::absolute(file).lexically_normal()) continue;
      throw UsageError("'" + other.string() +
                       "' is a name of the dataset itself; choose another one");
    }
  }
  files.insert(files.end(), other_files.begin(), other_files.end());
  for (const fs::path& prefix : dataset_prefixes) files.push_back(dataset_lock_path(prefix));
  if (!lock_file.empty()) files.push_back(lock_file);
  for (const fs::path& file : files) {
    check_name(file);
    std::error_code error;
    // Looking at each of tens of thousands of inputs takes time.
    if (!fs::exists(file, error)) continue;
    for (const fs::path& input : inputs) {
      if (!fs::equivalent(file, input, error)) continue;
      throw UsageError("'" + file.string() + "' is the input '" + input.string() +
                       "', which the output would replace; choose another name");
    }
  }
}

}  // namespace weft
