#include "indexed_dataset/format/repair/repair_evidence.h"

#include <stdexcept>
#include <system_error>

#include "indexed_dataset/format/sidecars/dataset_manifest.h"
#include "indexed_dataset/format/soundness/kth_smallest.h"
#include "indexed_dataset/format/soundness/verify.h"

namespace weft {

namespace fs = std::filesystem;

Evidence gather_evidence(const fs::path& prefix) {
  Evidence evidence;
  try {
    if (const auto manifest = read_dataset_manifest(prefix)) {
      evidence.counts = {manifest->num_documents, manifest->num_tokens};
      evidence.append_eod = manifest->option("append-eod");
    } else if (fs::exists(sources_path(prefix))) {
      evidence.counts.num_documents = SourceMap(sources_path(prefix)).num_documents();
    }
    if (const auto stored = read_block_checksums(checksums_path(prefix))) {
      for (const FileChecksums& file : *stored) {
        if (file.suffix == ".idx") evidence.checksums = file;
      }
    }
  } catch (const std::system_error&) {
    throw;
  } catch (const std::runtime_error& error) {
    evidence.problems.push_back(error.what());
  }
  return evidence;
}

std::optional<ShortestLines> ShortestLines::find(const fs::path& path, int64_t num_documents,
                                                 int64_t count) {
  if (!fs::exists(path)) return std::nullopt;
  ShortestLines lines(path);
  if (lines.sources_.num_documents() != num_documents || count >= num_documents)
    return std::nullopt;
  const auto bytes_of = [&](int64_t document) { return lines.bytes_of(document); };
  lines.longest_bytes_ = kth_smallest(num_documents, count - 1, bytes_of);
  const int64_t next_bytes = kth_smallest(num_documents, count, bytes_of);
  if (lines.longest_bytes_ == next_bytes || next_bytes == kLongLine) return std::nullopt;
  return lines;
}

int64_t ShortestLines::bytes_of(int64_t document) const {
  if (document + 1 >= sources_.num_documents()) return kLongLine;
  const SourceEntry entry = sources_.entry(document), next = sources_.entry(document + 1);
  const bool is_known = entry.input_idx == next.input_idx && next.offset_bytes > entry.offset_bytes;
  return is_known ? next.offset_bytes - entry.offset_bytes : kLongLine;
}

Blame find_blame(const fs::path& prefix, bool idx_has_checksum, int num_threads) {
  const VerifyResult result = verify_dataset_files(prefix, 0, num_threads);
  const std::string idx = prefix.string() + ".idx: ", bin_size = prefix.string() + ".bin: has ";
  Blame blame;
  for (const std::string& problem : result.checksum_problems) {
    if (problem.starts_with(idx)) {
      blame.idx_is_sound = false;
    } else {
      blame.others.push_back(problem);
    }
  }
  for (const std::string& problem : result.structure_problems) {
    if (!idx_has_checksum && (problem.starts_with(idx) || problem.starts_with(bin_size))) {
      blame.idx_is_sound = false;
    } else if (!problem.starts_with(idx)) {
      blame.others.push_back(problem);
    }
  }
  return blame;
}

}  // namespace weft
