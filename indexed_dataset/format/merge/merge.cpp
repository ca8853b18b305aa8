#include "indexed_dataset/format/merge/merge.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <stdexcept>
#include <system_error>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/base/storage/free_space.h"
#include "indexed_dataset/format/merge/merge_checks.h"
#include "indexed_dataset/format/merge/merge_manifest.h"
#include "indexed_dataset/format/merge/merge_pairs.h"
#include "indexed_dataset/format/merge/merge_sources.h"
#include "indexed_dataset/format/merge/part_versions.h"
#include "indexed_dataset/format/pair/dataset_files.h"
#include "indexed_dataset/format/sidecars/dataset_locks.h"
#include "indexed_dataset/format/sidecars/dataset_manifest.h"
#include "indexed_dataset/format/sidecars/output_conflicts.h"
#include "indexed_dataset/format/soundness/block_checksums.h"
#include "indexed_dataset/format/soundness/verify.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

// Holds the output files under their part names, and removes them unless they were committed.
class OutputParts {
 public:
  OutputParts(fs::path prefix, DatasetLocks& lock) : prefix_(std::move(prefix)) {
    lock.claim_parts(prefix_, "merge", {std::begin(kDatasetSuffixes), std::end(kDatasetSuffixes)});
    remove();
  }
  ~OutputParts() { remove(); }
  OutputParts(const OutputParts&) = delete;

  fs::path part(const std::string& suffix) const { return prefix_.string() + suffix + ".part"; }

  void commit() {
    // An older dataset of this name ends here, so that its .idx never stands beside new files.
    remove_file(prefix_.string() + ".idx");
    for (const char* suffix : kDatasetSuffixes) {
      const fs::path name = prefix_.string() + suffix;
      if (fs::exists(part(suffix))) {
        commit_rename(part(suffix), name);
      } else {
        remove_file(name);
      }
    }
  }

 private:
  void remove() noexcept {
    std::error_code ignored;
    for (const char* suffix : kDatasetSuffixes) fs::remove(part(suffix), ignored);
  }

  fs::path prefix_;
};

// True if a merge that was killed while it gave names has written the .bin that has its name: that
// of a run may stand there, too.
bool is_bin_of_killed_merge(const MergeConfig& config, const std::function<void()>& check) {
  const auto find = [&](const std::string& suffix) {
    const fs::path name = config.output_prefix.string() + suffix, part = name.string() + ".part";
    return fs::exists(part) ? part : name;
  };
  const DatasetFile bin = {".bin", find(".bin")}, index = {".idx", find(".idx")};
  // The .bin is the first that gets its name.
  if (bin.path.extension() == ".part") return false;
  try {
    const auto written = read_block_checksums(find(".checksums"));
    if (!written) return false;
    // The checksums may be those of a run, too: the index is the merge's, so that it fits only the
    // merge's checksums. It is small, and looked at first.
    return std::ranges::all_of(std::array{index, bin}, [&](const DatasetFile& file) {
      const auto now =
          compute_block_checksums({&file, 1}, config.num_threads, [&check](auto&&...) { check(); });
      return std::ranges::find(*written, now[0]) != written->end();
    });
  } catch (const ChecksumMismatch&) {  // the file of checksums is damaged: it proves nothing
    return false;
  }
}

// True if an earlier merge has made the output of these parts, none of which is younger. Throws
// std::invalid_argument if there is a dataset of other parts.
bool is_there_already(const MergeConfig& config, const std::string& manifest,
                      const std::function<void()>& check) {
  const fs::path index = config.output_prefix.string() + ".idx";
  const fs::path bin = config.output_prefix.string() + ".bin";
  if (config.overwrite) return false;
  if (!fs::exists(index)) {
    // A merge of these parts that was killed while it gave names had the index still before it.
    const fs::path final_manifest = dataset_manifest_path(config.output_prefix);
    const fs::path its_part = final_manifest.string() + ".part";
    const auto was_killed = [&] {
      return fs::exists(index.string() + ".part") &&
             difference_from_merged(fs::exists(its_part) ? its_part : final_manifest, manifest)
                 .empty() &&
             is_bin_of_killed_merge(config, check);
    };
    if (!fs::exists(bin)) return false;
    if (was_killed()) {
      // It is made anew. Left there, it would stand without its merge's parts after another kill.
      remove_file(bin);
      return false;
    }
    throw std::invalid_argument("'" + bin.string() +
                                "' is there without its .idx, which weft-data repair may be able "
                                "to make again, or the end of the run that was giving it its name; "
                                "give --overwrite to replace it, or another --output-prefix");
  }
  std::string why = difference_from_merged(dataset_manifest_path(config.output_prefix), manifest);
  if (!fs::exists(bin)) why = "of which the .bin is missing";
  for (const fs::path& prefix : config.prefixes) {
    const fs::path part = prefix.string() + ".idx";
    if (why.empty() && fs::last_write_time(part) > fs::last_write_time(index))
      why = "made before '" + part.string() + "' was";
  }
  if (why.empty()) {
    check_file_sizes(config.output_prefix);
    return true;
  }
  throw std::invalid_argument("'" + index.string() + "' is a finished dataset, " + why +
                              "; give --overwrite to replace it, or another --output-prefix");
}

// The entries of a source map are compared; its header and list of inputs are checked by reading.
void check_opens(const fs::path& sources) {
  try {
    SourceMap{sources};
  } catch (const std::system_error&) {
    throw;
  } catch (const std::runtime_error& error) {
    throw ChecksumMismatch(std::string("what was written to it was lost: ") + error.what());
  }
}

}  // namespace

MergeReport merge_datasets(const MergeConfig& config, const std::function<void()>& check) {
  std::vector<fs::path> inputs;
  for (const fs::path& prefix : config.prefixes) {
    for (const char* suffix : {".bin", ".idx"}) inputs.emplace_back(prefix.string() + suffix);
  }
  guard_outputs({config.output_prefix}, {}, {}, inputs);
  DatasetLocks lock({config.output_prefix});
  const PairMerge pairs(config.prefixes);
  MergeReport report;
  report.notes = compare_part_versions(pairs);
  const auto sources = SourcesMerge::open(pairs, report.notes);
  const auto [manifest, notes] = merged_manifest(pairs, config.program_version, config.options);
  report.notes.insert(report.notes.end(), notes.begin(), notes.end());
  report.num_documents = pairs.num_documents();
  report.num_tokens = pairs.num_tokens();
  report.was_there = is_there_already(config, manifest, check);
  if (report.was_there) return report;

  OutputParts parts(config.output_prefix, lock);
  const int64_t pair_bytes = pairs.bin_bytes() + pairs.idx_bytes();
  // Checksums: 17 bytes for each 16 MiB.
  require_free_space(config.output_prefix, pair_bytes + (sources ? sources->size_bytes() : 0) +
                                               pair_bytes / 900000 +
                                               static_cast<int64_t>(manifest.size()));
  const PartChecks part_checks(pairs, config.num_threads);
  const auto see_part = [&](size_t part, int64_t at, std::span<const std::byte> bytes) {
    check();
    part_checks.compare(part, at, bytes);
  };
  const auto [bin, idx] =
      pairs.write(parts.part(".bin"), parts.part(".idx"), config.num_threads, see_part);
  std::vector<DatasetFile> files = {{".bin", parts.part(".bin")}, {".idx", parts.part(".idx")}};
  std::vector<WrittenFile> written = {{files[0].path, 0, bin}, {files[1].path, 0, idx}};
  if (sources) {
    files.push_back({".sources", parts.part(".sources")});
    const Crc32 entries = sources->write(files[2].path, config.num_threads, check);
    written.push_back({files[2].path, sources->entries_begin(), entries});
  }
  ReadBack read_back(std::move(written));
  const auto see_result = [&](size_t file, int64_t at, std::span<const std::byte> bytes) {
    check();
    read_back.see(file, at, bytes);
  };
  const auto checksums = compute_block_checksums(files, config.num_threads, see_result);
  read_back.check();
  if (sources) check_opens(parts.part(".sources"));
  write_block_checksums(parts.part(".checksums"), checksums);
  write_synced_file(parts.part(".manifest.json"), manifest);
  check();
  parts.commit();

  report.num_bytes = pair_bytes;
  return report;
}

}  // namespace weft
