// Files that lie beside a dataset or a run, of any content: refused, or read consistently. The
// first byte says which: `s` source map, `c` checksums, `j` journal, `i` a damaged .idx to be
// mended. The hashes in checksums and journals are put right first, or hardly any input would get
// beyond them; in capitals they are left as they are.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>

#include "indexed_dataset/format/sidecars/source_map.h"
#include "indexed_dataset/format/soundness/block_checksums.h"
#include "indexed_dataset/format/soundness/xxh3.h"
#include "preprocess/ledger/journal.h"
#include "tests/fuzz/fuzz_check.h"
#include "tests/fuzz/memory_file.h"
#include "tests/temporary_folder.h"

namespace weft {
namespace {

std::string hash_of(std::string_view text) {
  char digits[17];
  std::snprintf(digits, sizeof(digits), "%016llx",
                static_cast<unsigned long long>(XXH3_64bits(text.data(), text.size())));
  return digits;
}

void read_source_map(const std::string& path) {
  const SourceMap map(path);
  for (int64_t i = 0; i < std::min<int64_t>(map.num_documents(), 100); ++i) {
    try {
      const SourceEntry entry = map.entry(i);
      FUZZ_CHECK(entry.input_idx < map.inputs().size() && entry.offset_bytes >= 0);
      FUZZ_CHECK(map.has_origins() || entry.origin.is_empty());
    } catch (const std::runtime_error&) {
    }
  }
  bool was_thrown = false;
  try {
    map.entry(map.num_documents());
  } catch (const std::out_of_range&) {
    was_thrown = true;
  }
  FUZZ_CHECK(was_thrown);
}

void read_checksums(const std::string& path) {
  const auto checksums = read_block_checksums(path);
  FUZZ_CHECK(checksums.has_value());
  for (const FileChecksums& file : *checksums) {
    FUZZ_CHECK(file.size_bytes >= 0);
    const auto num_blocks = (file.size_bytes + kChecksumBlockBytes - 1) / kChecksumBlockBytes;
    FUZZ_CHECK(static_cast<int64_t>(file.blocks.size()) == num_blocks);
  }
}

// A MemoryFile is a link: files that are written, or opened without following links, lie here.
std::filesystem::path scratch_folder() {
  static const TemporaryFolder folder("/dev/shm");
  return folder.path();
}

void read_journal(const std::string& content) {
  const auto path = scratch_folder() / "journal";
  std::ofstream(path, std::ios::binary) << content;
  Journal::read(path);
}

std::string journal_lines(std::string_view content) {
  std::string lines;
  while (!content.empty()) {
    const size_t end = std::min(content.find('\n'), content.size());
    lines += hash_of(content.substr(0, end)) + " " + std::string(content.substr(0, end)) + "\n";
    content.remove_prefix(std::min(end + 1, content.size()));
  }
  return lines;
}

}  // namespace
}  // namespace weft

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace weft;
  if (size == 0) return 0;
  const std::string content(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    switch (data[0]) {
      case 's':
        read_source_map(MemoryFile(content).path());
        break;
      case 'c':
        read_checksums(MemoryFile(content + "end " + hash_of(content) + "\n").path());
        break;
      case 'C':
        read_checksums(MemoryFile(content).path());
        break;
      case 'j':
        read_journal(journal_lines(content));
        break;
      case 'J':
        read_journal(content);
        break;
    }
  } catch (const std::runtime_error&) {
  }
  return 0;
}
