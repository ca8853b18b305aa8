#include "preprocess/run/shared_folder.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <random>
#include <stdexcept>
#include <thread>

#include "indexed_dataset/storage/file_io.h"
#include "indexed_dataset/storage/file_system.h"
#include "preprocess/datasets/output_conflicts.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr char kRanksFileName[] = "ranks";
// Clients of shared file systems may know for some seconds that a new file is not there.
constexpr std::chrono::seconds kFileIsSeenWithin{10};

}  // namespace

void check_file_system(const PlannedRun& run) {
  if (run.config.num_ranks() == 1 || run.config.allow_incoherent_file_system) return;
  const fs::path folder = folder_of(run.folder);
  const auto name = incoherent_file_system(folder);
  if (!name) return;
  throw std::invalid_argument(
      "'" + folder.string() + "' is on " + *name +
      ", where computers that write to one file can overwrite each other's bytes unnoticed; give "
      "each process a part of the work with --shard I/N and put the parts together with weft-data "
      "merge, or write to Lustre, GPFS, BeeGFS, CephFS or a local disk. If all ranks run on one "
      "computer, --allow-incoherent-file-system is safe");
}

std::string publish_work_folder(const PlannedRun& run) {
  std::random_device random;
  const std::string word = fmt::format("{:08x}{:08x}", random(), random());
  write_file_atomically(run.folder / kRanksFileName, word);
  return word;
}

void check_sees_work_folder(const PlannedRun& run, const std::string& word) {
  const fs::path path = run.folder / kRanksFileName;
  const auto deadline = std::chrono::steady_clock::now() + kFileIsSeenWithin;
  while (!fs::exists(path) || read_file(path) != word) {
    if (run.stop_requested()) throw PipelineStopped{true};
    if (std::chrono::steady_clock::now() > deadline) {
      throw std::invalid_argument(
          "'" + run.folder.string() + "' is not the folder of that name of " +
          run.config.ranks->name_of(0) +
          "; give an --output-prefix on a file system that all ranks share");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

}  // namespace weft
