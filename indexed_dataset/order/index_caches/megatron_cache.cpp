#include "indexed_dataset/order/index_caches/megatron_cache.h"

#include <algorithm>
#include <span>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "indexed_dataset/base/process/parse_json.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/order/index_caches/cache_files.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::string_view kCoreEnd = "description.txt", kLegacyEnd = ".dsc",
                           kPlainEnd = "_doc_idx.npy";

// Keeps of a description what core_description() has, without the tokenizer. The split of a blend
// stands in those of its datasets, too, and versions 0.5 and 0.6 write it only there.
Json without_tokenizer(const Json& description) {
  static const std::vector<std::string> kKept = {
      "class", "dataset_path", "num_samples", "index_split", "random_seed", "sequence_length",
      "split", "split_matrix", "weights",     "size",        "share"};
  Json kept;
  for (const std::string& key : kKept) {
    if (description.contains(key)) kept[key] = description[key];
  }
  if (description.contains("datasets")) {
    for (const Json& dataset : description["datasets"])
      kept["datasets"].push_back(without_tokenizer(dataset));
    kept.erase("split");
  }
  return kept;
}

// Megatron-DeepSpeed has a line more than Megatron-LM; the number follows from the others.
std::string without_epochs(std::string text) {
  const size_t begin = text.find("Number of epochs ");
  if (begin != std::string::npos) text.erase(begin, text.find('\n', begin) + 1 - begin);
  return text;
}

// Everything that a description says but the tokenizer; the same without the number of samples;
// this number.
struct Keys {
  std::string whole, without_size, num_samples;
};

Keys keys_of(const Json& description) {
  Json kept = without_tokenizer(description);
  Keys keys{.whole = kept.dump(), .without_size = {}, .num_samples = {}};
  if (const auto size = kept.find("num_samples"); size != kept.end())
    keys.num_samples = size->is_null() ? "None" : size->dump();
  kept.erase("num_samples");
  keys.without_size = kept.dump();
  return keys;
}

// Takes the text between `begin` and `end` out.
Keys split_keys(const std::string& text, std::string_view begin, std::string_view end) {
  const size_t found = text.find(begin);
  if (found == std::string::npos) return {text, text, {}};
  const size_t first = found + begin.size(), last = std::min(text.find(end, first), text.size());
  return {text, text.substr(0, first) + text.substr(last), text.substr(first, last - first)};
}
Keys keys_of_lines(const std::string& text) {
  return split_keys(without_epochs(text), "Number of samples ", "\n");
}
Keys keys_of_name(const std::string& name) { return split_keys(name, "_indexmap_", "ns_"); }

// Returns nothing for a file that is no description.
std::optional<Keys> find_keys(const std::string& text) {
  try {
    const Json json = parse_json<Json>(text);
    if (json.is_object()) return keys_of(json);
  } catch (const Json::exception&) {
  } catch (const std::runtime_error&) {  // it exceeds the limits of parse_json()
  }
  return std::nullopt;
}

// Returns true where the entries are those of 0 to n - 1 in some order, but for damage that leaves
// their number, sum and sum of squares as they were. A table of those that were seen takes 14 times
// as long.
template <typename T>
bool looks_like_permutation(std::span<const T> values) {
  const auto count = static_cast<uint64_t>(values.size());
  uint64_t sum = 0, squares = 0, largest = 0;
  for (const T value : values) {
    const auto entry = static_cast<uint64_t>(value);
    sum += entry;
    squares += entry * entry;
    largest = std::max(largest, entry);
  }
  // Unsigned sums wrap around at 2^64, and so do these.
  __extension__ using Wide = unsigned __int128;
  const Wide n = count;
  return count == 0 || (largest < count && sum == static_cast<uint64_t>(n * (n - 1) / 2) &&
                        squares == static_cast<uint64_t>(n * (n - 1) * (2 * n - 1) / 6));
}

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
  for (fs::directory_iterator entry(folder_, error), none; !error && entry != none;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    for (const std::string_view end : {kCoreEnd, kLegacyEnd, kPlainEnd}) {
      if (!name.ends_with(end)) continue;
      const std::string base = name.substr(0, name.size() - end.size());
      std::optional<Keys> keys;
      try {
        keys = end == kPlainEnd    ? std::optional(keys_of_name(name))
               : end == kLegacyEnd ? std::optional(keys_of_lines(read_regular_file(entry->path())))
                                   : find_keys(read_regular_file(entry->path()));
      } catch (const std::system_error& unreadable) {
        if (num_unread_++ == 0) first_unread_ = unreadable.what();
      }
      if (!keys) continue;
      names_.emplace(keys->whole, base);
      sizes_.emplace(keys->without_size, OfSize{keys->num_samples, base});
    }
  }
  if (error && error != std::errc::no_such_file_or_directory && error != std::errc::not_a_directory)
    throw std::system_error(error, folder_.string() + ": cannot list the index caches");
}

std::string MegatronCache::unread() const {
  if (num_unread_ == 0) return "";
  return first_unread_ + (num_unread_ == 1 ? ""
                                           : ", and " + std::to_string(num_unread_ - 1) +
                                                 " other descriptions cannot be read, either");
}

std::optional<std::string> MegatronCache::find_base(const std::string& key,
                                                    const std::string& stamp) const {
  std::optional<std::string> base;
  const auto [first, last] = names_.equal_range(key);
  for (auto it = first; it != last; ++it) {
    if (fs::exists(folder_ / (it->second + stamp))) continue;  // Weft's own
    if (base && *base != it->second) {
      throw std::runtime_error(folder_.string() + ": the index caches " + *base + "* and " +
                               it->second +
                               "* differ in the tokenizer only; move the one away that is not of "
                               "this run");
    }
    base = it->second;
  }
  return base;
}

std::optional<CacheNames> MegatronCache::find_names(const IndexDescription& description) const {
  CacheNames names = cache_names(description);
  if (names.description.empty()) return names;  // plain words
  const bool is_core = names.description.ends_with(kCoreEnd);
  const std::string& own = names.description;
  const std::string own_base = own.substr(0, own.size() - (is_core ? kCoreEnd : kLegacyEnd).size());
  const std::optional<std::string> base =
      find_base(is_core ? keys_of(core_description(description)).whole : without_epochs(names.text),
                names.stamp.substr(own_base.size()));
  if (!base) return std::nullopt;
  for (std::string* name : {&names.description, &names.document_index, &names.sample_index,
                            &names.shuffle_index, &names.stamp}) {
    *name = *base + name->substr(own_base.size());
  }
  return names;
}

namespace {

// Returns whether a stamp is there that a writer has not only begun with. A power cut may leave an
// empty one.
bool is_complete(const fs::path& stamp) {
  try {
    const Json json = Json::parse(find_stamp(stamp), nullptr, /*allow_exceptions=*/false);
    return json.is_object() && !json.contains("begun");
  } catch (const std::system_error&) {  // it cannot be read
    return false;
  }
}

// Returns the end of a stamp's name that takes the place of `end` in the name of the description.
std::string stamp_end_of(const CacheNames& names, std::string_view end) {
  return names.stamp.substr(names.description.size() - end.size());
}

}  // namespace

std::optional<fs::path> MegatronCache::find_begun(const std::string& key,
                                                  const std::string& stamp_end,
                                                  const std::string& own_stamp) const {
  std::vector<fs::path> stamps = {folder_ / own_stamp};
  const auto [first, last] = names_.equal_range(key);
  for (auto it = first; it != last; ++it) stamps.push_back(folder_ / (it->second + stamp_end));
  const auto is_begun = [](const fs::path& stamp) {
    return fs::exists(stamp) && !is_complete(stamp);
  };
  const auto begun = std::find_if(stamps.begin(), stamps.end(), is_begun);
  return begun == stamps.end() ? std::nullopt : std::optional(*begun);
}

std::optional<fs::path> MegatronCache::find_begun(const IndexDescription& description) const {
  const CacheNames names = cache_names(description);
  if (names.description.empty()) return find_begun("", "", names.stamp);
  if (names.description.ends_with(kCoreEnd)) {
    return find_begun(keys_of(core_description(description)).whole, stamp_end_of(names, kCoreEnd),
                      names.stamp);
  }
  return find_begun(without_epochs(names.text), stamp_end_of(names, kLegacyEnd), names.stamp);
}

std::optional<fs::path> MegatronCache::find_begun(const Json& blend, Split split) const {
  return find_begun(keys_of(blend).whole, "weft.json", blend_cache_names(blend, split).stamp);
}

std::vector<std::string> MegatronCache::find_other_sizes(const IndexDescription& description,
                                                         bool of_weft) const {
  const CacheNames names = cache_names(description);
  const bool is_core = names.description.ends_with(kCoreEnd);
  const Keys keys = names.description.empty() ? keys_of_name(names.document_index)
                    : is_core                 ? keys_of(core_description(description))
                                              : keys_of_lines(names.text);
  std::vector<std::string> others;
  const auto [first, last] = sizes_.equal_range(keys.without_size);
  for (auto it = first; it != last; ++it) {
    const OfSize& found = it->second;
    if (found.num_samples == keys.num_samples) continue;
    const fs::path path = folder_ / (found.base + (is_core ? "weft.json" : "_weft.json"));
    if (of_weft ? !is_complete(path) : fs::exists(path)) continue;
    others.push_back(found.num_samples);
  }
  return others;
}

std::optional<CachedIndex> MegatronCache::find_index(const IndexDescription& description,
                                                     const DatasetReader& reader,
                                                     const GptIndexOptions& options) const {
  const std::optional<CacheNames> names = find_names(description);
  if (!names || !fs::exists(folder_ / names->document_index)) return std::nullopt;
  if (fs::exists(folder_ / names->stamp)) return std::nullopt;
  const EpochPlan plan = plan_epochs(sum_tokens(reader.lengths(), options.range), options);
  try {
    CachedIndex found{.index = map_index(folder_, *names, plan, options),
                      .was_there = true,
                      .is_from_megatron = true};
    if (!std::visit([](auto values) { return looks_like_permutation(values); },
                    found.index.view.shuffle_index)) {
      throw std::runtime_error("its shuffle index, " + names->shuffle_index +
                               ", has a sample twice and another one never");
    }
    // A writer of Weft's may have begun to replace the arrays while they were mapped.
    if (fs::exists(folder_ / names->stamp)) return std::nullopt;
    return found;
  } catch (const std::system_error&) {
    throw;
  } catch (const std::exception& error) {
    throw_unfit(folder_ / names->document_index, reader.prefix().string(), error.what());
  }
}

std::optional<CachedBlend> MegatronCache::find_blend(const Json& description, int64_t size,
                                                     size_t num_datasets) const {
  const std::optional<std::string> base = find_base(keys_of(description).whole, "weft.json");
  if (!base) return std::nullopt;
  const fs::path file = folder_ / (*base + "dataset_index.npy");
  if (!fs::exists(file)) return std::nullopt;
  try {
    BlendCacheNames names;
    names.dataset_index = file.filename().string();
    names.dataset_sample_index = *base + "dataset_sample_index.npy";
    CachedBlend blend = map_blend(folder_, names, size);
    blend.counts = blend.index.view.counts(num_datasets);
    blend.is_from_megatron = true;
    if (fs::exists(folder_ / (*base + "weft.json"))) return std::nullopt;
    return blend;
  } catch (const std::system_error&) {
    throw;
  } catch (const std::exception& error) {
    throw_unfit(file, "the blend", error.what());
  }
}

fs::path default_cache_folder(OrderKind order, const fs::path& prefix) {
  if (!rules_of(order).has_old_blend_sizes) return prefix / "cache" / "GPTDataset_indices";
  return order == OrderKind::kLegacy ? prefix.parent_path() / "index-cache" : prefix.parent_path();
}

}  // namespace weft
