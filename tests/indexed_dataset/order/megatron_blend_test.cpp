// Blends that Megatron-Core's own code built (megatron_blend_peer.py;
// tests/golden/blends/README.md) against ours. WEFT_MEGATRON_BLENDS_DIR points to other such files
// than the shipped ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <sstream>

#include "indexed_dataset/base/storage/whole_files.h"
#include "indexed_dataset/order/blends/build_datasets.h"
#include "tests/indexed_dataset/md5.h"
#include "tests/indexed_dataset/test_files.h"

namespace weft {
namespace {

std::filesystem::path blends_folder() {
  if (const char* folder = std::getenv("WEFT_MEGATRON_BLENDS_DIR")) return folder;
  const char* source = std::getenv("WEFT_SOURCE_DIR");
  return std::filesystem::path(source != nullptr ? source : ".") / "tests/golden/blends";
}

// The orders of which there are files.
std::vector<OrderKind> orders_there() {
  std::vector<OrderKind> orders;
  for (const auto& [name, order] : kOrderKinds) {
    if (std::filesystem::exists(blends_folder() / (std::string(name) + ".blends.txt")))
      orders.push_back(order);
  }
  return orders;
}

std::string read_golden(OrderKind order, const char* what) {
  return read_file(blends_folder() / (name_of(order) + std::string(what)));
}

// One line of core.blends.txt.
struct BlendCase {
  std::string which;
  SampleOrder options;
  DatasetTargetSizes sizes;
  int64_t num_samples = 0;
  std::string dataset_md5, sample_md5, text_md5;

  // Datasets lie in `folder`.
  BlendCase(OrderKind order, const std::string& line, const std::filesystem::path& folder) {
    options.sample_order = order;
    std::istringstream words(line);
    size_t num_values = 0;
    words >> which >> options.split >> sizes.train_samples >> sizes.valid_samples >>
        sizes.test_samples >> options.seq_length >> options.seed >>
        options.mid_level_dataset_surplus >> num_values;
    DataPaths paths;
    paths.data_path.resize(num_values);
    for (std::string& value : paths.data_path) {
      words >> value;
      if (value.starts_with("d")) value = (folder / value).string();
    }
    options.blends = resolve_data_paths(paths);
    // Splits of weight 0 are not built there.
    const auto shares = split_shares(options.split);
    if (!shares[1]) sizes.valid_samples = 0;
    if (which != "refused") words >> num_samples >> dataset_md5 >> sample_md5 >> text_md5;
    EXPECT_FALSE(words.fail()) << line;
  }
};

std::string text_md5_of(const BlendedDataset& dataset) {
  const auto count = std::min<int64_t>(dataset.num_samples(), 2000);
  const int64_t size = dataset.sequence_length() + 1;
  std::vector<int32_t> tokens(static_cast<size_t>(size * count));
  for (int64_t i = 0; i < count; ++i) dataset.sample(i, &tokens[static_cast<size_t>(i * size)]);
  return md5_of(tokens);
}

void expect_same(const BlendCase& expected, const BlendedDataset& dataset) {
  EXPECT_EQ(dataset.num_samples(), expected.num_samples);
  EXPECT_EQ(dataset.is_blend(), expected.dataset_md5 != "-");
  if (dataset.is_blend()) {
    std::vector<int16_t> datasets;
    std::vector<int64_t> samples;
    for (int64_t i = 0; i < dataset.num_samples(); ++i) {
      const auto place = dataset.locate(i);
      datasets.push_back(static_cast<int16_t>(place.dataset_idx));
      samples.push_back(place.sample_idx);
    }
    EXPECT_EQ(md5_of(datasets), expected.dataset_md5);
    EXPECT_EQ(md5_of(samples), expected.sample_md5);
  }
  EXPECT_EQ(text_md5_of(dataset), expected.text_md5);
}

void expect_same_blends(OrderKind order) {
  std::istringstream lines(read_golden(order, ".blends.txt"));
  int64_t num_compared = 0, num_refused = 0;
  for (std::string line; std::getline(lines, line);) {
    SCOPED_TRACE(line);
    const BlendCase expected(order, line, blends_folder());
    if (expected.which == "refused") {
      EXPECT_THROW(build_training_datasets(expected.options, expected.sizes),
                   std::invalid_argument);
      ++num_refused;
      continue;
    }
    const TrainingDatasets datasets = build_training_datasets(expected.options, expected.sizes);
    const auto split = static_cast<Split>(std::stoi(expected.which));
    const BlendedDataset* dataset = datasets.first(split);
    ASSERT_NE(dataset, nullptr);
    expect_same(expected, *dataset);
    ++num_compared;
  }
  EXPECT_GT(num_compared, 20);
  if (std::getenv("WEFT_MEGATRON_BLENDS_DIR") == nullptr) {
    EXPECT_EQ(num_refused, order == OrderKind::kCore ? 1 : 3);
  }
}

TEST(MegatronBlends, SizesIndexesAndTokensAreTheSame) {
  const std::vector<OrderKind> orders = orders_there();
  if (std::getenv("WEFT_MEGATRON_BLENDS_DIR") == nullptr) {
    EXPECT_EQ(orders, (std::vector{OrderKind::kCore, OrderKind::kCore010}));
  }
  ASSERT_FALSE(orders.empty());
  for (const OrderKind order : orders) {
    SCOPED_TRACE(name_of(order));
    expect_same_blends(order);
  }
}

// A run of Megatron-Core 0.10 has read 14586 samples of the first dataset, which is another number
// of epochs.
TEST(MegatronBlends, CoreBefore011BuildsOtherNumbersOfSamples) {
  const std::vector<double> weights = {0.3, 0.7};
  EXPECT_EQ(blend_sizes(weights, 48377, OrderKind::kCore).num_to_build[0], 14587);
  const BlendSizes old = blend_sizes(weights, 48377, OrderKind::kCore010);
  EXPECT_EQ(old.num_to_build[0], 14586);
  EXPECT_EQ(old.size, old.num_to_build[0] + old.num_to_build[1]);
}

// Megatron-Core finds our files and we find its ones: all have its names and its bytes.
void expect_same_caches(OrderKind order) {
  std::map<std::string, std::string> theirs, ours;
  std::istringstream lines(read_golden(order, ".caches.txt"));
  for (std::string md5, name; lines >> md5 >> name;) theirs[name] = md5;
  ASSERT_GT(theirs.size(), 100U);

  const TemporaryFolder cache;
  std::istringstream blends(read_golden(order, ".blends.txt"));
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(blends_folder());  // the paths in the descriptions are relative
  for (std::string line; std::getline(blends, line);) {
    BlendCase expected(order, line, "");
    if (expected.which != "0") continue;  // each blend once
    expected.options.cache_path = (cache / "").string();
    expected.options.tokenizer = gpt2_files("/v/gpt2-vocab.json", "/v/gpt2-merges.txt");
    build_training_datasets(expected.options, expected.sizes);
  }
  std::filesystem::current_path(before);
  for (const std::string& name : cache.file_names()) {
    if (name.ends_with("-weft.json")) continue;
    const std::string content = read_file(cache / name.c_str());
    ours[name] = md5_of(std::vector<char>(content.begin(), content.end()));
  }
  EXPECT_EQ(ours, theirs);
}

TEST(MegatronBlends, CachesHaveTheSameNamesAndBytes) {
  for (const OrderKind order : orders_there()) {
    SCOPED_TRACE(name_of(order));
    expect_same_caches(order);
  }
}

}  // namespace
}  // namespace weft
