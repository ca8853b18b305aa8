// weft-data encode turns text into ids and back, and measures how fast.
#include <fmt/format.h>
#include <time.h>

#include <atomic>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "indexed_dataset/base/process/parallel_for.h"
#include "indexed_dataset/base/process/stop_signal.h"
#include "preprocess/commands/commands.h"
#include "preprocess/commands/find_vocabulary.h"
#include "preprocess/commands/ids_text.h"
#include "preprocess/commands/progress.h"
#include "preprocess/commands/store_options.h"
#include "preprocess/documents/each_document.h"
#include "preprocess/inputs/input_list.h"
#include "preprocess/stream/byte_source.h"
#include "tokenizer/tokenizer.h"

namespace weft {
namespace {

// A chunk is large against the cost of starting on it, and small enough for threads to end
// together.
constexpr size_t kChunkBytes = 1 << 20;

// Cuts only where the ids of the chunks in order are those of the whole text.
std::vector<std::string_view> cut_text(std::string_view text, const Tokenizer& tokenizer) {
  std::vector<std::string_view> chunks;
  while (text.size() > kChunkBytes) {
    size_t end = kChunkBytes;
    while (end < text.size() && !tokenizer.is_safe_cut(text, end)) ++end;
    if (end == text.size()) break;
    chunks.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  chunks.push_back(text);
  return chunks;
}

// Hashes the ids by FNV-1a.
template <typename Id>
uint64_t hash_of(const std::vector<std::vector<Id>>& ids_of_chunks) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const std::vector<Id>& ids : ids_of_chunks) {
    for (const Id id : ids) hash = (hash ^ static_cast<uint32_t>(id)) * 0x100000001b3;
  }
  return hash;
}

// Wall-clock time, and the processor time of all threads of this program, which other programs on
// the machine cannot lengthen.
struct Seconds {
  double wall, processor;
};

template <typename Work>
Seconds measure(const Work& work) {
  const auto now_s = [](clockid_t clock) {
    timespec time;
    clock_gettime(clock, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const double wall_s = now_s(CLOCK_MONOTONIC), processor_s = now_s(CLOCK_PROCESS_CPUTIME_ID);
  work();
  return {now_s(CLOCK_MONOTONIC) - wall_s, now_s(CLOCK_PROCESS_CPUTIME_ID) - processor_s};
}

class EncodeCommand final : public Command {
 public:
  EncodeCommand()
      : Command("encode", "print the token ids of a text, or with --decode the text of token ids",
                "echo 'Once upon a time' | weft-data encode --input -") {}

  void declare(OptionSet& options) override {
    options.text(
        "--input", input_,
        "one text of any bytes (or ids), held in memory; '-' is standard input; compressed "
        "files are decompressed");
    declare_store_options(options, http_.s3);
    options.integer("--threads", num_threads_, "threads that encode", 1, 1024);
    options.flag("--decode", decode_, "the input is token ids: print their text");
    options.integer("--repeat", num_repeats_,
                    "do it so many times in memory and report each (MB of text a second; the first "
                    "starts with empty caches), on standard error, or with --quiet on standard "
                    "output",
                    1);
    options.flag("--quiet", quiet_, "print no ids and no text");
    options.choice("--format", format_,
                   {{"plain", IdsFormat::kPlain}, {"jsonl", IdsFormat::kJsonl}},
                   "plain: one text, and ids with spaces between them; jsonl: documents, and for "
                   "each a line with a JSON array of its ids");
    options.text("--json-key", json_key_, "with --format jsonl: key whose strings are encoded");
    declare_special_tokens(options, special_tokens_);
    options.flag("--add-special-tokens", add_special_tokens_,
                 "put around every text what the tokenizer's own template does");
    vocabulary_.declare(options, "GPT-2's is found or downloaded");
  }

  void validate(OptionSet& options) const override {
    vocabulary_.validate(options);
    validate_store_options(options, http_.s3);
    if (decode_ && num_threads_ > 1)
      options.problem("--decode works with one thread: leave --threads out");
    if (format_ == IdsFormat::kPlain) return;
    for (const char* name : {"--decode", "--threads", "--repeat"}) {
      if (options.given(name)) options.problem(std::string("--format jsonl goes without ") + name);
    }
  }

  int run(const OptionSet& options) override {
    install_stop_signals();
    reports_ = quiet_ || options.given("--repeat");
    const auto vocabulary = find_or_download_vocabulary(vocabulary_).vocabulary;
    if (format_ == IdsFormat::kJsonl) {
      encode_documents(Tokenizer(vocabulary, special_tokens_));
      return 0;
    }
    const std::string input = read_input(input_, http_);
    if (decode_) {
      decode(Tokenizer(vocabulary), input);
    } else if (vocabulary->size() <= 1 << 16) {
      encode<uint16_t>(vocabulary, input);
    } else {
      encode<int32_t>(vocabulary, input);
    }
    return 0;
  }

 private:
  // No document is left out: a line that is none ends the command.
  void encode_documents(Tokenizer tokenizer) const {
    BadLineCounts bad_lines;
    std::string first_bad_line;
    const auto check_lines = [&] {
      if (bad_lines.total() > 0) throw std::runtime_error("bad line: " + first_bad_line);
    };
    std::vector<int32_t> ids;
    const auto print_ids_of = [&](std::string_view text) {
      check_lines();
      ids.clear();
      if (add_special_tokens_) {
        tokenizer.encode_with_template(text, ids);
      } else {
        tokenizer.encode(text, ids);
      }
      if (!quiet_) fmt::print("[{}]\n", fmt::join(ids, ", "));
    };
    TokenizeRules rules;
    rules.json_keys = {json_key_};
    try {
      for_each_document(*make_input(input_, http_), rules, stop_flag(), print_ids_of, bad_lines,
                        first_bad_line);
    } catch (const ReadCancelled&) {
      throw StoppedBySignal(stop_signal());
    }
    check_lines();
    warn_of_dropped_bytes(tokenizer.num_dropped_bytes());
  }

  static void warn_of_dropped_bytes(int64_t num_bytes) {
    if (num_bytes > 0) fmt::print(stderr, "{}\n", dropped_bytes_warning(num_bytes));
  }

  template <typename Id>
  void encode(const std::shared_ptr<const Vocabulary>& vocabulary, const std::string& text) const {
    std::vector<Tokenizer> tokenizers;
    for (int64_t i = 0; i < num_threads_; ++i) tokenizers.emplace_back(vocabulary, special_tokens_);
    const std::vector<std::string_view> chunks = cut_text(text, tokenizers[0]);
    std::vector<std::vector<Id>> ids_of_chunks(chunks.size());
    for (size_t i = 0; i < chunks.size(); ++i) ids_of_chunks[i].reserve(chunks[i].size() / 3);
    for (int64_t repeat = 0; repeat < num_repeats_; ++repeat) {
      const Seconds seconds = measure([&] { encode_chunks(chunks, tokenizers, ids_of_chunks); });
      size_t num_tokens = 0;
      for (const auto& ids : ids_of_chunks) num_tokens += ids.size();
      report(repeat, seconds, text.size(), num_tokens, hash_of(ids_of_chunks));
    }
    int64_t num_dropped_bytes = 0;
    for (const Tokenizer& tokenizer : tokenizers)
      num_dropped_bytes += tokenizer.num_dropped_bytes();
    warn_of_dropped_bytes(num_dropped_bytes / num_repeats_);
    if (quiet_) return;
    if (add_special_tokens_) {
      ids_of_chunks.emplace(ids_of_chunks.begin(), vocabulary->prefix_ids().begin(),
                            vocabulary->prefix_ids().end());
      ids_of_chunks.emplace_back(vocabulary->suffix_ids().begin(), vocabulary->suffix_ids().end());
    }
    print_ids(ids_of_chunks);
  }

  // Each tokenizer, in a thread of its own, takes the next chunk that is left.
  template <typename Id>
  static void encode_chunks(const std::vector<std::string_view>& chunks,
                            std::vector<Tokenizer>& tokenizers,
                            std::vector<std::vector<Id>>& ids_of_chunks) {
    std::atomic<size_t> next_chunk = 0;
    const int64_t num_threads = std::ssize(tokenizers);
    parallel_for(num_threads, static_cast<int>(num_threads), [&](int64_t thread) {
      for (size_t i; (i = next_chunk++) < chunks.size() && stop_signal() == 0;) {
        ids_of_chunks[i].clear();
        tokenizers[static_cast<size_t>(thread)].encode(chunks[i], ids_of_chunks[i]);
      }
    });
    if (stop_signal() != 0) throw StoppedBySignal(stop_signal());
  }

  void decode(const Tokenizer& tokenizer, const std::string& input) const {
    const std::vector<int32_t> ids = parse_ids(input, input_, tokenizer.vocabulary().size());
    std::string text;
    for (int64_t repeat = 0; repeat < num_repeats_; ++repeat) {
      text.clear();
      const Seconds seconds = measure([&] { tokenizer.decode(ids.data(), ids.size(), text); });
      if (stop_signal() != 0) throw StoppedBySignal(stop_signal());
      report(repeat, seconds, text.size(), ids.size(), hash_of<int32_t>({ids}));
    }
    if (!quiet_) std::fwrite(text.data(), 1, text.size(), stdout);
  }

  void report(int64_t repeat, const Seconds& seconds, size_t num_bytes, size_t num_tokens,
              uint64_t hash) const {
    if (!reports_) return;
    const double megabytes = static_cast<double>(num_bytes) / 1e6;
    fmt::print(
        quiet_ ? stdout : stderr,
        "{} {}: {:.1f} MB/s, {:.1f} MB a second of processor time, {} bytes, {} tokens, hash "
        "{:016x}\n",
        decode_ ? "decode" : "encode", repeat + 1, megabytes / std::max(seconds.wall, 1e-9),
        megabytes / std::max(seconds.processor, 1e-9), num_bytes, num_tokens, hash);
  }

  template <typename Id>
  static void print_ids(const std::vector<std::vector<Id>>& ids_of_chunks) {
    const char* separator = "";
    for (const std::vector<Id>& ids : ids_of_chunks) {
      std::string line;
      for (const Id id : ids) {
        line += separator;
        line += std::to_string(id);
        separator = " ";
      }
      std::fwrite(line.data(), 1, line.size(), stdout);
    }
    std::fputc('\n', stdout);
  }

  std::string input_ = "-";
  HttpOptions http_;
  VocabularyOptions vocabulary_;
  IdsFormat format_ = IdsFormat::kPlain;
  std::string json_key_ = "text";
  SpecialTokens special_tokens_ = SpecialTokens::kLiteral;
  int64_t num_threads_ = 1, num_repeats_ = 1;
  bool decode_ = false, quiet_ = false, reports_ = false, add_special_tokens_ = false;
};

}  // namespace

std::unique_ptr<Command> make_encode_command() { return std::make_unique<EncodeCommand>(); }

}  // namespace weft
