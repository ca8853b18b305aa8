#include "indexed_dataset/format/merge/merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <system_error>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/base/storage/free_space.h"
#include "indexed_dataset/format/merge/drop_list.h"
#include "indexed_dataset/format/merge/merge_checks.h"
#include "indexed_dataset/format/merge/merge_folder.h"
#include "indexed_dataset/format/merge/merge_manifest.h"
#include "indexed_dataset/format/merge/merge_pairs.h"
#include "indexed_dataset/format/merge/merge_sources.h"
#include "indexed_dataset/format/merge/shard_check.h"
#include "indexed_dataset/format/pair/dataset_files.h"
#include "indexed_dataset/format/sidecars/dataset_locks.h"
#include "indexed_dataset/format/sidecars/dataset_manifest.h"
#include "indexed_dataset/format/sidecars/output_conflicts.h"
#include "indexed_dataset/format/soundness/block_checksums.h"
#include "indexed_dataset/format/soundness/verify.h"
#include "indexed_dataset/format/soundness/xxh3.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

// Throws UsageError if an input lies in the folder, from which the merge removes what a
// killed one has left.
void check_holds_no_input(const MergeFolder& folder, const std::vector<fs::path>& inputs) {
  for (const char* suffix : kDatasetSuffixes) {
    const fs::path file = folder.file(suffix);
    if (!fs::exists(file)) continue;
    for (const fs::path& input : inputs) {
      std::error_code ignored;
      if (!fs::equivalent(file, input, ignored)) continue;
      throw UsageError("the input '" + input.string() +
                       "' is a file that a merge to this output has left and that this "
                       "one would remove; move it away, or give another --output-prefix");
    }
  }
}

// True if the .bin that has its name without an .idx is that of a merge of the same parts that was
// killed while it gave names. The .bin of a run, or of other parts, may stand there, too.
bool is_bin_of_killed_merge(const MergeConfig& config, const std::string& manifest,
                            const MergeFolder& folder, const std::function<void()>& check) {
  const auto find = [&](const std::string& suffix) {
    const fs::path part = folder.file(suffix);
    return fs::exists(part) ? part : fs::path(config.output_prefix.string() + suffix);
  };
  // The .bin is the first that gets its name, and the .idx the last.
  if (fs::exists(folder.file(".bin")) || !fs::exists(folder.file(".idx"))) return false;
  if (!difference_from_merged(find(".manifest.json"), manifest).empty()) return false;
  try {
    const auto written = read_block_checksums(find(".checksums"));
    if (!written) return false;
    // The checksums may be those of a run, too: the index is the merge's, so that it fits only the
    // merge's checksums. It is small, and looked at first.
    const DatasetFile bin = {".bin", find(".bin")}, index = {".idx", find(".idx")};
    return std::ranges::all_of(std::array{index, bin}, [&](const DatasetFile& file) {
      const auto now =
          compute_block_checksums({&file, 1}, config.num_threads, [&check](auto&&...) { check(); });
      return std::ranges::find(*written, now[0]) != written->end();
    });
  } catch (const ChecksumMismatch&) {  // the file of checksums is damaged: it proves nothing
    return false;
  }
}

// True if an earlier merge has made the output of these parts. Throws UsageError if
// there is a dataset of other parts.
bool is_there_already(const MergeConfig& config, const std::string& manifest,
                      const MergeFolder& folder, const std::function<void()>& check) {
  const fs::path index = config.output_prefix.string() + ".idx";
  const fs::path bin = config.output_prefix.string() + ".bin";
  if (config.overwrite) return false;
  if (!fs::exists(index)) {
    if (!fs::exists(bin)) return false;
    if (is_bin_of_killed_merge(config, manifest, folder, check)) {
      // It is made anew. Left there, it would stand without its merge's files after another kill.
      remove_file(bin);
      return false;
    }
    throw UsageError("'" + bin.string() +
                     "' is there without its .idx, which weft-data repair may be able "
                     "to make again, or the end of the run that was giving it its name; "
                     "give --overwrite to replace it, or another --output-prefix");
  }
  std::string why = difference_from_merged(dataset_manifest_path(config.output_prefix), manifest);
  if (!fs::exists(bin)) why = "of which the .bin is missing";
  if (why.empty()) {
    check_file_sizes(config.output_prefix);
    return true;
  }
  throw UsageError("'" + index.string() + "' is a finished dataset, " + why +
                   "; give --overwrite to replace it, or another --output-prefix");
}

// By the documents, so that a list of the same duplicates is the same list.
std::string hash_of_list(const std::vector<std::vector<int64_t>>& dropped) {
  uint64_t hash = 0;
  for (const std::vector<int64_t>& documents : dropped)
    hash = XXH3_64bits_withSeed(documents.data(), documents.size() * sizeof(int64_t), hash + 1);
  return fmt::format("{:016x}", hash);
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

MergeReport merge_datasets(const MergeConfig& config, const std::function<void()>& check,
                           const OnProgress& on_progress) {
  std::vector<fs::path> inputs;
  for (const fs::path& prefix : config.prefixes) {
    for (const char* suffix : {".bin", ".idx"}) inputs.emplace_back(prefix.string() + suffix);
  }
  guard_outputs({config.output_prefix}, {}, {}, inputs);
  const DatasetLocks lock({config.output_prefix});
  std::vector<std::vector<int64_t>> dropped;
  std::string drop_list_hash;
  if (!config.drop_list.empty()) {
    dropped = documents_to_drop(config.drop_list, config.prefixes);
    drop_list_hash = hash_of_list(dropped);
  }
  const PairMerge pairs(config.prefixes, dropped);
  MergeReport report;
  for (const std::vector<int64_t>& documents : dropped) report.num_dropped += std::ssize(documents);
  check_shards(pairs);
  const auto sources = SourcesMerge::open(pairs, report.notes);
  const auto [manifest, notes] = merged_manifest(pairs, config.program_version, config.options,
                                                 drop_list_hash, config.num_threads, check);
  report.notes.insert(report.notes.end(), notes.begin(), notes.end());
  report.num_documents = pairs.num_documents();
  report.num_tokens = pairs.num_tokens();
  MergeFolder folder(config.output_prefix);
  check_holds_no_input(folder, inputs);
  report.was_there = is_there_already(config, manifest, folder, check);
  if (report.was_there) {
    folder.remove();  // of a merge that was killed when all was done
    return report;
  }
  folder.begin();
  const int64_t pair_bytes = pairs.bin_bytes() + pairs.idx_bytes();
  // Checksums: 17 bytes for each 16 MiB.
  require_free_space(config.output_prefix, pair_bytes + (sources ? sources->size_bytes() : 0) +
                                               pair_bytes / 900000 +
                                               static_cast<int64_t>(manifest.size()));
  const PartChecks part_checks(pairs, config.num_threads);
  // Parts are read whole, what is left out of them included; then the result is read back.
  int64_t num_steps = pair_bytes + (sources ? sources->size_bytes() : 0);
  for (const PairMerge::Part& part : pairs.parts())
    num_steps += std::ssize(part.reader.bin_bytes());
  const auto see_bytes = [&](std::span<const std::byte> bytes) {
    if (on_progress) on_progress("merged", std::ssize(bytes), num_steps);
  };
  const auto see_part = [&](size_t part, int64_t at, std::span<const std::byte> bytes) {
    check();
    part_checks.compare(part, at, bytes);
    see_bytes(bytes);
  };
  const auto [bin, idx] =
      pairs.write(folder.file(".bin"), folder.file(".idx"), config.num_threads, see_part);
  std::vector<DatasetFile> files = {{".bin", folder.file(".bin")}, {".idx", folder.file(".idx")}};
  std::vector<WrittenFile> written = {{files[0].path, 0, bin}, {files[1].path, 0, idx}};
  if (sources) {
    files.push_back({".sources", folder.file(".sources")});
    const Crc32 entries = sources->write(files[2].path, config.num_threads, check);
    written.push_back({files[2].path, sources->entries_begin(), entries});
  }
  ReadBack read_back(std::move(written));
  const auto see_result = [&](size_t file, int64_t at, std::span<const std::byte> bytes) {
    check();
    read_back.see(file, at, bytes);
    see_bytes(bytes);
  };
  const auto checksums = compute_block_checksums(files, config.num_threads, see_result);
  read_back.check();
  if (sources) check_opens(folder.file(".sources"));
  write_block_checksums(folder.file(".checksums"), checksums);
  write_synced_file(folder.file(".manifest.json"), manifest);
  check();
  folder.commit();

  report.num_bytes = pair_bytes;
  return report;
}

}  // namespace weft
