#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <fstream>
#include <random>

#include "indexed_dataset/base/storage/io_fault.h"
#include "indexed_dataset/base/storage/npy_file.h"
#include "indexed_dataset/order/blends/build_datasets.h"
#include "indexed_dataset/order/blends/split_datasets.h"
#include "indexed_dataset/order/index_caches/index_cache_writer.h"
#include "tests/indexed_dataset/test_files.h"

namespace weft {
namespace {

using ::testing::Each;
using ::testing::ElementsAreArray;
using ::testing::Not;
using ::testing::StartsWith;

// The first bytes of what numpy.save() of NumPy 2.4.6 writes.
TEST(NpyFile, HasNumPysBytes) {
  const TemporaryFolder folder;
  const std::vector<int32_t> rows(22, 7);
  write_npy(folder / "rows", std::span(rows), 2);
  const std::string spaces(57, ' ');
  EXPECT_THAT(read_file(folder / "rows"),
              StartsWith(std::string("\x93NUMPY\x01\x00v\x00", 10) +
                         "{'descr': '<i4', 'fortran_order': False, 'shape': (11, 2), }" + spaces +
                         "\n\x07"));
  const std::vector<uint32_t> many(1234567, 7);
  write_npy(folder / "many", std::span(many));
  EXPECT_THAT(read_file(folder / "many"),
              StartsWith(std::string("\x93NUMPY\x01\x00v\x00", 10) +
                         "{'descr': '<u4', 'fortran_order': False, 'shape': (1234567,), }" +
                         spaces.substr(3) + "\n\x07"));
  EXPECT_THAT(NpyArray(folder / "rows").values<int32_t>(), ElementsAreArray(rows));
  EXPECT_EQ(NpyArray(folder / "rows").shape(), (std::vector<int64_t>{11, 2}));
}

TEST(NpyFile, IsNotReadAsAnotherType) {
  const TemporaryFolder folder;
  const std::vector<int64_t> values(3, 7);
  write_npy(folder / "a", std::span(values));
  try {
    NpyArray(folder / "a").values<int32_t>();
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr((folder / "a").string() + ": "));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("<i8 and not <i4"));
  }
}

TEST(NpyFile, RefusesDamagedFiles) {
  const TemporaryFolder folder;
  const std::vector<int32_t> values(100, 7);
  write_npy(folder / "good", std::span(values));
  const std::string good = read_file(folder / "good");
  std::mt19937 random(20261122);
  for (int trial = 0; trial < 600; ++trial) {
    std::string bad = good;
    if (trial % 3 == 0) bad.resize(random() % bad.size());
    if (trial % 3 != 0 && !bad.empty()) bad[random() % 128] = static_cast<char>(random());
    std::ofstream(folder / "bad", std::ios::binary) << bad;
    try {
      // Whatever is read lies in the file.
      const NpyArray array(folder / "bad");
      if (!array.holds<int32_t>()) continue;
      const auto read = array.values<int32_t>();
      EXPECT_LE(read.size_bytes(), bad.size());
      EXPECT_THAT(read, Each(7));
    } catch (const std::runtime_error&) {
    }
  }
}

// The text has 529 bytes, and Megatron-Core calls its files by this sum.
TEST(CacheNames, AreMegatronCores) {
  const IndexDescription index{
      .dataset_path = "/data/my-gpt2_text_document",
      .num_samples = 1000,
      .group = {},
      .seed = 1234,
      .sequence_length = 2048,
      .split_string = "98,2,0",
      .tokenizer = tokenizer_description(gpt2_files("/v/gpt2-vocab.json", "/v/gpt2-merges.txt"))};
  const CacheNames names = cache_names(index);
  EXPECT_EQ(names.text.size(), 529U);
  EXPECT_EQ(names.sample_index,
            "de996c2948478030386bcff7c86599ee-GPTDataset-train-sample_index.npy");
}

TEST(CacheNames, NumbersAreSpelledAsPythonDoes) {
  const auto text = [](double value) { return python_json(nlohmann::ordered_json(value)); };
  EXPECT_EQ(text(0.1), "0.1");
  EXPECT_EQ(text(1), "1.0");
  EXPECT_EQ(text(1e-4), "0.0001");
  EXPECT_EQ(text(1.5e-5), "1.5e-05");
  EXPECT_EQ(text(1e15), "1000000000000000.0");
  EXPECT_EQ(text(1e16), "1e+16");
  EXPECT_EQ(text(2.0 / 3), "0.6666666666666666");
  EXPECT_EQ(python_json(nlohmann::ordered_json("\u00e9\x7f")), "\"\\u00e9\\u007f\"");
  EXPECT_EQ(python_json(nlohmann::ordered_json::array()), "[]");
}

TEST(CacheNames, OldProgramsHaveTheirOwn) {
  IndexDescription index{.order = OrderKind::kBigscience,
                         .dataset_path = "/data/d_text_document",
                         .num_samples = 100,
                         .split = Split::kValid,
                         .group = {},
                         .seed = 43,
                         .sequence_length = 2048,
                         .split_string = "949,50,1",
                         .tokenizer = {}};
  EXPECT_EQ(cache_names(index).sample_index,
            "d_text_document_valid_indexmap_100ns_2048sl_43s_sample_idx.npy");
  index.order = OrderKind::kNeox;
  EXPECT_EQ(cache_names(index).document_index,
            "d_text_document_valid_indexmap_100ns_2048sl_43s_packedpi_ac_doc_idx.npy");
  index.order = OrderKind::kLegacy;
  EXPECT_EQ(
      cache_names(index).text,
      "GPT Dataset\n\nData prefix /data/d_text_document\nDataset name valid\nNumber of samples "
      "100\nSequence length 2048\nRandom seed 43\nSplit 949,50,1\n");
}

// [gpt-neox megatron/data/data_utils.py, build_weighted_datasets]
TEST(CacheNames, NeoxNumbersTheDatasetsOfABlend) {
  const IndexDescription index{.order = OrderKind::kNeox,
                               .dataset_path = "/data/d",
                               .num_samples = 100,
                               .group = {},
                               .sequence_length = 16,
                               .split_string = {},
                               .tokenizer = {},
                               .place_in_blend = 1};
  EXPECT_EQ(cache_names(index).sample_index,
            "d_train_1_indexmap_100ns_16sl_1234s_packedpi_ac_sample_idx.npy");
}

TEST(CacheNames, PartsOfADatasetHaveNamesOfTheirOwn) {
  for (const OrderKind order :
       {OrderKind::kCore, OrderKind::kCore010, OrderKind::kLegacy, OrderKind::kSequential}) {
    IndexDescription index{.order = order,
                           .dataset_path = "/data/d",
                           .num_samples = 100,
                           .group = {},
                           .sequence_length = 16,
                           .split_string = {},
                           .tokenizer = {}};
    const std::string whole = cache_names(index).sample_index;
    index.share = {0.0, 1.0};
    EXPECT_EQ(cache_names(index).sample_index, whole);
    index.share = {0.0, 0.5};
    const std::string first = cache_names(index).sample_index;
    index.share = {0.5, 1.0};
    EXPECT_NE(cache_names(index).sample_index, first);
    EXPECT_NE(first, whole);
  }
}

class IndexCacheTest : public ::testing::Test {
 protected:
  std::string write(const char* name, size_t num_documents, size_t length = 10) {
    write_dataset(folder_ / name, TokenType::kUInt16,
                  std::vector<std::vector<uint16_t>>(
                      num_documents, std::vector<uint16_t>(length, static_cast<uint16_t>(length))));
    return (folder_ / name).string();
  }
  SampleOrder options(const std::vector<std::string>& data_path) const {
    SampleOrder order;
    order.blends = resolve_data_paths({.data_path = data_path});
    order.split = "90,10,0";
    order.seq_length = 7;
    order.cache_path = (folder_ / "cache").string();
    return order;
  }
  static TrainingDatasets build(const SampleOrder& options) {
    return build_training_datasets(options, {.train_samples = 300, .valid_samples = 20});
  }
  static std::vector<bool> was_cached(const TrainingDatasets& datasets) {
    std::vector<bool> all;
    for (const IndexReport& report : datasets.reports) all.push_back(report.was_cached);
    return all;
  }
  static void expect_same(const TrainingDatasets& a, const TrainingDatasets& b) {
    for (const Split split : {Split::kTrain, Split::kValid}) {
      ASSERT_EQ(a.first(split)->num_samples(), b.first(split)->num_samples());
      for (int64_t i = 0; i < a.first(split)->num_samples(); ++i) {
        ASSERT_EQ(a.first(split)->locate(i).dataset_idx, b.first(split)->locate(i).dataset_idx);
        ASSERT_EQ(a.first(split)->sample_parts(i), b.first(split)->sample_parts(i));
      }
    }
  }
  std::vector<std::string> cache_files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "cache"))
      names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }
  TemporaryFolder folder_{memory_folder()};
};

TEST_F(IndexCacheTest, SecondRunMapsWhatTheFirstOneWrote) {
  for (const OrderKind order : {OrderKind::kCore, OrderKind::kLegacy, OrderKind::kBigscience,
                                OrderKind::kNeox, OrderKind::kSequential}) {
    SCOPED_TRACE(name_of(order));
    SampleOrder blend = options({"1", write("a", 100), "3", write("b", 50, 20)});
    blend.sample_order = order;
    const TrainingDatasets first = build(blend), second = build(blend);
    EXPECT_THAT(was_cached(first), Each(false));
    // Blends are kept in files in Megatron-Core's order alone.
    EXPECT_EQ(was_cached(second)[0], true);
    EXPECT_EQ(was_cached(second)[2], order == OrderKind::kCore);
    blend.cache_path = "";
    const TrainingDatasets in_memory = build(blend);
    expect_same(first, in_memory);
    expect_same(second, in_memory);
    EXPECT_THAT(cache_files(), Each(Not(::testing::EndsWith(".part"))));
    EXPECT_THAT(cache_files(), Each(Not(::testing::EndsWith(".lock"))));
    std::filesystem::remove_all(folder_ / "cache");
  }
}

TEST_F(IndexCacheTest, DataThatWereReplacedAreIndexedAnew) {
  const std::string prefix = write("a", 100);
  const SampleOrder one = options({prefix});
  build(one);
  const auto old_time = std::filesystem::last_write_time(prefix + ".idx");
  write("a", 100, 11);  // as many documents, of other lengths
  std::filesystem::last_write_time(prefix + ".idx", old_time + std::chrono::seconds(1));
  const TrainingDatasets again = build(one);
  EXPECT_THAT(was_cached(again), Each(false));
  SampleOrder in_memory = one;
  in_memory.cache_path = "";
  expect_same(again, build(in_memory));
}

TEST_F(IndexCacheTest, DataThatAreReplacedWhileTheirIndexIsBuiltAreIndexedAnew) {
  const std::string prefix = write("a", 100);
  const SampleOrder one = options({prefix});
  const DatasetReaders readers = {{prefix, std::make_shared<const DatasetReader>(prefix)}};
  const auto old_time = std::filesystem::last_write_time(prefix + ".idx");
  write("a", 100, 11);
  std::filesystem::last_write_time(prefix + ".idx", old_time + std::chrono::seconds(1));
  const DatasetTargetSizes sizes{.train_samples = 300, .valid_samples = 20};
  std::vector<IndexReport> reports;
  SplitDatasets(one, readers, Split::kTrain, sizes, reports, {})
      .build(one.blends.of(Split::kTrain).front(), {300});
  const TrainingDatasets again = build(one);
  EXPECT_THAT(was_cached(again), Each(false));
  SampleOrder in_memory = one;
  in_memory.cache_path = "";
  expect_same(again, build(in_memory));
}

TEST_F(IndexCacheTest, DataThatWereOnlyCopiedAreNot) {
  const std::string prefix = write("a", 100);
  const SampleOrder one = options({prefix});
  build(one);
  std::filesystem::last_write_time(
      prefix + ".idx", std::filesystem::file_time_type::clock::now() + std::chrono::hours(1));
  EXPECT_THAT(was_cached(build(one)), Each(true));
}

// bigscience's names do not hold the split: its program reuses what another split has left.
TEST_F(IndexCacheTest, AnotherSplitUnderTheSameNameIsIndexedAnew) {
  SampleOrder one = options({write("a", 100)});
  one.sample_order = OrderKind::kBigscience;
  build(one);
  one.split = "50,50,0";
  const TrainingDatasets changed = build(one);
  EXPECT_THAT(was_cached(changed), Each(false));
  one.cache_path = "";
  expect_same(changed, build(one));
}

TEST_F(IndexCacheTest, DamagedOrIncompleteFilesAreReplaced) {
  const SampleOrder blend = options({"1", write("a", 100), "3", write("b", 50)});
  build(blend);
  SampleOrder in_memory = blend;
  in_memory.cache_path = "";
  const TrainingDatasets expected = build(in_memory);
  for (const std::string& name : cache_files()) {
    SCOPED_TRACE(name);
    const bool is_read = !name.ends_with("description.txt");
    const auto path = folder_ / ("cache/" + name).c_str();
    std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
    TrainingDatasets again = build(blend);
    const auto cached = was_cached(again);
    EXPECT_EQ(std::count(cached.begin(), cached.end(), false), is_read ? 1 : 0);
    expect_same(again, expected);
    std::filesystem::remove(path);
    again = build(blend);
    expect_same(again, expected);
    if (!name.ends_with(".npy")) continue;
    // One bit of the last value.
    std::string bytes = read_file(path);
    bytes.back() ^= 1;
    write_file_atomically(path, bytes);
    again = build(blend);
    const auto after_flip = was_cached(again);
    EXPECT_EQ(std::count(after_flip.begin(), after_flip.end(), false), 1);
    expect_same(again, expected);
    // An array of other numbers, with the size of the old one.
    bytes = read_file(path);
    const size_t type_at = bytes.find("'<") + 2;
    bytes[type_at] = bytes[type_at] == 'i' ? 'u' : 'i';
    write_file_atomically(path, bytes);
    again = build(blend);
    expect_same(again, expected);
  }
}

// More datasets than are written together, by several processes of several threads each: none waits
// for a lock while another waits for one of its own.
TEST_F(IndexCacheTest, ManyProcessesMayStartAtOnce) {
  std::vector<std::string> data_path;
  for (size_t i = 0; i < 80; ++i) {
    // One dataset stands twice in the list.
    const std::string name = "d" + std::to_string(i == 79 ? 3 : i);
    data_path.insert(data_path.end(), {"1", i == 79 ? (folder_ / name.c_str()).string()
                                                    : write(name.c_str(), 20 + i % 7)});
  }
  SampleOrder blend = options(data_path);
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    blend.num_threads = i < 2 ? 1 : 3;
    try {
      build(blend);
      _exit(0);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      _exit(1);
    }
  }
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  const TrainingDatasets mapped = build(blend);
  EXPECT_THAT(was_cached(mapped), Each(true));
  EXPECT_THAT(cache_files(), Each(Not(::testing::EndsWith(".part"))));
  EXPECT_THAT(cache_files(), Each(Not(::testing::EndsWith(".lock"))));
  blend.cache_path = "";
  expect_same(mapped, build(blend));
}

// Every second call of the file system fails, and each of the others is the last one of its
// process.
TEST_F(IndexCacheTest, AWriterThatIsKilledOrFailsLeavesNothingThatLooksComplete) {
  SampleOrder blend = options({"1", write("a", 31), "3", write("b", 49)});
  blend.num_threads = 1;
  // Complete caches of other data under the same names, which some of the writers replace.
  build(blend);
  std::filesystem::rename(folder_ / "cache", folder_ / "older");
  write("a", 30);
  write("b", 50);
  SampleOrder in_memory = blend;
  in_memory.cache_path = "";
  const TrainingDatasets expected = build(in_memory);
  // Its number of calls, from the same beginning.
  const int64_t before = num_io_calls();
  build(blend);
  const int64_t num_calls = num_io_calls() - before;
  ASSERT_GT(num_calls, 50);
  for (const auto& [error_number, replaces] :
       {std::pair(kIoFaultKills, false), {kIoFaultKills, true}, {EIO, false}}) {
    for (int64_t call = 1 + (error_number == EIO); call <= num_calls && !HasFailure(); call += 2) {
      SCOPED_TRACE("call " + std::to_string(call) +
                   (error_number == EIO ? " fails" : " is the last") +
                   (replaces ? ", of those that replace older files" : ""));
      std::filesystem::remove_all(folder_ / "cache");
      if (replaces) {
        std::filesystem::copy(folder_ / "older", folder_ / "cache",
                              std::filesystem::copy_options::recursive);
      }
      const pid_t child = fork();
      if (child == 0) {
        set_io_fault(call, error_number);
        try {
          build(blend);
          _exit(0);
        } catch (const std::exception&) {
          _exit(1);
        }
      }
      int status = -1;
      waitpid(child, &status, 0);
      // On a full disk a part that stayed would leave no room for the next run.
      if (error_number == EIO && std::filesystem::exists(folder_ / "cache")) {
        EXPECT_THAT(cache_files(), Each(Not(::testing::EndsWith(".npy.part"))));
      }
      SampleOrder mapping = blend;
      mapping.maps_caches_only = true;
      expect_same(build(mapping), expected);
      // Nor are they taken for Megatron's, unless they are whole.
      mapping.takes_megatron_caches = true;
      expect_same(build(mapping), expected);
      expect_same(build(blend), expected);
      EXPECT_THAT(cache_files(), Each(Not(::testing::EndsWith(".npy.part"))));
    }
  }
}

TEST_F(IndexCacheTest, AFolderThatCannotBeMadeIsNamed) {
  SampleOrder one = options({write("a", 100)});
  write_file_atomically(folder_ / "file", "");
  one.cache_path = (folder_ / "file").string() + "/cache";
  try {
    build(one);
    FAIL() << "nothing was thrown";
  } catch (const std::system_error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("file/cache"));
  }
}

}  // namespace
}  // namespace weft
