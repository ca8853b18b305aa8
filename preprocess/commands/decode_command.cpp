// weft-data decode prints the text of token ids: the inverse of encode.
#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "indexed_dataset/base/process/stop_signal.h"
#include "indexed_dataset/base/terminal/terminal_text.h"
#include "preprocess/commands/commands.h"
#include "preprocess/commands/find_vocabulary.h"
#include "preprocess/commands/ids_text.h"
#include "tokenizer/tokenizer.h"

namespace weft {
namespace {

class DecodeCommand final : public Command {
 public:
  DecodeCommand()
      : Command("decode", "print the text of token ids, as encode prints them",
                "echo '7454 2402 257 640' | weft-data decode --input -") {}

  void declare(OptionSet& options) override {
    options.text("--input", input_, "the ids; '-' is standard input");
    options.choice("--format", format_,
                   {{"plain", IdsFormat::kPlain}, {"jsonl", IdsFormat::kJsonl}},
                   "plain: ids with white space between them, and their bytes; jsonl: a JSON array "
                   "of ids a line, and a line {\"text\": ...} for each");
    vocabulary_.declare(options, "GPT-2's is found or downloaded");
  }
  void validate(OptionSet& options) const override { vocabulary_.validate(options); }

  int run(const OptionSet&) override {
    install_stop_signals();
    const Tokenizer tokenizer(find_or_download_vocabulary(vocabulary_).vocabulary);
    const std::string input = read_input(input_);
    if (format_ == IdsFormat::kPlain) {
      const std::vector<int32_t> ids = parse_ids(input, input_, tokenizer.vocabulary().size());
      const std::string text = tokenizer.decode(ids.data(), ids.size());
      std::fwrite(text.data(), 1, text.size(), stdout);
      return 0;
    }
    int64_t line_number = 0;
    for (size_t begin = 0, end; begin < input.size(); begin = end + 1) {
      end = std::min(input.find('\n', begin), input.size());
      print_document(tokenizer, input.substr(begin, end - begin), ++line_number);
    }
    return 0;
  }

 private:
  static std::vector<int32_t> ids_of(const nlohmann::json& list) {
    if (!list.is_array()) throw std::runtime_error("it is no array");
    std::vector<int32_t> ids;
    for (const nlohmann::json& id : list) {
      if (!id.is_number_unsigned() || id.get<uint64_t>() > INT32_MAX)
        throw std::runtime_error(id.dump() + " is no token id");
      ids.push_back(id.get<int32_t>());
    }
    return ids;
  }

  void print_document(const Tokenizer& tokenizer, const std::string& line,
                      int64_t line_number) const {
    try {
      const std::vector<int32_t> ids = ids_of(nlohmann::json::parse(line));
      const std::string text = tokenizer.decode(ids.data(), ids.size());
      if (num_valid_utf8_bytes(text) != text.size()) {
        throw std::runtime_error(
            "its bytes are no UTF-8, which JSON needs; --format plain prints them");
      }
      const nlohmann::ordered_json document = {{"text", text}};
      fmt::print("{}\n", document.dump());
    } catch (const std::exception& error) {
      throw std::runtime_error(
          fmt::format("{}:{}: not the ids of a document: {}", input_, line_number, error.what()));
    }
  }

  std::string input_ = "-";
  IdsFormat format_ = IdsFormat::kPlain;
  VocabularyOptions vocabulary_;
};

}  // namespace

std::unique_ptr<Command> make_decode_command() { return std::make_unique<DecodeCommand>(); }

}  // namespace weft
