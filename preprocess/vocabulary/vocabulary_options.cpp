#include "preprocess/vocabulary/vocabulary_options.h"

#include <vector>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/format/sidecars/tokenizer_files.h"
#include "preprocess/vocabulary/find_tokenizer.h"

namespace weft {
namespace {

constexpr const char* kTypeNames[] = {"auto", "GPT2BPETokenizer", "HuggingFaceTokenizer",
                                      "PretrainedFromHF", "TikTokenizer"};  // by TokenizerType

std::string name_of_type(TokenizerType type) { return kTypeNames[static_cast<size_t>(type)]; }

bool reads(TokenizerType type, const TokenizerFiles& files) {
  switch (type) {
    case TokenizerType::kAuto:
      return true;
    case TokenizerType::kGpt2:
      return is_gpt2(files);
    case TokenizerType::kHuggingFace:
    case TokenizerType::kPretrainedFromHf:
      return is_gpt2(files) || files.kind == kHuggingFaceKind;
    case TokenizerType::kTikTokenizer:
      return is_tiktoken(files) || files.kind == kTekkenKind;
  }
  return false;
}

}  // namespace

void VocabularyOptions::declare(OptionSet& options, const std::string& otherwise) {
  options.text("--tokenizer", tokenizer,
               "a tokenizer.json, a *.tiktoken rank file, a tekken.json, a folder with one of them "
               "or with vocab.json and merges.txt, or a model in the Hugging Face hub's local "
               "cache; without it: " +
                   otherwise);
  options.choice("--tokenizer-type", type,
                 {{"auto", TokenizerType::kAuto},
                  {"GPT2BPETokenizer", TokenizerType::kGpt2},
                  {"HuggingFaceTokenizer", TokenizerType::kHuggingFace},
                  {"PretrainedFromHF", TokenizerType::kPretrainedFromHf},
                  {"TikTokenizer", TokenizerType::kTikTokenizer}},
                 "as in Megatron-LM; auto: that of the files");
  options.text("--tokenizer-model", tokenizer_model, "Megatron-LM's name of --tokenizer");
  options.text("--tokenizer-name-or-path", tokenizer_name_or_path,
               "Megatron-DeepSpeed's name of --tokenizer");
  options.text("--vocab-file", vocab_file, "GPT-2's vocab.json, with --merge-file");
  options.text("--merge-file", merge_file, "GPT-2's merges.txt");
  options.text("--tiktoken-pattern", tiktoken_pattern,
               "of a rank file that is no known one: r50k, p50k, cl100k, o200k, llama3 or qwen; "
               "of Megatron-LM's list of ranks in JSON: v1 or v2");
  options.integer("--tiktoken-num-special-tokens", num_special_tokens,
                  "of Megatron-LM's list: ids before it, as there", 7, 1 << 24);
  options.integer("--vocab-size", vocab_size, "of Megatron-LM's list: ids in all, as there", 8,
                  1 << 24);
}

void VocabularyOptions::validate(OptionSet& options) const {
  if (vocab_file.empty() != merge_file.empty())
    options.problem("--vocab-file and --merge-file belong together: give both or none");
  std::vector<std::string> given;
  for (const auto& [name, value] : {std::pair{"--tokenizer", &tokenizer},
                                    {"--tokenizer-model", &tokenizer_model},
                                    {"--tokenizer-name-or-path", &tokenizer_name_or_path},
                                    {"--vocab-file", &vocab_file}}) {
    if (!value->empty()) given.emplace_back(name);
  }
  if (given.size() > 1) {
    options.problem(given[0] + " and " + given[1] +
                    " both say which tokenizer is meant: give one of them");
  }
  const bool is_gpt2 = type == TokenizerType::kAuto || type == TokenizerType::kGpt2;
  if (!is_gpt2 && named().empty())
    options.problem("--tokenizer-type " + name_of_type(type) + " needs --tokenizer-model");
  if (!tiktoken_pattern.empty() && named().empty())
    options.problem("--tiktoken-pattern needs a rank file: give it as --tokenizer");
  if (!has_default_numbers() && tiktoken_pattern != "v1" && tiktoken_pattern != "v2")
    options.problem(
        "--tiktoken-num-special-tokens and --vocab-size are for --tiktoken-pattern v1 and v2");
}

const std::string& VocabularyOptions::named() const {
  if (!tokenizer.empty()) return tokenizer;
  return tokenizer_model.empty() ? tokenizer_name_or_path : tokenizer_model;
}

TokenizerFiles VocabularyOptions::files() const {
  if (named().empty()) return gpt2_files(vocab_file, merge_file);
  TokenizerFiles files = find_tokenizer(named());
  if (!reads(type, files)) {
    throw UsageError("--tokenizer-type " + name_of_type(type) + ": " + files.files[0].path +
                     " is of the kind " + files.kind +
                     ", which it does not read; leave the type out");
  }
  if (!tiktoken_pattern.empty() && !is_tiktoken(files)) {
    throw UsageError("--tiktoken-pattern: " + files.files[0].path +
                     " is no rank file and names its own pattern; leave it out");
  }
  if (!tiktoken_pattern.empty()) files.kind += ":" + tiktoken_pattern;
  if (!has_default_numbers()) {
    for (const int64_t number : {num_special_tokens, vocab_size})
      files.kind.append(1, ',').append(std::to_string(number));
  }
  return files;
}

}  // namespace weft
