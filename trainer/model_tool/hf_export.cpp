#include <algorithm>
#include <nlohmann/json.hpp>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/format/sidecars/tokenizer_files.h"
#include "kernels/numbers/elements.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/checkpoint_reader.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/identity/json_file.h"
#include "trainer/identity/run_vocabulary.h"
#include "trainer/model_tool/hf_config.h"
#include "trainer/model_tool/hf_folder.h"
#include "trainer/model_tool/hf_layout.h"
#include "trainer/resume/architecture.h"

namespace weft {

namespace fs = std::filesystem;

namespace {

// The token of a vocab.json that has this id; GPT-2's end of documents where none has.
std::string token_with_id(const fs::path& vocab_file, int64_t id) {
  const nlohmann::json json = read_json_file(vocab_file);
  for (const auto& [token, its_id] : json.items()) {
    if (its_id == id) return token;
  }
  return kGpt2EndOfDocument;
}

// The content of the added token of a tokenizer.json that has this id; "" where none has.
std::string added_token_with_id(const fs::path& tokenizer_json, int64_t id) {
  const nlohmann::json tokens =
      read_json_file(tokenizer_json).value("added_tokens", nlohmann::json::array());
  for (const nlohmann::json& token : tokens) {
    if (token.value("id", int64_t{-1}) == id) return token.value("content", "");
  }
  return "";
}

// The id of GPT-2's end of documents in a vocab.json; -1 where it is not there, or the tokenizer is
// another one.
int64_t end_of_text_in(const TokenizerFiles& tokenizer) {
  if (!is_gpt2(tokenizer)) return -1;
  return read_json_file(tokenizer.files[0].path).value(kGpt2EndOfDocument, int64_t{-1});
}

// An imported model has no run, and keeps the defaults of transformers.
HfTraining training_of(const CheckpointInfo& info) {
  const auto arguments =
      nlohmann::json::parse(info.arguments_json, nullptr, /*allow_exceptions=*/false);
  HfTraining training;
  if (!arguments.is_object()) return training;
  for (const auto& [name, value] : {std::pair{"attention_dropout", &training.attention_dropout},
                                    {"hidden_dropout", &training.hidden_dropout},
                                    {"init_method_std", &training.init_method_std}}) {
    const auto found = arguments.find(name);
    if (found != arguments.end() && found->is_number()) *value = found->get<double>();
  }
  return training;
}

std::string tokenizer_config_json(int64_t max_positions, const std::string& end_of_document) {
  const nlohmann::ordered_json config = {
      {"tokenizer_class", "GPT2Tokenizer"}, {"model_max_length", max_positions},
      {"add_prefix_space", false},          {"bos_token", end_of_document},
      {"eos_token", end_of_document},       {"unk_token", end_of_document}};
  return config.dump(2) + "\n";
}

// Returns our numbers in their order.
std::string to_hf(const std::vector<float>& ours, const HfTensor& tensor,
                  const Parameter& parameter, const ModelShape& shape, size_t num_bytes,
                  DType dtype) {
  std::string theirs(num_bytes, '\0');
  for (const HfRun& run : hf_runs(tensor, parameter, shape)) {
    for (int64_t i = 0; i < run.count; ++i) {
      store_element(theirs.data(), dtype, run.theirs + i * run.their_stride,
                    ours[static_cast<size_t>(run.ours + i)]);
    }
  }
  return theirs;
}

// Reads one parameter at a time, so that one tensor is in memory, not the model.
void write_weights(const HfExport& options, const ModelShape& shape, const fs::path& path) {
  const ParameterTable table(shape, {});
  const std::vector<HfTensor> tensors = hf_tensors(shape);
  std::vector<SafetensorsEntry> entries;
  for (const HfTensor& tensor : tensors) {
    const bool is_head = tensor.hf_name.starts_with("lm_head.");
    entries.push_back({(is_head ? "" : hf_prefix(shape)) + tensor.hf_name,
                       std::string(safetensors_dtype(options.dtype)),
                       hf_shape(tensor, table.find(tensor.parameter), shape), 0, 0});
  }
  OutputFile file(path.string() + ".part");
  const std::string header = safetensors_header(entries, {{"format", "pt"}});
  file.append(header.data(), header.size());
  CheckpointReader reader(options.load, options.iteration);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Parameter& parameter = table.find(tensors[i].parameter);
    std::vector<float> ours(static_cast<size_t>(parameter.num_elements));
    reader.read({.name = "model/" + parameter.name,
                 .global_shape = parameter.global_shape,
                 .count = parameter.num_own},
                DType::kFloat32, reinterpret_cast<char*>(ours.data()));
    const std::string bytes =
        to_hf(ours, tensors[i], parameter, shape,
              static_cast<size_t>(entries[i].end - entries[i].begin), options.dtype);
    file.append(bytes.data(), bytes.size());
  }
  file.sync();
  file.close();
  commit_rename(path.string() + ".part", path);
}

// A model may have more rows than its tokenizer has words, if this is known to be its tokenizer.
void check_size(const fs::path& vocab_json, const RunVocabulary& known, int64_t vocab_size,
                const char* hint) {
  const int64_t entries = count_vocabulary(vocab_json);
  if (entries > vocab_size || (entries < vocab_size && known.tokenizer.empty())) {
    throw UsageError(vocab_json.string() + " has " + std::to_string(entries) +
                     " entries, the model's vocabulary " + std::to_string(vocab_size) + hint);
  }
}

// With another tokenizer's files beside it a model would write nonsense, without any message.
void check_vocabulary(const HfExport& options, const RunVocabulary& known, int64_t vocab_size) {
  if (options.tokenizer.empty()) return;
  constexpr const char* kHint =
      ": give the --vocab-file and --merge-file, or the --tokenizer, that its dataset was made "
      "with, or --no-tokenizer";
  const TokenizerFiles files = with_checksums(options.tokenizer);
  if (is_gpt2(files)) check_size(files.files[0].path, known, vocab_size, kHint);
  if (!known.tokenizer.empty() && files.kind != known.tokenizer.kind) {
    throw UsageError(files.files[0].path + " is of the kind " + files.kind +
                     ", but the model's data was made with one of the kind " +
                     known.tokenizer.kind + kHint);
  }
  for (size_t i = 0; i < std::min(files.files.size(), known.tokenizer.files.size()); ++i) {
    const TokenizerFile& file = files.files[i];
    const std::string& wanted = known.tokenizer.files[i].sha256;
    if (wanted.empty() || file.sha256 == wanted) continue;
    throw UsageError(file.path + " has SHA-256 " + file.sha256 +
                     ", but the model's data was made with a file of SHA-256 " + wanted + kHint);
  }
}

// The files that an export writes, and those by which transformers would read another tokenizer.
constexpr const char* kWeights = "model.safetensors";
constexpr const char* kExportedFiles[] = {"config.json", kWeights};
constexpr const char* kTokenizerFiles[] = {"vocab.json",        "merges.txt",
                                           "tokenizer.json",    "tokenizer_config.json",
                                           "added_tokens.json", "special_tokens_map.json",
                                           "tekken.json",       "tokenizer.tiktoken"};

// The name under which a file of a tokenizer is exported.
std::string exported_name(const TokenizerFiles& tokenizer, size_t file_idx) {
  if (is_gpt2(tokenizer)) return file_idx == 0 ? "vocab.json" : "merges.txt";
  if (is_tiktoken(tokenizer)) return "tokenizer.tiktoken";
  return tokenizer.kind == kTekkenKind ? "tekken.json" : "tokenizer.json";
}

// What transformers reads beside the tokenizer's own files; "" for kinds that it does not read.
std::string tokenizer_config_of(const TokenizerFiles& tokenizer, int64_t max_positions,
                                int64_t end_of_document) {
  const fs::path first = tokenizer.files[0].path;
  if (is_gpt2(tokenizer))
    return tokenizer_config_json(max_positions, token_with_id(first, end_of_document));
  if (tokenizer.kind != kHuggingFaceKind) return "";
  nlohmann::ordered_json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                                   {"model_max_length", max_positions}};
  const std::string end = added_token_with_id(first, end_of_document);
  if (!end.empty()) config["eos_token"] = end;
  return config.dump(2) + "\n";
}

// An older export goes as a whole: its tokenizer beside new weights would be another model's.
void make_room(const HfExport& options) {
  if (fs::exists(options.output) && !fs::is_empty(options.output) && !options.overwrite) {
    throw UsageError("the folder " + options.output.string() +
                     " holds files already: give another --output, or --overwrite");
  }
  fs::create_directories(options.output);
  for (const char* name : kExportedFiles) remove_file(options.output / name);
  for (const char* name : kTokenizerFiles) remove_file(options.output / name);
}

// Half an export would keep a full disk full, and the folder from being written once there is room.
void remove_export(const fs::path& folder) noexcept {
  std::error_code ignored;
  for (const char* name : kExportedFiles) fs::remove(folder / name, ignored);
  for (const char* name : kTokenizerFiles) fs::remove(folder / name, ignored);
  fs::remove(folder / (std::string(kWeights) + ".part"), ignored);
  fs::remove(folder, ignored);  // if it is empty
}

void write_export(const HfExport& options, const ModelShape& shape, const CheckpointInfo& info) {
  const int64_t known = info.data.vocabulary.end_of_document;
  const int64_t end_of_document = known >= 0 ? known : end_of_text_in(options.tokenizer);
  if (!options.tokenizer.empty()) {
    const std::vector<TokenizerFile>& files = options.tokenizer.files;
    for (size_t i = 0; i < files.size(); ++i) {
      write_file_atomically(options.output / exported_name(options.tokenizer, i),
                            read_file(files[i].path));
    }
    const std::string config =
        tokenizer_config_of(options.tokenizer, shape.max_positions, end_of_document);
    if (!config.empty()) write_file_atomically(options.output / "tokenizer_config.json", config);
  }
  write_weights(options, shape, options.output / kWeights);
  write_file_atomically(options.output / "config.json",
                        hf_config_json(shape, training_of(info), options.dtype, end_of_document));
}

bool are_files_of(const TokenizerFiles& known, const TokenizerFiles& files) {
  const bool are_there =
      !files.empty() && std::all_of(files.files.begin(), files.files.end(), [](const auto& file) {
        return !file.path.empty() && fs::exists(file.path);
      });
  return are_there && !are_different(known, with_checksums(files));
}

}  // namespace

TokenizerFiles find_tokenizer_files(const CheckpointInfo& checkpoint,
                                    const std::string& other_way) {
  const TokenizerFiles& known = checkpoint.data.vocabulary.tokenizer;
  const fs::path folder = vocabulary_folder();
  for (const TokenizerFiles& files :
       {known, gpt2_files(folder / "vocab.json", folder / "merges.txt")}) {
    if (are_files_of(known, files)) return files;
  }
  const std::string what =
      known.empty() ? "no vocab.json and merges.txt in " + folder.string()
                    : "neither " + known.files[0].path + " nor " + folder.string() +
                          " has the vocabulary that the model's data was made with (SHA-256 " +
                          known.files[0].sha256 + ")";
  throw UsageError(what + ", for the tokenizer files; give " +
                   (known.empty()    ? "--vocab-file and --merge-file, or --tokenizer"
                    : is_gpt2(known) ? "--vocab-file and --merge-file"
                                     : "--tokenizer") +
                   other_way);
}

void export_hf(const HfExport& options) {
  const CheckpointInfo info = read_checkpoint_info(options.load, options.iteration);
  const ModelShape shape = shape_from(info.architecture);
  hf_model(shape);  // throws for a model that no format of theirs holds, before anything is written
  check_vocabulary(options, info.data.vocabulary, shape.vocab_size);
  make_room(options);
  try {
    write_export(options, shape, info);
  } catch (...) {
    remove_export(options.output);
    throw;
  }
}

}  // namespace weft
