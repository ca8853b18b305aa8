#include "preprocess/commands/ids_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <stdexcept>

#include "indexed_dataset/base/process/stop_signal.h"
#include "indexed_dataset/base/storage/text_file.h"
#include "preprocess/inputs/input_list.h"
#include "preprocess/stream/byte_source.h"

namespace weft {

void declare_special_tokens(OptionSet& options, SpecialTokens& special_tokens) {
  options.choice("--special", special_tokens,
                 {{"literal", SpecialTokens::kLiteral},
                  {"token", SpecialTokens::kToken},
                  {"error", SpecialTokens::kError}},
                 "what a special token in a text, such as <|endoftext|>, is: its letters, the "
                 "token, or an error");
}

std::string read_input(const std::string& input, const HttpOptions& http) {
  const auto source = open_input(input, stop_flag(), {}, http);
  constexpr size_t kReadBytes = 1 << 20;
  std::string bytes;
  try {
    for (size_t num_read = kReadBytes; num_read > 0;) {
      const size_t num_before = bytes.size();
      bytes.resize(num_before + kReadBytes);
      num_read = source->read(bytes.data() + num_before, kReadBytes);
      bytes.resize(num_before + num_read);
    }
  } catch (const ReadCancelled&) {
    throw StoppedBySignal(stop_signal());
  }
  return bytes;
}

// Reads decimal numbers with white space between them.
std::vector<int32_t> parse_ids(const std::string& text, const std::string& input,
                               int32_t vocabulary_size) {
  constexpr const char* kWhiteSpace = " \t\r\n";
  std::vector<int32_t> ids;
  const size_t first = text.size() - without_byte_order_mark(text).size();
  for (size_t begin = first; (begin = text.find_first_not_of(kWhiteSpace, begin)) != text.npos;) {
    const size_t end = std::min(text.find_first_of(kWhiteSpace, begin), text.size());
    int32_t id = 0;
    const auto [last, error] = std::from_chars(text.data() + begin, text.data() + end, id);
    if (error != std::errc() || last != text.data() + end || id < 0 || id >= vocabulary_size) {
      throw std::runtime_error(
          fmt::format("{}: byte {}: '{}' is not a token id; ids are numbers below {} with "
                      "white space between them",
                      make_input(input)->name(), begin,
                      text.substr(begin, std::min<size_t>(end - begin, 40)), vocabulary_size));
    }
    ids.push_back(id);
    begin = end;
  }
  return ids;
}

}  // namespace weft
