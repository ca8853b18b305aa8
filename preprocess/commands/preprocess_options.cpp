#include "preprocess/commands/preprocess_options.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <set>
#include <thread>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/process/stop_signal.h"
#include "indexed_dataset/format/sidecars/dataset_manifest.h"
#include "indexed_dataset/format/sidecars/output_conflicts.h"
#include "preprocess/commands/ids_text.h"
#include "preprocess/commands/store_options.h"
#include "preprocess/inputs/input_list.h"
#include "preprocess/inputs/work_plan.h"
#include "preprocess/inspect/report/gather_report.h"
#include "preprocess/run/work_folder.h"
#include "preprocess/stream/byte_source.h"
#include "preprocess/web/url.h"

namespace weft {

void PreprocessOptions::declare(OptionSet& options) {
  options.group("Input and output");
  declare_run(options);
  options.group("Documents");
  declare_documents(options);
  options.group("Dataset");
  declare_dataset(options);
  options.group("Several processes");
  declare_ranks(options);
  options.group("Input and output");
  options.flag("--overwrite", config.overwrite,
               "replace a finished dataset, and drop unfinished work, of other options; replace a "
               "file that is no report by --report");
  advise_older_scripts(options);
}

void PreprocessOptions::declare_run(OptionSet& options) {
  options.texts(
      "--input", inputs.names,
      "JSONL files (or --input-format), folders of them, quoted patterns "
      "('data/**/*.jsonl.zst'), https URLs, "
      "datasets of the Hugging Face hub (hf://datasets/OWNER/NAME[@REVISION]/PATH) or "
      "objects, folders and patterns of buckets (s3://BUCKET/KEY, gs://BUCKET/FOLDER/) in "
      "this order, '-' is standard input; gzip, xz, zstd and bzip2 are decompressed on "
      "the fly, URLs while they are downloaded");
  options.texts("--input-list", inputs.lists,
                "files (or URLs) with a name of an input on each line, in this order behind "
                "--input; blank lines and # comments are left out");
  options.text("--input-root", inputs.list_root,
               "folder or URL below which relative names of --input-list lie; default: where the "
               "list lies");
  text.declare(options);
  options.flag("--allow-http", inputs.http.allow_http,
               "accept unencrypted http URLs (never by a redirect from https)");
  declare_store_options(options, inputs.http.s3);
  options.text("--output-prefix", output_prefix, "writes PREFIX_KEY_document.bin and .idx");
  options.texts("--json-keys", config.rules.json_keys,
                "keys whose strings are tokenized, one dataset each; meta.text is the key text "
                "within meta where a line has no key meta.text");
  vocabulary.declare(options, "GPT-2's in $WEFT_GPT2_DIR, ~/.cache/weft/gpt2, or downloaded");
  options.flag("--append-eod", config.rules.append_eod,
               "end every document that has a token with the end-of-document token");
  options.text("--eod-token", eod_token,
               "text or id of the token for --append-eod; without it: the one that the family of "
               "the tokenizer was trained with");
  options.integer("--workers", config.num_workers, "threads that parse and tokenize", 1, 1024);
  options.integer("--log-interval", log_interval,
                  "documents between two lines of progress in a log", 1);
}

// Which lines are documents, and what becomes of them.
void PreprocessOptions::declare_documents(OptionSet& options) {
  declare_special_tokens(options, config.rules.special_tokens);
  options.flag("--add-special-tokens", config.rules.add_special_tokens,
               "put around every text what the tokenizer's own template does, such as Llama's "
               "<|begin_of_text|>");
  options.choice(
      "--empty-docs", config.rules.empty_documents,
      {{"record", EmptyDocuments::kRecord}, {"skip", EmptyDocuments::kSkip}},
      "texts without a token: an empty document (Megatron-Core), or nothing (older Megatron)");
  options.choice("--on-bad-line", config.rules.on_bad_line,
                 {{"stop", OnBadLine::kStop}, {"skip", OnBadLine::kSkip}},
                 "what is no document ends the run, or is left out and counted");
  options.integer("--max-bad-lines", config.max_bad_lines,
                  "with --on-bad-line skip: more than this end the run; -1: any number", -1);
  options.text("--where", where,
               "only documents for which this holds: comparisons of keys with numbers, texts in "
               "quotes, true, false or null, joined by and: \"language_score >= 0.65 and language "
               "== 'en'\"; others are left out and counted");
  options.integer("--limit", limit_,
                  "only so many documents, the first ones of the input; they are counted by one "
                  "thread before the work begins",
                  1);
  options.integer("--max-line-bytes", config.rules.max_line_bytes,
                  "longer lines, or texts, are bad lines", 1, (int64_t{1} << 31) - 8);
  options.integer("--max-output", config.max_output_bytes,
                  "bytes that one compressed input may give; more are taken for a bomb", 1);
  options.integer("--decoder-memory", config.max_decoder_bytes,
                  "bytes that the window or dictionary of one compressed input may take", 1 << 20);
}

void PreprocessOptions::declare_dataset(OptionSet& options) {
  options.text("--shard", shard,
               "I/N: only part I (from 0) of N of the work; weft-data merge puts the parts "
               "together, in their order");
  options.choice(
      "--dtype", config.rules.token_type,
      {{"auto", std::nullopt}, {"uint16", TokenType::kUInt16}, {"int32", TokenType::kInt32}},
      "type of the token ids; auto: as Megatron-LM, uint16 below 65500 entries");
  options.text("--origin-key", origin_key,
               "where a line says what it is from: a key such as url or meta.url (keys with dots "
               "between them; 'meta\\.url' is one key with a dot), auto (the usual ones of web "
               "corpora), or none; kept for --report, "
               "32 bytes a document; default: auto with --report, else none");
  options.integer(
      "--partitions", num_partitions,
      "accepted for Megatron-LM's scripts, without effect: documents stand in the order "
      "of the input, whatever the number of workers",
      1, 1024);
  options.flag("--keep-sequential-samples", keep_sequential_samples,
               "accepted for Megatron-LM's scripts: documents always keep the order of the input");
  options.text("--report", report,
               "also write a report on the data, FILE.html or FILE.json: lengths, duplicates, "
               "repetition, bad lines, domains and sources");
}

void PreprocessOptions::declare_ranks(OptionSet& options) {
  options.choice("--ranks", joins_ranks, {{"auto", true}, {"off", false}},
                 "processes that mpirun or srun --mpi=pmix started together make one output; off: "
                 "each is on its own, and MPI is not touched");
  options.integer(
      "--peer-timeout", peer_timeout_s,
      "seconds after which a silent rank ends the run; the same command goes on with it", 1, 86400);
  options.flag(
      "--allow-incoherent-file-system", config.allow_incoherent_file_system,
      "let several ranks write to NFS, SMB, 9p, AFS or an unknown FUSE file system, which is "
      "only safe if all run on one computer");
}

// Scripts for older versions of Megatron-LM have these.
void PreprocessOptions::advise_older_scripts(OptionSet& options) {
  options.advise("--vocab", "it is called --vocab-file");
  options.advise("--output", "it is called --output-prefix");
  options.advise("--dataset-impl", "leave it out: the output always has Megatron's mmap format");
  options.advise("--chunk-size", "leave it out: the work is cut into pieces without it");
  options.advise("--split-sentences",
                 "documents are not split into sentences, which BERT needs and GPT does not");
  for (const char* name : {"--keep-newlines", "--lang"})
    options.advise(name,
                   "leave it out: it belongs to --split-sentences, line ends are always kept");
}

void PreprocessOptions::validate(OptionSet& options) const {
  if (const std::string problem = problem_of_inputs(inputs); !problem.empty())
    options.problem(problem);
  if (output_prefix.empty()) options.problem("--output-prefix is required");
  const std::vector<std::string>& json_keys = config.rules.json_keys;
  if (json_keys.empty()) options.problem("--json-keys: give at least one key");
  vocabulary.validate(options);
  validate_store_options(options, inputs.http.s3);
  text.validate(options, {"--json-keys", "--where", "--origin-key"});
  if (!eod_token.empty() && !config.rules.append_eod)
    options.problem("--eod-token needs --append-eod");
  if (config.max_bad_lines >= 0 && config.rules.on_bad_line == OnBadLine::kStop)
    options.problem("--max-bad-lines needs --on-bad-line skip: without it the first one stops");
  for (const auto& input : make_inputs(inputs.names, inputs.http))
    options.check([&] { input->check_name(); });
  if (!where.empty()) options.check([&] { (void)parse_condition(where); });
  options.check([&] { (void)origin_paths(resolved_origin_key()); });
  if (!report.empty() && !report_format(report))
    options.problem("--report: '" + report + "' ends in neither .html nor .json");
  int64_t index = 0, count = 1;
  if (!shard.empty() && !parse_shard(shard, index, count))
    options.problem("--shard: '" + shard + "' is not I/N with 0 <= I < N <= 1000000, as in 3/16");
  std::set<std::string> seen;
  for (const std::string& key : json_keys) {
    if (!seen.insert(key).second) options.problem("--json-keys: '" + key + "' is given twice");
    options.check([&] { (void)nested_path(key); });
    if (key.find('/') != std::string::npos)
      options.problem("--json-keys: '" + key + "' cannot be part of a file name");
  }
}

// A run holds four files of each dataset open, and in the end its lock; each worker may have some
// inputs and spill files. The limit is raised as far as this process may.
void PreprocessOptions::check_open_files() const {
  const auto num_keys = static_cast<rlim_t>(config.rules.json_keys.size());
  const rlim_t needed = 5 * num_keys + 8 * static_cast<rlim_t>(config.num_workers) + 64;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return;
  limit.rlim_cur = std::min(limit.rlim_max, needed);
  if (limit.rlim_cur == needed && ::setrlimit(RLIMIT_NOFILE, &limit) == 0) return;
  throw UsageError(fmt::format(
      "{} keys and {} workers may need {} open files at a time, and only {} are allowed here: raise "
      "that (ulimit -n {}), or give the keys to several runs",
      num_keys, config.num_workers, needed, limit.rlim_max, needed));
}

void PreprocessOptions::find_inputs(StoredInputs& stored) {
  inputs.format = text.format;
  FoundInputs found = weft::find_inputs(inputs, stored, stop_flag());
  config.inputs = std::move(found.names);
  config.http = inputs.http;
  notes_of_inputs_ = std::move(found.notes);
}

void PreprocessOptions::check_files() const {
  check_open_files();
  const Inputs found = make_inputs(config.inputs);
  check_can_be_opened(found);
  std::vector<std::string> tokenizer_paths;
  for (const TokenizerFile& file : vocabulary.files().files) tokenizer_paths.push_back(file.path);
  check_can_be_opened(make_inputs(tokenizer_paths));
  std::vector<std::filesystem::path> input_files;
  for (const auto& input : found) {
    if (!input->path().empty()) input_files.emplace_back(input->path());
  }
  guard_outputs(output_prefixes(), output_prefix + ".lock", report_files(), input_files);
  if (config.overwrite) return;
  // Its --overwrite would make the dataset anew.
  for (const std::filesystem::path& file : report_files())
    check_is_report(file, "give another name");
}

std::vector<std::string> PreprocessOptions::notes() const {
  std::vector<std::string> notes = notes_of_inputs_;
  // A few more than cores may help where reading waits; so many cost memory and time to start.
  const int64_t num_cores = std::thread::hardware_concurrency();
  if (num_cores > 0 && config.num_workers > 4 * num_cores) {
    notes.push_back(fmt::format("{} workers on {} cores: not faster, and each may take 64 MiB",
                                config.num_workers, num_cores));
  }
  if (!config.rules.append_eod) {
    notes.emplace_back(
        "without --append-eod no end-of-document token stands between documents, which training a "
        "GPT expects");
  }
  if (num_partitions > 1 && !keep_sequential_samples)
    notes.emplace_back("--partitions has no effect: documents stand in the order of the input");
  if (const std::string repeated = describe_repeated(make_inputs(config.inputs)); !repeated.empty())
    notes.push_back(repeated);
  return notes;
}

std::vector<std::filesystem::path> PreprocessOptions::output_prefixes() const {
  std::vector<std::filesystem::path> prefixes;
  for (const std::string& key : config.rules.json_keys)
    prefixes.push_back(output_prefix + "_" + key + "_document");
  return prefixes;
}

std::vector<std::filesystem::path> PreprocessOptions::report_files() const {
  if (report.empty()) return {};
  if (config.rules.json_keys.size() == 1) return {report};
  std::vector<std::filesystem::path> files;
  const std::string extension = std::filesystem::path(report).extension().string();
  for (const std::string& key : config.rules.json_keys)
    files.push_back(std::filesystem::path(report).replace_extension("." + key + extension));
  return files;
}

std::string PreprocessOptions::resolved_origin_key() const {
  if (!origin_key.empty()) return origin_key;
  return report.empty() || text.format == InputFormat::kText ? std::string(kNoOriginKey) : "auto";
}

PipelineConfig PreprocessOptions::pipeline_config() const {
  PipelineConfig result = config;
  result.max_documents = limit_.value_or(-1);
  result.output_prefixes = output_prefixes();
  result.work_prefix = output_prefix;
  result.rules.origin_key = resolved_origin_key();
  result.rules.split_texts_at = text.split_texts_at();
  if (!where.empty()) result.rules.where = parse_condition(where);
  result.is_origin_key_default = origin_key.empty();
  if (!shard.empty()) parse_shard(shard, result.shard_idx, result.num_shards);
  return result;
}

}  // namespace weft
