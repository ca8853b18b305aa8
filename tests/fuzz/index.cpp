// An .idx of any content beside a .bin of 64 bytes: refused, or read without touching anything
// outside of the two files. A dataset that verifies as sound has only whole sequences and
// documents.
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "indexed_dataset/format/pair/reader.h"
#include "indexed_dataset/format/soundness/verify.h"
#include "tests/fuzz/fuzz_check.h"

namespace weft {
namespace {

void read_all(const std::filesystem::path& prefix, bool is_sound) {
  const DatasetReader reader(prefix);
  const int64_t num_sequences = std::min<int64_t>(reader.num_sequences(), 100);
  int64_t num_tokens = 0;
  for (int64_t s = 0; s < num_sequences; ++s) {
    reader.document_of_sequence(s);
    try {
      num_tokens += static_cast<int64_t>(reader.tokens(s).size());
    } catch (const std::runtime_error&) {  // the index points outside of .bin
      FUZZ_CHECK(!is_sound);
    } catch (const std::out_of_range&) {
      FUZZ_CHECK(!is_sound);
    }
  }
  if (!is_sound) return;
  FUZZ_CHECK(num_sequences < reader.num_sequences() || num_tokens == reader.num_tokens());
  int64_t before = 0;
  for (int64_t d = 0; d < std::min<int64_t>(reader.num_documents(), 100); ++d) {
    FUZZ_CHECK(reader.document_bound(d) == before && reader.document_bound(d + 1) >= before);
    before = reader.document_bound(d + 1);
  }
}

}  // namespace
}  // namespace weft

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // In $TMPDIR, which run.sh removes.
  static const std::filesystem::path folder = [] {
    std::string name = (std::filesystem::temp_directory_path() / "weft-fuzz-XXXXXX").string();
    FUZZ_CHECK(::mkdtemp(name.data()) != nullptr);
    std::ofstream(name + "/d.bin") << std::string(64, '\1');
    return name;
  }();
  std::ofstream(folder / "d.idx", std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  bool is_sound = false;
  try {
    is_sound = weft::verify_dataset_files(folder / "d", 0, 1).structure_problems.empty();
    weft::read_all(folder / "d", is_sound);
  } catch (const std::runtime_error&) {
    FUZZ_CHECK(!is_sound);
  }
  return 0;
}
