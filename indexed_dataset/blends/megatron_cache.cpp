#include "indexed_dataset/blends/megatron_cache.h"

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

#include "indexed_dataset/process/parse_json.h"
#include "indexed_dataset/storage/file_io.h"
#include "indexed_dataset/storage/npy_file.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::string_view kCoreEnd = "description.txt", kLegacyEnd = ".dsc";

// Keeps of a description what core_description() has, without the tokenizer.
Json without_tokenizer(const Json& description) {
  static const std::vector<std::string> kKept = {
      "class",           "dataset_path", "num_samples",  "index_split", "random_seed",
      "sequence_length", "split",        "split_matrix", "weights",     "size"};
  Json kept;
  for (const std::string& key : kKept) {
    if (description.contains(key)) kept[key] = description[key];
  }
  if (description.contains("datasets")) {
    for (const Json& dataset : description["datasets"])
      kept["datasets"].push_back(without_tokenizer(dataset));
  }
  return kept;
}

// Megatron-DeepSpeed has a line more than Megatron-LM; the number follows from the others.
std::string without_epochs(std::string text) {
  const size_t begin = text.find("Number of epochs ");
  if (begin != std::string::npos) text.erase(begin, text.find('\n', begin) + 1 - begin);
  return text;
}

std::string key_of(const Json& description) { return without_tokenizer(description).dump(); }

struct MappedBlend {
  NpyArray dataset_index, sample_index;
};

[[noreturn]] void throw_unfit(const fs::path& file, const std::string& what,
                              const std::string& why) {
  throw std::runtime_error(
      file.string() + ": this index cache of the run does not fit " + what + " (" + why +
      "): were the data replaced since, or are the arguments of another run? To have the index built from "
      "the arguments, move the file away");
}

}  // namespace

MegatronCache::MegatronCache(fs::path folder) : folder_(std::move(folder)) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    const std::string name = entry.path().filename().string();
    for (const std::string_view end : {kCoreEnd, kLegacyEnd}) {
      if (!name.ends_with(end)) continue;
      const std::string text = read_file(entry.path());
      const std::string base = name.substr(0, name.size() - end.size());
      if (end == kLegacyEnd) {
        names_.emplace(without_epochs(text), base);
      } else if (const Json json = Json::parse(text, nullptr, false); json.is_object()) {
        names_.emplace(key_of(json), base);
      }
    }
  }
  if (error && error != std::errc::no_such_file_or_directory)
    throw std::system_error(error, folder_.string() + ": cannot list the index caches");
}

std::optional<CacheNames> MegatronCache::find_names(const IndexDescription& description) const {
  CacheNames names = cache_names(description);
  if (names.description.empty()) return names;  // plain words
  const bool is_core = names.description.ends_with(kCoreEnd);
  const auto found =
      names_.find(is_core ? key_of(core_description(description)) : without_epochs(names.text));
  if (found == names_.end()) return std::nullopt;
  const std::string& own = names.description;
  const std::string own_base = own.substr(0, own.size() - (is_core ? kCoreEnd : kLegacyEnd).size());
  for (std::string* name : {&names.description, &names.document_index, &names.sample_index,
                            &names.shuffle_index, &names.stamp}) {
    *name = found->second + name->substr(own_base.size());
  }
  return names;
}

std::optional<CachedIndex> MegatronCache::find_index(const IndexDescription& description,
                                                     const DatasetReader& reader,
                                                     const GptIndexOptions& options) const {
  const std::optional<CacheNames> names = find_names(description);
  if (!names || !fs::exists(folder_ / names->document_index)) return std::nullopt;
  if (fs::exists(folder_ / names->stamp)) return std::nullopt;
  const EpochPlan plan = plan_epochs(sum_tokens(reader.lengths(), options.range), options);
  try {
    return CachedIndex{map_index(folder_, *names, plan, options), true};
  } catch (const std::system_error&) {
    throw;
  } catch (const std::exception& error) {
    throw_unfit(folder_ / names->document_index, reader.prefix().string(), error.what());
  }
}

std::optional<CachedBlend> MegatronCache::find_blend(const Json& description, Split split,
                                                     int64_t size, size_t num_datasets) const {
  const auto found = names_.find(key_of(description));
  if (found == names_.end()) return std::nullopt;
  const fs::path file = folder_ / (found->second + "dataset_index.npy");
  const BlendCacheNames own = blend_cache_names(description, split);
  const std::string stamp = found->second + "weft.json";
  if (!fs::exists(file) || fs::exists(folder_ / stamp)) return std::nullopt;
  try {
    const auto mapped = std::make_shared<const MappedBlend>(MappedBlend{
        NpyArray(file), NpyArray(folder_ / (found->second + "dataset_sample_index.npy"))});
    CachedBlend blend;
    blend.index = {.view = {.dataset_index = mapped->dataset_index.values<int16_t>(),
                            .sample_index = mapped->sample_index.values<int64_t>()},
                   .memory = mapped};
    if (blend.index.view.size() != size)
      throw std::runtime_error("it has " + std::to_string(blend.index.view.size()) +
                               " samples instead of " + std::to_string(size));
    blend.counts = blend.index.view.counts(num_datasets);
    blend.was_there = true;
    return blend;
  } catch (const std::system_error&) {
    throw;
  } catch (const std::exception& error) {
    throw_unfit(file, "the blend", error.what());
  }
}

fs::path default_cache_folder(const IndexDescription& description) {
  const fs::path prefix = description.dataset_path;
  const OrderRules rules = rules_of(description.order);
  if (!rules.has_old_blend_sizes) return prefix / "cache" / "GPTDataset_indices";
  return description.order == OrderKind::kLegacy ? prefix.parent_path() / "index-cache"
                                                 : prefix.parent_path();
}

}  // namespace weft
