#include "indexed_dataset/format/merge/merge_manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <stdexcept>

#include "indexed_dataset/base/process/json_integer.h"
#include "indexed_dataset/base/process/parallel_for.h"
#include "indexed_dataset/base/process/parse_json.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/format/sidecars/dataset_manifest.h"
#include "indexed_dataset/format/soundness/block_checksums.h"
#include "indexed_dataset/format/soundness/xxh3.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

// Adds the numbers of `from` to those of `sum`, objects field by field.
void add_counts(Json& sum, const Json& from) {
  for (const auto& [name, value] : from.items()) {
    if (value.is_object()) {
      if (!sum.contains(name)) sum[name] = Json::object();
      add_counts(sum[name], value);
    } else if (value.is_number_integer()) {
      // The sum is unsigned, because the numbers of a strange manifest may overflow.
      const auto before = sum.contains(name) ? sum[name].get<uint64_t>() : 0;
      sum[name] = static_cast<int64_t>(before + value.get<uint64_t>());
    }
  }
}

bool is_same_input(const Json& a, const Json& b) {
  return a.value("path", Json()) == b.value("path", Json()) &&
         a.value("version", Json()) == b.value("version", Json());
}

// Adds the next shard's part of an input to those before it; false if a count of it is not known.
bool append_input(Json& sum, const Json& next) {
  if (json_integer_at(next, "lines") < 0) return false;
  for (const char* name : {"file_bytes", "jsonl_bytes", "lines"}) {
    int64_t count = 0;
    if (__builtin_add_overflow(json_integer_at(sum, name), json_integer_at(next, name), &count))
      return false;
    sum[name] = count;
  }
  return true;
}

// Lists the inputs of all parts. Shards of one run that follow each other are put together, so that
// the list is that of the whole run.
class MergedInputs {
 public:
  // `manifest` is null for a part without one.
  void add(const StoredManifest* manifest) {
    const std::string option = manifest == nullptr ? "" : manifest->option("shard");
    int64_t shard = 0, num_shards = 1;
    if (!option.empty() && !parse_shard(option, shard, num_shards)) {
      knows_shards_ = is_known_ = false;
      return;
    }
    names_ += (names_.empty() ? "" : ", ") + (option.empty() ? "none" : option);
    is_in_order_ &= shard == next_shard_ && (shard == 0 || num_shards == num_shards_);
    next_shard_ = shard + 1 < num_shards ? shard + 1 : 0;
    num_shards_ = num_shards;
    try {
      is_known_ = is_known_ && manifest != nullptr && try_add(manifest->json, shard == 0);
    } catch (const std::exception&) {  // a strange manifest
      is_known_ = false;
    }
  }
  bool is_in_order() const { return is_in_order_ && next_shard_ == 0; }
  // Shards and parts that are none, in words; "" if what a manifest says of them is not known.
  std::string names() const { return knows_shards_ ? names_ : ""; }
  // Returns null if not all of them are known: a list of some would be taken for all.
  Json all() const { return is_known_ && is_in_order() ? all_ : Json(); }

 private:
  bool try_add(const Json& manifest, bool begins_run) {
    const Json inputs = manifest.value("inputs", Json());
    Json options = manifest.value("run_options", Json::object());
    if (!inputs.is_array()) return false;
    if (options.is_object()) options.erase("--shard");
    if (begins_run) {
      run_begin_ = all_.size();
      run_options_ = options;
      all_.insert(all_.end(), inputs.begin(), inputs.end());
      return true;
    }
    if (options != run_options_ ||
        !std::equal(inputs.begin(), inputs.end(), all_.begin() + static_cast<int64_t>(run_begin_),
                    all_.end(), is_same_input)) {
      return is_in_order_ = false;  // a shard of another run
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!append_input(all_[run_begin_ + i], inputs[i])) return false;
    }
    return true;
  }

  bool is_known_ = true, is_in_order_ = true, knows_shards_ = true;
  Json all_ = Json::array();
  size_t run_begin_ = 0;  // of the inputs of the last run
  Json run_options_;      // which its shards have in common
  int64_t next_shard_ = 0, num_shards_ = 1;
  std::string names_;
};

std::string hash_text(uint64_t hash) { return fmt::format("{:016x}", hash); }

// A hash of a part's .bin, by blocks, which threads share.
std::string hash_bin(std::span<const std::byte> bin, int num_threads,
                     const std::function<void()>& check) {
  constexpr auto kBlockBytes = static_cast<size_t>(kChecksumBlockBytes);
  std::vector<uint64_t> blocks((bin.size() + kBlockBytes - 1) / kBlockBytes);
  parallel_for(std::ssize(blocks), num_threads, [&](int64_t i) {
    check();
    const size_t begin = static_cast<size_t>(i) * kBlockBytes;
    const auto block = bin.subspan(begin, std::min(kBlockBytes, bin.size() - begin));
    blocks[static_cast<size_t>(i)] = XXH3_64bits(block.data(), block.size());
  });
  return hash_text(XXH3_64bits(blocks.data(), blocks.size() * sizeof(uint64_t)));
}

// Adds hashes by which a part that was made anew is another one: that of its .idx and .checksums,
// and where there are none, as beside Megatron's, that of its .bin. (Times of change would depend
// on the clocks of two computers.)
void add_hashes(Json& part, const DatasetReader& reader, int num_threads,
                const std::function<void()>& check) {
  const auto idx = reader.idx_bytes();
  uint64_t hash = XXH3_64bits(idx.data(), idx.size());
  const auto path = checksums_path(reader.prefix());
  const bool has_checksums = std::filesystem::exists(path);
  if (has_checksums) {
    const std::string checksums = read_file(path);
    hash = XXH3_64bits_withSeed(checksums.data(), checksums.size(), hash);
  }
  part["xxh3"] = hash_text(hash);
  if (!has_checksums) part["bin_xxh3"] = hash_bin(reader.bin_bytes(), num_threads, check);
}

// True if these differ by hashes alone that a merge of another version did not write.
bool lacks_hashes(const Json& before, Json after) {
  for (const char* name : {"xxh3", "bin_xxh3"}) {
    if (!before.contains(name)) after.erase(name);
  }
  return before == after;
}

// The token that ends the documents of all parts.
class CommonEnd {
 public:
  // `token` is -1 where no token ends the documents of the part, or its manifest does not name it.
  void add(const std::string& part, int64_t token) {
    if (first_part_.empty()) {
      first_part_ = part;
      token_ = token;
    } else if (token != token_ && difference_.empty()) {
      difference_ = fmt::format(
          "the documents of {} end with {}, those of {} with {}: no token ends all documents of the "
          "result",
          first_part_, name_of(token_), part, name_of(token));
    }
  }
  int64_t token() const { return difference_.empty() ? token_ : -1; }
  const std::string& difference() const { return difference_; }  // "" if there is none

 private:
  static std::string name_of(int64_t token) {
    return token < 0 ? "none that is known" : fmt::format("token {}", token);
  }

  std::string first_part_, difference_;
  int64_t token_ = -1;
};

}  // namespace

MergedManifest merged_manifest(const PairMerge& pairs, const std::string& version,
                               const std::vector<std::pair<std::string, std::string>>& options,
                               const std::string& drop_list_hash, int num_threads,
                               const std::function<void()>& check) {
  Json parts = Json::array(), counts = Json::object();
  bool all_have_counts = true;
  // The vocabulary of the first part that names one; the others must name the same.
  DatasetVocabulary vocabulary;
  std::string vocabulary_of;
  CommonEnd end;
  MergedInputs inputs;
  for (const PairMerge::Part& part : pairs.parts()) {
    const std::filesystem::path& prefix = part.reader.prefix();
    parts.push_back({{"prefix", std::filesystem::absolute(prefix).string()},
                     {"documents", part.num_documents},
                     {"tokens", part.num_tokens()}});
    if (part.documents.count() > 0) {
      parts.back()["dropped_documents"] = part.documents.count();
      parts.back()["dropped_tokens"] = part.reader.num_tokens() - part.num_tokens();
    }
    add_hashes(parts.back(), part.reader, num_threads, check);
    const auto manifest = read_dataset_manifest(prefix);
    inputs.add(manifest ? &*manifest : nullptr);
    if (part.reader.num_tokens() > 0)
      end.add(prefix.string(), manifest ? manifest->vocabulary.end_of_document : -1);
    all_have_counts &= manifest && manifest->json.contains("input_counts");
    if (!manifest) continue;
    const DatasetVocabulary& other = manifest->vocabulary;
    if (!other.tokenizer.empty() && vocabulary_of.empty()) {
      vocabulary = other;
      vocabulary_of = prefix.string();
    } else if (are_different(vocabulary.tokenizer, other.tokenizer)) {
      throw std::runtime_error(dataset_manifest_path(prefix).string() +
                               ": names another vocabulary than that of " + vocabulary_of +
                               ": the same id would mean different text in one dataset");
    }
    if (!all_have_counts) continue;
    try {
      add_counts(counts, manifest->json["input_counts"]);
    } catch (const Json::exception& error) {
      throw std::runtime_error(dataset_manifest_path(prefix).string() +
                               ": input_counts: " + error.what());
    }
  }
  vocabulary.end_of_document = end.token();
  Json option_values = Json::object();
  for (const auto& [name, value] : options) option_values[name] = value;
  Json manifest = {{"program", "weft-data merge"},
                   {"version", version},
                   {"options", option_values},
                   {"vocabulary", to_json(vocabulary)},
                   {"parts", parts}};
  if (Json all = inputs.all(); !all.is_null()) manifest["inputs"] = std::move(all);
  if (!drop_list_hash.empty()) manifest["drop_list_xxh3"] = drop_list_hash;
  // A sum over some of the parts would be taken for one over all.
  if (all_have_counts) manifest["input_counts"] = counts;
  manifest["dataset"] = {{"documents", pairs.num_documents()}, {"tokens", pairs.num_tokens()}};
  MergedManifest merged;
  merged.text = manifest.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  if (!end.difference().empty()) merged.notes.push_back(end.difference());
  if (const std::string names = inputs.names(); !inputs.is_in_order() && !names.empty()) {
    merged.notes.push_back(
        "the parts are not all shards of a run in their order, the result is not what one run "
        "makes: " +
        names);
  }
  return merged;
}

std::string difference_from_merged(const std::filesystem::path& path, const std::string& manifest) {
  if (!std::filesystem::exists(path))
    return "which has no manifest: it was not made by this command";
  const std::string text = read_file(path);
  Json there;
  try {
    there = parse_json<Json>(text);
  } catch (const std::exception&) {  // it is no JSON that could be ours
  }
  const Json wanted = Json::parse(manifest);
  if (!there.is_object() || !there.contains("parts") || !there["parts"].is_array())
    return "which merge has not made";
  const Json &before = there["parts"], &after = wanted["parts"];
  constexpr const char* kDropList = "drop_list_xxh3";
  const bool drops_others = there.value(kDropList, Json()) != wanted.value(kDropList, Json());
  const auto prefix_of = [](const Json& part) {
    return part.is_object() && part.contains("prefix")
               ? part["prefix"].dump(-1, ' ', false, Json::error_handler_t::replace)
               : "?";
  };
  for (size_t i = 0; i < std::min(before.size(), after.size()); ++i) {
    if (before[i] == after[i]) continue;
    const std::string was = prefix_of(before[i]), is = prefix_of(after[i]);
    if (was == is && lacks_hashes(before[i], after[i])) {
      return "whose manifest is of another version of weft-data and does not tell what part " + is +
             " held";
    }
    if (was == is && drops_others) return "made with another list of --drop, or without one";
    if (was == is) return "made when part " + is + " was another one";
    return fmt::format("made of other parts (part {}: was {}, is {})", i + 1, was, is);
  }
  if (before.size() != after.size())
    return fmt::format("made of other parts (was {} of them, is {})", before.size(), after.size());
  for (const char* name : {"drop_list_xxh3", "vocabulary", "input_counts", "dataset"}) {
    if (there.value(name, Json()) != wanted.value(name, Json()))
      return fmt::format("made when the parts were others ({})", name);
  }
  return "";
}

}  // namespace weft
