// Bytes of any content that a rank reads from another are refused, or are exactly what would be
// written for them. The first byte is the kind: `q` a request, `a` an answer, `e` how a rank ends.
#include <stdexcept>
#include <string_view>

#include "preprocess/ledger/ledger_messages.h"
#include "tests/fuzz/fuzz_check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace weft;
  if (size == 0) return 0;
  const std::string_view content(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    switch (data[0]) {
      case 'q':
        FUZZ_CHECK(to_message(ledger_request_from(content)) == content);
        break;
      case 'a':
        FUZZ_CHECK(to_message(ledger_reply_from(content)) == content);
        break;
      case 'e':
        FUZZ_CHECK(to_message(run_failure_from(content)) == content);
        break;
    }
  } catch (const std::domain_error&) {
  }
  return 0;
}
