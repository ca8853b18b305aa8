// What ranks read from each other, of any content: refused, or exactly what would be written for
// it. The first byte says what: `q` a request, `a` an answer, `h` a hello, `f` a stream of frames,
// `c` the file that says where rank 0 is.
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "preprocess/ledger/coordinator_file.h"
#include "preprocess/ledger/ledger_messages.h"
#include "preprocess/ledger/message_socket.h"
#include "tests/fuzz/fuzz_check.h"

namespace weft {
namespace {

// However the bytes arrive, the same messages come out.
std::string cut_into_messages(std::string_view bytes, size_t piece_bytes) {
  MessageReader reader(100);
  std::string messages;
  while (!bytes.empty()) {
    const size_t size = std::min(piece_bytes, bytes.size());
    reader.feed(bytes.substr(0, size));
    bytes.remove_prefix(size);
    while (const auto message = reader.next()) messages += framed(*message);
  }
  return messages;
}

void read_coordinator_file(std::string_view content) {
  // In $TMPDIR, which run.sh removes.
  static const std::filesystem::path folder = [] {
    std::string name = (std::filesystem::temp_directory_path() / "weft-fuzz-XXXXXX").string();
    FUZZ_CHECK(::mkdtemp(name.data()) != nullptr);
    return name;
  }();
  std::ofstream(folder / kCoordinatorFileName, std::ios::binary) << content;
  std::string problem;
  const auto address = find_coordinator(folder, problem);
  FUZZ_CHECK(address.has_value() == problem.empty());
  FUZZ_CHECK(!address || address->port > 0);
}

}  // namespace
}  // namespace weft

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace weft;
  if (size == 0) return 0;
  const std::string_view content(reinterpret_cast<const char*>(data) + 1, size - 1);
  RunSecret secret;
  secret.fill('s');
  try {
    switch (data[0]) {
      case 'q':
        FUZZ_CHECK(to_message(ledger_request_from(content)) == content);
        break;
      case 'a':
        FUZZ_CHECK(to_message(ledger_reply_from(content)) == content);
        break;
      case 'h':
        if (const auto payload = open_hello(secret, content))
          FUZZ_CHECK(make_hello(secret, *payload) == content);
        break;
      case 'f':
        FUZZ_CHECK(cut_into_messages(content, 1) == cut_into_messages(content, size));
        break;
      case 'c':
        read_coordinator_file(content);
        break;
    }
  } catch (const ConnectionLost&) {
  }
  return 0;
}
