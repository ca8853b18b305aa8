#include "indexed_dataset/blends/data_paths.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <unordered_set>

#include "indexed_dataset/pair/dataset_files.h"
#include "indexed_dataset/process/parse_json.h"
#include "indexed_dataset/storage/whole_files.h"

namespace weft {
namespace {

[[noreturn]] void throw_bad(const std::string& option, const std::string& what) {
  throw std::invalid_argument(option + ": " + what);
}

std::string trimmed(const std::string& text) {
  constexpr const char* kSpaces = " \t\r\n";
  const size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(kSpaces) - begin + 1);
}

std::optional<double> find_number(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

double parse_weight(const std::string& text, const std::string& prefix, const std::string& option) {
  const std::optional<double> weight = find_number(trimmed(text));
  if (!weight) throw_bad(option, "'" + text + "', the weight of " + prefix + ", is not a number");
  if (!std::isfinite(*weight) || *weight <= 0) {
    throw_bad(option, "the weight of " + prefix + " is " + text +
                          ", it must be positive; leave out a dataset that is not wanted");
  }
  return *weight;
}

std::string prefix_of(const std::string& text, const std::string& option) {
  const std::string prefix = trimmed(text);
  if (prefix.empty()) throw_bad(option, "an empty name stands where a PREFIX is expected");
  return without_suffix(prefix).string();
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::vector<std::string> pieces_of(const std::string& text, char separator) {
  std::vector<std::string> pieces;
  std::istringstream stream(text);
  for (std::string piece; std::getline(stream, piece, separator);) pieces.push_back(piece);
  return pieces;
}

// The lists of train, valid and test in the file of --per-split-data-args-path: texts or arrays.
std::array<std::vector<std::string>, 3> read_lists_of_splits(const std::string& path) {
  using Json = nlohmann::json;
  const std::string option = "--per-split-data-args-path " + path;
  std::array<std::vector<std::string>, 3> lists;
  try {
    const Json json = parse_json<Json>(read_file(path));
    for (const Split split : {Split::kTrain, Split::kValid, Split::kTest}) {
      const auto found = json.find(short_split_name(split));
      if (found == json.end() || found->is_null()) continue;
      lists[static_cast<size_t>(split)] = found->is_string()
                                              ? words_of(found->get<std::string>())
                                              : found->get<std::vector<std::string>>();
    }
  } catch (const Json::exception& error) {
    throw_bad(option, std::string("not a JSON object of lists \"train\", \"valid\", \"test\": ") +
                          error.what());
  }
  return lists;
}

// The ways to name datasets exclude each other.
void check_one_way(const DataPaths& p) {
  const std::pair<const char*, bool> ways[] = {
      {"--data-path", !p.data_path.empty()},
      {"--data-args-path", !p.data_args_path.empty()},
      {"--per-split-data-args-path", !p.per_split_data_args_path.empty()},
      {"--train/valid/test-data-path",
       !p.train_data_path.empty() || !p.valid_data_path.empty() || !p.test_data_path.empty()},
      {"--train/valid/test-weighted-split-paths", !p.train_weighted_split_paths.empty() ||
                                                      !p.valid_weighted_split_paths.empty() ||
                                                      !p.test_weighted_split_paths.empty()},
  };
  std::string given;
  int count = 0;
  for (const auto& [name, is_given] : ways) {
    if (is_given) given += (count++ == 0 ? "" : " and ") + std::string(name);
  }
  if (count > 1)
    throw std::invalid_argument(given + " exclude each other: give the datasets in one way");
}

std::vector<Blend> parse_groups(const std::vector<std::string>& values, const std::string& option) {
  std::vector<Blend> groups;
  for (const std::string& value : values) groups.push_back(parse_weighted_split(value, option));
  return groups;
}

}  // namespace

bool DataPaths::empty() const {
  return data_path.empty() && train_data_path.empty() && valid_data_path.empty() &&
         test_data_path.empty() && data_args_path.empty() && per_split_data_args_path.empty() &&
         train_weighted_split_paths.empty() && valid_weighted_split_paths.empty() &&
         test_weighted_split_paths.empty();
}

std::vector<std::string> SplitBlends::prefixes() const {
  std::vector<std::string> all;
  std::unordered_set<std::string> known;
  for (const auto& of_split : blends) {
    for (const Blend& blend : of_split) {
      for (const std::string& prefix : blend.prefixes) {
        if (known.insert(prefix).second) all.push_back(prefix);
      }
    }
  }
  return all;
}

// Megatron's rule: an odd number of values are prefixes; an even one are pairs if every first value
// of a pair is a number, and prefixes if none is.
Blend parse_blend(const std::vector<std::string>& values, const std::string& option) {
  Blend blend;
  size_t num_weights = 0;
  const bool is_even = values.size() % 2 == 0;
  for (size_t i = 0; is_even && i < values.size(); i += 2)
    num_weights += find_number(trimmed(values[i])) ? 1 : 0;
  if (num_weights == 0 || values.size() == 1) {
    for (const std::string& value : values) {
      if (values.size() > 1 && !is_even && find_number(trimmed(value))) {
        throw_bad(option, std::to_string(values.size()) + " values, and '" + value +
                              "' is a number: a weight or a PREFIX is missing");
      }
      blend.prefixes.push_back(prefix_of(value, option));
    }
    return blend;
  }
  if (num_weights != values.size() / 2) {
    throw_bad(option, "only " + std::to_string(num_weights) + " of " +
                          std::to_string(values.size() / 2) +
                          " pairs begin with a number; give every PREFIX a weight, or none");
  }
  for (size_t i = 0; i < values.size(); i += 2) {
    blend.prefixes.push_back(prefix_of(values[i + 1], option));
    blend.weights.push_back(parse_weight(values[i], blend.prefixes.back(), option));
  }
  return blend;
}

Blend parse_weighted_split(const std::string& value, const std::string& option) {
  constexpr const char* kForm = "; give \"NAME: WEIGHT BEGIN:END PREFIX, WEIGHT BEGIN:END PREFIX\"";
  const size_t colon = value.find(':');
  if (colon == std::string::npos) throw_bad(option, "'" + value + "' has no NAME:" + kForm);
  Blend blend;
  blend.name = trimmed(value.substr(0, colon));
  for (const std::string& piece : pieces_of(value.substr(colon + 1), ',')) {
    const std::vector<std::string> words = words_of(piece);
    if (words.size() != 3)
      throw_bad(option, "'" + trimmed(piece) + "' has not three words" + kForm);
    const std::vector<std::string> bounds = pieces_of(words[1], ':');
    const auto bound = [&](size_t i) {
      return i < bounds.size() ? find_number(bounds[i]) : std::nullopt;
    };
    if (bounds.size() != 2 || !bound(0) || !bound(1) || !(*bound(0) >= 0) ||
        !(*bound(0) < *bound(1)) || !(*bound(1) <= 1)) {
      throw_bad(option, "'" + words[1] + "' is no range BEGIN:END within 0:1" + kForm);
    }
    blend.prefixes.push_back(prefix_of(words[2], option));
    blend.weights.push_back(parse_weight(words[0], words[2], option));
    blend.shares.emplace_back(*bound(0), *bound(1));
  }
  if (blend.prefixes.empty()) throw_bad(option, "'" + value + "' names no dataset" + kForm);
  // A single dataset is not blended, so its weight has no meaning.
  if (blend.prefixes.size() == 1) blend.weights.clear();
  return blend;
}

SplitBlends resolve_data_paths(const DataPaths& paths) {
  check_one_way(paths);
  SplitBlends result;
  if (!paths.data_path.empty() || !paths.data_args_path.empty()) {
    const bool is_file = paths.data_path.empty();
    const std::string option =
        is_file ? "--data-args-path " + paths.data_args_path : std::string("--data-path");
    const auto values = is_file ? words_of(read_file(paths.data_args_path)) : paths.data_path;
    if (values.empty()) throw_bad(option, "names no dataset");
    result.blends.fill({parse_blend(values, option)});
    return result;
  }
  result.has_own_paths = true;
  if (!paths.train_weighted_split_paths.empty() || !paths.valid_weighted_split_paths.empty() ||
      !paths.test_weighted_split_paths.empty()) {
    if (paths.train_weighted_split_paths.size() > 1)
      throw_bad("--train-weighted-split-paths", "training has one group of datasets only");
    result.blends = {parse_groups(paths.train_weighted_split_paths, "--train-weighted-split-paths"),
                     parse_groups(paths.valid_weighted_split_paths, "--valid-weighted-split-paths"),
                     parse_groups(paths.test_weighted_split_paths, "--test-weighted-split-paths")};
    return result;
  }
  std::array<std::vector<std::string>, 3> lists = {paths.train_data_path, paths.valid_data_path,
                                                   paths.test_data_path};
  if (!paths.per_split_data_args_path.empty())
    lists = read_lists_of_splits(paths.per_split_data_args_path);
  for (const Split split : {Split::kTrain, Split::kValid, Split::kTest}) {
    const auto& list = lists[static_cast<size_t>(split)];
    if (list.empty()) continue;
    const std::string name(short_split_name(split));
    Blend blend = parse_blend(list, paths.per_split_data_args_path.empty()
                                        ? "--" + name + "-data-path"
                                        : paths.per_split_data_args_path + ", \"" + name + "\"");
    blend.shares.assign(blend.prefixes.size(), {0.0, 1.0});
    // As in Megatron-Core: a single dataset of a split is not blended, whatever its weight.
    if (blend.prefixes.size() == 1) blend.weights.clear();
    result.blends[static_cast<size_t>(split)].push_back(std::move(blend));
  }
  if (result.prefixes().empty())
    throw std::invalid_argument(
        "--data-path is required: the PREFIX of PREFIX.bin and PREFIX.idx, or a blend of several");
  return result;
}

}  // namespace weft
