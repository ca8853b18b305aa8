// Merging datasets: bytes of the result, what is refused, and what is left after every failure.
#include "indexed_dataset/format/merge/merge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <system_error>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/base/storage/free_space.h"
#include "indexed_dataset/format/merge/drop_list.h"
#include "indexed_dataset/format/merge/merge_pairs.h"
#include "indexed_dataset/format/sidecars/dataset_manifest.h"
#include "indexed_dataset/format/sidecars/source_map.h"
#include "indexed_dataset/format/soundness/block_checksums.h"
#include "indexed_dataset/format/soundness/verify.h"
#include "tests/indexed_dataset/test_files.h"
#include "tests/temporary_folder.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

namespace fs = std::filesystem;
using Document = std::vector<uint16_t>;

void write_documents(const fs::path& prefix, const std::vector<Document>& documents) {
  write_dataset(prefix, TokenType::kUInt16, documents);
}

void write_sources(const fs::path& prefix, int64_t num_documents, uint32_t num_inputs,
                   const std::vector<std::string>& inputs) {
  std::vector<std::byte> bytes;
  for (int64_t i = 0; i < num_documents; ++i)
    append_source_entry(bytes, {static_cast<uint32_t>(i) % num_inputs, 100 * i});
  OutputFile(sources_path(prefix)).write_at(bytes.data(), bytes.size(), source_entry_at(0));
  seal_source_map(sources_path(prefix), num_documents, inputs);
}

std::vector<Document> random_documents(uint32_t seed, int count) {
  std::vector<Document> documents(static_cast<size_t>(count));
  for (Document& document : documents) {
    seed = seed * 1664525 + 1013904223;
    document.resize((seed >> 16) % 7 == 0 ? 0 : (seed >> 20) % 50);
    for (uint16_t& token : document)
      token = static_cast<uint16_t>((seed = seed * 1664525 + 1013904223) >> 16);
  }
  return documents;
}

MergeReport merge(const fs::path& output, const std::vector<fs::path>& parts, int threads = 2) {
  MergeConfig config;
  config.prefixes = parts;
  config.output_prefix = output;
  config.num_threads = threads;
  config.overwrite = true;
  return merge_datasets(config, [] {});
}

template <typename Error>
std::string merge_error(const fs::path& output, const std::vector<fs::path>& parts) {
  try {
    merge(output, parts);
  } catch (const Error& error) {
    return error.what();
  }
  return "(nothing was thrown)";
}

std::string with_suffix(const fs::path& prefix, const char* suffix) {
  return read_file(prefix.string() + suffix);
}

// Without the document bounds, as old merge tools wrote it.
void drop_bounds(const fs::path& prefix) {
  std::string idx = with_suffix(prefix, ".idx");
  const auto num_sequences = static_cast<size_t>(static_cast<unsigned char>(idx[18]));
  idx.resize(34 + 12 * num_sequences + 8);
  idx.replace(26, 8, std::string("\x01\0\0\0\0\0\0\0", 8));
  write_file_atomically(prefix.string() + ".idx", idx);
}

TEST(Merge, GivesTheBytesOfMegatronsBuilder) {
  // shared vector: what Megatron-Core's IndexedDatasetBuilder.add_index makes of this file twice.
  const TemporaryFolder folder;
  write_documents(folder.path() / "a", {{1, 2, 3}, {}, {4, 50256}});
  ASSERT_EQ(to_hex(with_suffix(folder.path() / "a", ".bin")), "010002000300040050c4");
  merge(folder.path() / "p", {folder.path() / "a", folder.path() / "a"});
  EXPECT_EQ(to_hex(with_suffix(folder.path() / "p", ".bin")),
            "010002000300040050c4010002000300040050c4");
  EXPECT_EQ(to_hex(with_suffix(folder.path() / "p", ".idx")),
            "4d4d49444944580000"
            "0100000000000000"
            "08"
            "0400000000000000"
            "0700000000000000"
            "03000000020000000300000002000000"
            "0000000000000000060000000000000"
            "00a000000000000001000000000000000"
            "0000000000000000010000000000000001000000000000000200000000000000"
            "030000000000000003000000000000000400000000000000");
}

TEST(Merge, EqualsOneDatasetOfAllDocuments) {
  const TemporaryFolder folder;
  std::vector<Document> all;
  std::vector<fs::path> parts;
  for (const int count : {300, 0, 1, 77}) {
    const auto documents = random_documents(static_cast<uint32_t>(count), count);
    all.insert(all.end(), documents.begin(), documents.end());
    parts.push_back(folder.path() / ("part" + std::to_string(parts.size())));
    write_documents(parts.back(), documents);
    write_sources(parts.back(), count, 2, {"common", "of " + std::to_string(count)});
  }
  write_documents(folder.path() / "all", all);
  std::string sources;
  for (const int threads : {1, 2, 5}) {
    const MergeReport report = merge(folder.path() / "p", parts, threads);
    EXPECT_THAT(report.notes, IsEmpty());
    EXPECT_EQ(report.num_documents, 378);
    for (const char* suffix : {".bin", ".idx"})
      EXPECT_EQ(with_suffix(folder.path() / "p", suffix),
                with_suffix(folder.path() / "all", suffix));
    if (!sources.empty()) {
      EXPECT_EQ(with_suffix(folder.path() / "p", ".sources"), sources);
    }
    sources = with_suffix(folder.path() / "p", ".sources");
  }
  const VerifyResult verified = verify_dataset_files(folder.path() / "p", 0, 1);
  EXPECT_TRUE(verified.has_checksums);
  EXPECT_THAT(verified.checksum_problems, IsEmpty());
  EXPECT_THAT(verified.structure_problems, IsEmpty());

  const SourceMap map(sources_path(folder.path() / "p"));
  EXPECT_THAT(map.inputs(), ElementsAre("common", "of 300", "of 0", "of 1", "of 77"));
  EXPECT_EQ(map.num_documents(), 378);
  const SourceEntry last = map.entry(377);  // number 76 of the last part: input 0 of it
  EXPECT_EQ(map.inputs()[last.input_idx], "common");
  EXPECT_EQ(last.offset_bytes, 7600);
  EXPECT_EQ(map.inputs()[map.entry(376).input_idx], "of 77");

  const auto manifest = read_dataset_manifest(folder.path() / "p").value();
  EXPECT_EQ(manifest.num_documents, 378);
  const std::string text = with_suffix(folder.path() / "p", ".manifest.json");
  for (const fs::path& part : parts) EXPECT_THAT(text, HasSubstr("\"" + part.string() + "\""));
}

TEST(Merge, OldFilesWithoutDocumentBounds) {
  const TemporaryFolder folder;
  const fs::path a = folder.path() / "a", b = folder.path() / "b", p = folder.path() / "p";
  write_documents(a, {{1, 2}, {3}});
  write_documents(b, {{4}, {}, {5}});
  drop_bounds(a);
  // Old files only: the result has no bounds either, as Megatron's.
  merge(p, {a, a});
  EXPECT_EQ(with_suffix(p, ".idx").size(), 34u + 12 * 4 + 8);
  EXPECT_THAT(verify_dataset(p), IsEmpty());
  // Among others a sequence of an old file is a document.
  merge(p, {a, b, a});
  write_documents(folder.path() / "all", {{1, 2}, {3}, {4}, {}, {5}, {1, 2}, {3}});
  EXPECT_EQ(with_suffix(p, ".idx"), with_suffix(folder.path() / "all", ".idx"));
}

// A list that leaves out every document of the parts with this number modulo 5, or all of part 1.
void write_drop_list(const fs::path& path, const std::vector<fs::path>& parts) {
  DropList list;
  for (const fs::path& part : parts) {
    const int64_t idx = std::ssize(list.datasets);
    list.datasets.push_back(describe_for_drop_list(DatasetReader(part)));
    for (int64_t i = idx == 0 ? 1 : 0; i < list.datasets.back().num_documents; ++i)
      if (idx == 1 || i % 5 == 2 || i % 5 == 3) list.duplicates.push_back({{idx, i}, {0, 0}});
  }
  write_file_atomically(path, to_text(list));
}

TEST(Merge, LeavesOutTheDocumentsOfAList) {
  const TemporaryFolder folder;
  const fs::path p = folder.path() / "p";
  std::vector<Document> kept;
  std::vector<fs::path> parts;
  std::vector<std::pair<std::string, int64_t>> kept_sources;  // name of the input, offset
  for (const int count : {300, 20, 0, 77}) {
    const auto documents = random_documents(static_cast<uint32_t>(count), count);
    parts.push_back(folder.path() / ("part" + std::to_string(parts.size())));
    write_documents(parts.back(), documents);
    write_sources(parts.back(), count, 2, {"common", "of " + std::to_string(count)});
    for (int i = 0; i < count; ++i) {
      if (parts.size() == 2 || i % 5 == 2 || i % 5 == 3) continue;
      kept.push_back(documents[static_cast<size_t>(i)]);
      kept_sources.emplace_back(i % 2 == 0 ? "common" : "of " + std::to_string(count), 100 * i);
    }
  }
  write_documents(folder.path() / "kept", kept);
  MergeConfig config;
  config.prefixes = parts;
  config.output_prefix = p;
  config.overwrite = true;
  config.drop_list = folder.path() / "list";
  write_drop_list(config.drop_list, parts);
  for (const int threads : {1, 3}) {
    config.num_threads = threads;
    const MergeReport report = merge_datasets(config, [] {});
    EXPECT_EQ(report.num_documents, std::ssize(kept));
    EXPECT_EQ(report.num_dropped, 397 - std::ssize(kept));
    for (const char* suffix : {".bin", ".idx"})
      EXPECT_EQ(with_suffix(p, suffix), with_suffix(folder.path() / "kept", suffix));
    const VerifyResult verified = verify_dataset_files(p, 0, 1);
    EXPECT_THAT(verified.checksum_problems, IsEmpty());
    EXPECT_THAT(verified.structure_problems, IsEmpty());
    const SourceMap map(sources_path(p));
    ASSERT_EQ(map.num_documents(), std::ssize(kept));
    for (size_t i = 0; i < kept.size(); ++i) {
      const SourceEntry entry = map.entry(static_cast<int64_t>(i));
      EXPECT_EQ(map.inputs()[entry.input_idx], kept_sources[i].first) << i;
      EXPECT_EQ(entry.offset_bytes, kept_sources[i].second) << i;
    }
  }
  config.overwrite = false;
  EXPECT_TRUE(merge_datasets(config, [] {}).was_there);
  config.drop_list.clear();
  EXPECT_THROW(merge_datasets(config, [] {}), UsageError);
}

TEST(Merge, LeavesOutSequencesOfOldFilesWithoutBounds) {
  const TemporaryFolder folder;
  const fs::path a = folder.path() / "a", b = folder.path() / "b", p = folder.path() / "p";
  write_documents(a, {{1, 2}, {3}, {7}});
  write_documents(b, {{4}, {}, {5}});
  drop_bounds(a);
  MergeConfig config;
  config.output_prefix = p;
  config.overwrite = true;
  config.drop_list = folder.path() / "list";
  config.prefixes = {b, a};
  write_drop_list(config.drop_list, config.prefixes);  // the last one of b, all of a
  merge_datasets(config, [] {});
  write_documents(folder.path() / "kept", {{4}, {}});
  EXPECT_EQ(with_suffix(p, ".idx"), with_suffix(folder.path() / "kept", ".idx"));
  config.prefixes = {a};
  write_drop_list(config.drop_list, config.prefixes);
  merge_datasets(config, [] {});
  EXPECT_EQ(with_suffix(p, ".idx").size(), 34u + 12 * 2 + 8);
  EXPECT_THAT(verify_dataset(p), IsEmpty());
}

TEST(Merge, RefusesAListOfOtherDatasetsAndADamagedOne) {
  const TemporaryFolder folder;
  const fs::path a = folder.path() / "a", b = folder.path() / "b", list = folder.path() / "list";
  write_documents(a, random_documents(1, 20));
  write_documents(b, random_documents(2, 20));
  write_drop_list(list, {a, b});
  EXPECT_EQ(documents_to_drop(list, {a, b}).at(1).size(), 20U);
  EXPECT_THROW(documents_to_drop(list, {b, a}), UsageError);
  EXPECT_THROW(documents_to_drop(list, {a}), UsageError);
  const std::string text = read_file(list);
  for (size_t size = 0; size < text.size(); ++size) {
    write_file_atomically(list, text.substr(0, size));
    if (size + 1 == text.size()) continue;  // without its last line end it is whole
    EXPECT_THROW(read_drop_list(list), std::runtime_error) << size;
  }
  for (const char* line :
       {"duplicate 2 0 0 0", "duplicate 1 20 0 0", "duplicate 0 3 0 3", "duplicate 0 3 0 5",
        "duplicate 0 -1 0 0", "duplicate 0 x 0 0", "what"}) {
    write_file_atomically(list, text.substr(0, text.find("duplicate 0")) + line + "\nend 1\n");
    EXPECT_THROW(read_drop_list(list), std::runtime_error) << line;
  }
}

TEST(Merge, RefusesWhatDoesNotFit) {
  const TemporaryFolder folder;
  const fs::path a = folder.path() / "a", b = folder.path() / "b", p = folder.path() / "p";
  write_documents(a, {{1, 2}, {3}});
  write_dataset<int32_t>(b, TokenType::kInt32, {{5}});
  EXPECT_THAT(merge_error<std::runtime_error>(p, {a, b}),
              HasSubstr("b.idx: its tokens are int32, those of "));
  EXPECT_THAT(merge_error<std::invalid_argument>(a, {b, a}),
              HasSubstr("which the output would replace"));
  fs::create_hard_link(a.string() + ".bin", p.string() + ".bin");
  EXPECT_THAT(merge_error<std::invalid_argument>(p, {a}),
              HasSubstr("which the output would replace"));
  fs::remove(p.string() + ".bin");
  EXPECT_THAT(merge_error<std::system_error>(p, {a, folder.path() / "absent"}),
              HasSubstr("absent.idx"));
  write_documents(b, {{1, 2}, {3}, {4}});
  write_sources(a, 2, 1, {"x"});
  write_sources(b, 2, 1, {"x"});
  EXPECT_THAT(merge_error<std::runtime_error>(p, {a, b}), HasSubstr("sources of 2 documents"));
  fs::remove(sources_path(b));
  EXPECT_THAT(merge(p, {a, b}).notes, ElementsAre(HasSubstr("b.sources is not there")));
  EXPECT_FALSE(fs::exists(sources_path(p)));

  OutputFile(b.string() + ".idx", true).write_at("\x07", 1, 34 + 12);  // an offset
  EXPECT_THAT(merge_error<std::runtime_error>(folder.path() / "q", {a, b}),
              HasSubstr("b.idx: length or offset of sequence 0"));
  EXPECT_FALSE(fs::exists(folder.path() / "q.idx"));
  EXPECT_FALSE(fs::exists(folder.path() / "q.merge"));
}

TEST(Merge, RefusesAPartInTheFolderThatItWouldEmpty) {
  const TemporaryFolder folder;
  const fs::path a = folder.path() / "a", p = folder.path() / "p", begun = p.string() + ".merge";
  write_documents(a, {{1, 2}, {3}});
  fs::create_directory(begun);
  write_file_atomically(begun / "weft-data.merge", "");
  write_documents(begun / "merged", {{4}});
  EXPECT_THAT(merge_error<std::invalid_argument>(p, {a, begun / "merged"}),
              HasSubstr("that this one would remove"));
  EXPECT_THAT(verify_dataset(begun / "merged"), IsEmpty());
}

TEST(Merge, RefusesPartsOfDifferentVocabularies) {
  const TemporaryFolder folder;
  const auto part = [&](const std::string& name, const std::string& sha256) {
    write_documents(folder.path() / name, {{1}});
    write_file_atomically(dataset_manifest_path(folder.path() / name),
                          R"({"vocabulary": {"size": 300, "tokenizer": {"kind": "gpt2", "files":
                              [{"path": "v", "sha256": ")" +
                              sha256 + R"("}, {"path": "m", "sha256": "0"}]}},
                              "input_counts": {"documents": 5, "bad_lines_by_reason": {"blank": 2}},
                              "dataset": {"documents": 1, "tokens": 1}})");
    return folder.path() / name;
  };
  const fs::path p = folder.path() / "p";
  EXPECT_THAT(merge_error<std::runtime_error>(p, {part("a", "1"), part("b", "2")}),
              HasSubstr("names another vocabulary than that of"));
  merge(p, {part("a", "1"), part("b", "1")});
  EXPECT_EQ(read_dataset_manifest(p).value().vocabulary.tokenizer.files[0].sha256, "1");
  const std::string text = with_suffix(p, ".manifest.json");
  EXPECT_THAT(text, HasSubstr("\"blank\": 4"));
  EXPECT_THAT(text, HasSubstr("\"documents\": 10"));
}

// Whatever their order: a token is named for the result only if it ends the documents of all parts.
TEST(Merge, NamesAnEndOfDocumentsThatAllPartsHave) {
  const TemporaryFolder folder;
  const auto part = [&](const std::string& name, const std::string& end, bool is_empty = false) {
    write_documents(folder.path() / name, is_empty ? std::vector<std::vector<uint16_t>>{}
                                                   : std::vector<std::vector<uint16_t>>{{1, 9}});
    if (!end.empty()) {
      write_file_atomically(dataset_manifest_path(folder.path() / name),
                            R"({"vocabulary": {"size": 300, "tokenizer": {"kind": "gpt2", "files":
                                [{"path": "v", "sha256": "1"}, {"path": "m", "sha256": "0"}]},
                                "end_of_document": )" +
                                end + R"(},
                                "dataset": {"documents": 1, "tokens": 2}})");
    }
    return folder.path() / name;
  };
  const fs::path with = part("with", "9"), without = part("without", "null"),
                 unknown = part("unknown", ""), empty = part("empty", "null", true);
  int num = 0;
  const auto end_of = [&](const std::vector<fs::path>& parts) {
    const fs::path out = folder.path() / ("out" + std::to_string(num++));
    const MergeReport report = merge(out, parts);
    const int64_t end = read_dataset_manifest(out).value().vocabulary.end_of_document;
    EXPECT_EQ(std::ranges::count_if(report.notes,
                                    [](const std::string& note) {
                                      return note.find("no token ends all documents") !=
                                             std::string::npos;
                                    }),
              end < 0 && parts.size() > 1 ? 1 : 0);
    return end;
  };
  EXPECT_EQ(end_of({with, with}), 9);
  EXPECT_EQ(end_of({empty, with}), 9);
  EXPECT_EQ(end_of({with, without}), -1);
  EXPECT_EQ(end_of({without, with}), -1);
  EXPECT_EQ(end_of({with, with, unknown}), -1);
  EXPECT_EQ(end_of({without}), -1);
}

// Bounds that begin at 1 would give the first sequence to the document before it.
TEST(Merge, RefusesBoundsThatDoNotCoverTheSequences) {
  const TemporaryFolder folder;
  const fs::path a = folder.path() / "a";
  for (const auto& [bound, value] : {std::pair(0, '\x01'), {2, '\x01'}}) {
    write_documents(a, {{1}, {2, 3}});
    OutputFile(a.string() + ".idx", true).write_at(&value, 1, 34 + 2 * 12 + 8 * bound);
    EXPECT_THAT(merge_error<std::runtime_error>(folder.path() / "out", {a, a}),
                HasSubstr("a.idx: its document bounds go from"));
    EXPECT_FALSE(fs::exists(folder.path() / "out.idx"));
  }
}

// Also if the new part has the times and counts of the old one, or the clock of another computer.
TEST(Merge, ADatasetOfPartsThatWereMadeAnewIsNotThereAlready) {
  const TemporaryFolder folder;
  const fs::path a = folder.path() / "a", p = folder.path() / "p";
  const auto merge_again = [&] {
    MergeConfig config;
    config.prefixes = {a};
    config.output_prefix = p;
    return merge_datasets(config, [] {}).was_there;
  };
  write_documents(a, {{1, 2}, {3}});
  EXPECT_FALSE(merge_again());
  fs::last_write_time(a.string() + ".idx",
                      fs::file_time_type::clock::now() + std::chrono::hours(1));
  EXPECT_TRUE(merge_again());
  write_documents(a, {{1}, {2, 3}});
  fs::last_write_time(a.string() + ".idx",
                      fs::file_time_type::clock::now() - std::chrono::hours(1));
  EXPECT_THROW(merge_again(), std::invalid_argument);
  // The same lengths with other tokens: the tokens tell where there are no checksums, as beside
  // Megatron's.
  write_documents(a, {{1, 2}, {4}});
  EXPECT_THROW(merge_again(), std::invalid_argument);
  write_documents(a, {{1, 2}, {3}});
  EXPECT_TRUE(merge_again());
  // Else the checksums.
  fs::remove(p.string() + ".idx");
  fs::remove(p.string() + ".bin");
  const auto with_checksums = [&](const std::vector<Document>& documents) {
    write_documents(a, documents);
    const std::vector<DatasetFile> files = {{".bin", a.string() + ".bin"},
                                            {".idx", a.string() + ".idx"}};
    write_block_checksums(checksums_path(a), files, 1);
  };
  with_checksums({{1}, {2, 3}});
  EXPECT_FALSE(merge_again());
  EXPECT_TRUE(merge_again());
  with_checksums({{1}, {2, 4}});
  EXPECT_THROW(merge_again(), std::invalid_argument);
}

// A manifest without the hash of a part, or of its .bin, was not written by this version.
TEST(Merge, AManifestOfAnotherVersionDoesNotSayThatAPartWasAnotherOne) {
  const TemporaryFolder folder;
  const fs::path a = folder.path() / "a", p = folder.path() / "p";
  write_documents(a, {{1, 2}, {3}});
  merge(p, {a});
  MergeConfig config;
  config.prefixes = {a};
  config.output_prefix = p;
  for (const char* name : {"bin_xxh3", "xxh3"}) {
    auto json = nlohmann::ordered_json::parse(with_suffix(p, ".manifest.json"));
    ASSERT_EQ(json["parts"][0].erase(name), 1u);
    write_file_atomically(dataset_manifest_path(p), json.dump());
    try {
      merge_datasets(config, [] {});
      FAIL() << name;
    } catch (const std::invalid_argument& error) {
      EXPECT_THAT(error.what(), HasSubstr("manifest is of another version"));
      EXPECT_THAT(error.what(), HasSubstr("give --overwrite"));
    }
  }
}

// The same parts make it anew; others do not replace it unasked.
TEST(Merge, TheBinOfAKilledMergeIsReplacedByOneOfTheSamePartsOnly) {
  const TemporaryFolder folder;
  const fs::path a = folder.path() / "a", b = folder.path() / "b", p = folder.path() / "p";
  write_documents(a, {{1, 2}, {3}});
  write_documents(b, {{4}});
  const auto merge_unasked = [&](const std::vector<fs::path>& parts) {
    MergeConfig config;
    config.prefixes = parts;
    config.output_prefix = p;
    return merge_datasets(config, [] {}).num_documents;
  };
  merge_unasked({a, b});
  const std::string bin = with_suffix(p, ".bin");
  // As after a kill once the .bin had its name.
  const fs::path begun = p.string() + ".merge";
  fs::create_directory(begun);
  write_file_atomically(begun / "weft-data.merge", "");
  for (const char* suffix : {".idx", ".checksums", ".manifest.json"})
    fs::rename(p.string() + suffix, begun / (std::string("merged") + suffix));
  EXPECT_THROW(merge_unasked({b}), std::invalid_argument);
  EXPECT_EQ(with_suffix(p, ".bin"), bin);
  EXPECT_EQ(merge_unasked({a, b}), 3);
  EXPECT_EQ(with_suffix(p, ".bin"), bin);
  EXPECT_FALSE(fs::exists(begun));
}

TEST(Merge, ADamagedPartEndsIt) {
  const TemporaryFolder folder;
  const fs::path a = folder.path() / "a", b = folder.path() / "b", out = folder.path() / "out";
  write_documents(a, random_documents(1, 40));
  write_documents(b, random_documents(2, 30));
  for (const char* suffix : {".bin", ".idx"}) {
    const fs::path damaged = b.string() + suffix;
    const std::vector<DatasetFile> files = {{".bin", b.string() + ".bin"},
                                            {".idx", b.string() + ".idx"}};
    write_block_checksums(checksums_path(b), files, 1);
    const std::string whole = read_file(damaged);
    std::string bytes = whole;
    bytes[suffix == std::string(".idx") ? 34 : bytes.size() - 3] ^= 1;  // a length, a token
    write_file_atomically(damaged, bytes);
    EXPECT_THAT(merge_error<ChecksumMismatch>(out, {a, b}),
                HasSubstr("the part " + b.string() + " is damaged"))
        << suffix;
    EXPECT_FALSE(fs::exists(out.string() + ".idx"));
    write_file_atomically(damaged, whole);
    merge(out, {a, b});
    fs::remove(out.string() + ".idx");
  }
}

TEST(Merge, CopiesThePartsThatItHasOpenedThoughOthersTakeTheirNames) {
  const TemporaryFolder folder;
  const fs::path a = folder.path() / "a", b = folder.path() / "b", out = folder.path() / "out";
  write_documents(a, random_documents(1, 40));
  write_documents(b, random_documents(2, 400));
  const std::string bin = with_suffix(a, ".bin"), idx = with_suffix(a, ".idx");
  const PairMerge pairs({a});
  for (const char* suffix : {".bin", ".idx"}) fs::rename(b.string() + suffix, a.string() + suffix);
  const auto see = [](size_t, int64_t, std::span<const std::byte>) {};
  const auto [bin_crc, idx_crc] = pairs.write(out.string() + ".bin", out.string() + ".idx", 1, see);
  EXPECT_EQ(with_suffix(out, ".bin"), bin);
  EXPECT_EQ(with_suffix(out, ".idx"), idx);
  EXPECT_EQ(bin_crc, Crc32::of(std::as_bytes(std::span(bin))));
  EXPECT_EQ(idx_crc, Crc32::of(std::as_bytes(std::span(idx))));
}

TEST(Merge, SaysHowMuchRoomIsMissing) {
  const TemporaryFolder folder;
  try {
    require_free_space(folder.path() / "x", INT64_MAX);
    FAIL() << "there is room for everything";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code().value(), ENOSPC);
    EXPECT_THAT(error.what(), HasSubstr("needs 9223372036854775807 bytes"));
    EXPECT_THAT(error.what(), HasSubstr("free"));
  }
  EXPECT_NO_THROW(require_free_space(folder.path() / "x", 1));
}

// Two parts with sources, an older dataset under the output's name, and what a merge makes of it.
class FailingMerge : public ::testing::Test {
 protected:
  FailingMerge() {
    write_documents(a_, random_documents(1, 40));
    write_documents(b_, random_documents(2, 30));
    write_sources(a_, 40, 1, {"x"});
    write_sources(b_, 30, 1, {"y"});
    merge(folder_.path() / "want", {a_, b_}, 1);
    reset();
  }
  void reset() {
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      if (entry.path().filename().string().starts_with("p.")) fs::remove_all(entry.path());
    }
    write_documents(p_, {{9, 9, 9}});
  }
  bool is_whole() const {
    for (const char* suffix : {".bin", ".idx", ".sources", ".checksums"}) {
      const fs::path name = p_.string() + suffix;
      if (!fs::exists(name) || read_file(name) != with_suffix(folder_.path() / "want", suffix))
        return false;
    }
    return fs::exists(dataset_manifest_path(p_));
  }
  // Whatever happened: with an .idx there is a whole dataset, the old or the new one.
  void expect_nothing_looks_complete(const std::string& when) {
    if (!fs::exists(p_.string() + ".idx")) return;
    EXPECT_TRUE(is_whole() || (with_suffix(p_, ".bin") == std::string("\x09\0\x09\0\x09\0", 6) &&
                               verify_dataset(p_).empty()))
        << when;
  }
  std::vector<std::string> part_files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      if (entry.path().extension() == ".merge") names.push_back(entry.path().filename().string());
    }
    return names;
  }

  const TemporaryFolder folder_{memory_folder()};
  const fs::path a_ = folder_.path() / "a", b_ = folder_.path() / "b", p_ = folder_.path() / "p";
};

TEST_F(FailingMerge, AnyCallThatFailsLeavesOldOrNothing) {
  int64_t num_calls = 0;
  for (int64_t n = 1;; ++n, ++num_calls) {
    reset();
    set_io_fault(n, EIO);
    bool failed = false;
    try {
      merge(p_, {a_, b_}, 1);
    } catch (const std::system_error& error) {
      failed = true;
      EXPECT_EQ(error.code().value(), EIO);
    }
    set_io_fault(0, 0);
    const std::string when = "call " + std::to_string(n);
    expect_nothing_looks_complete(when);
    EXPECT_THAT(part_files(), IsEmpty()) << when;
    if (!failed) break;
    merge(p_, {a_, b_}, 1);
    EXPECT_TRUE(is_whole()) << when;
  }
  EXPECT_TRUE(is_whole());
  EXPECT_GT(num_calls, 50);
}

TEST_F(FailingMerge, ALostWriteIsNeverSound) {
  int64_t num_lost = 0;
  const int64_t before = num_io_calls();
  merge(p_, {a_, b_}, 1);
  const int64_t num_calls = num_io_calls() - before;
  for (int64_t n = 1; n <= num_calls; ++n) {
    reset();
    set_io_fault(n, kIoFaultLosesPage);
    bool failed = false;
    try {
      merge(p_, {a_, b_}, 1);
    } catch (const ChecksumMismatch&) {
      failed = true;
      ++num_lost;
      EXPECT_THAT(part_files(), IsEmpty()) << n;
    }
    set_io_fault(0, 0);
    io_call::is_made_to_lose_page();  // the fault of a call that was no write waits for one
    if (failed) continue;
    for (const char* suffix : {".bin", ".idx", ".sources"}) {
      EXPECT_EQ(with_suffix(p_, suffix), with_suffix(folder_.path() / "want", suffix))
          << n << suffix;
    }
  }
  // The two pieces of .bin; lengths, offsets and bounds of two parts, header and first bound of
  // .idx; entries, list of inputs and header of .sources.
  EXPECT_GE(num_lost, 2 + 8 + 3);
}

TEST_F(FailingMerge, KilledAtAnyCallItLeavesOldOrNothingAndCanBeRepeated) {
  for (int64_t n = 1;; ++n) {
    reset();
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      set_io_fault(n, kIoFaultKills);
      merge(p_, {a_, b_}, 1);
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    const std::string when = "call " + std::to_string(n);
    expect_nothing_looks_complete(when);
    if (WIFEXITED(status)) {
      EXPECT_EQ(WEXITSTATUS(status), 0);
      break;
    }
    ASSERT_EQ(WTERMSIG(status), SIGKILL);
    merge(p_, {a_, b_}, 1);
    EXPECT_TRUE(is_whole()) << when;
    EXPECT_THAT(part_files(), IsEmpty()) << when;
  }
  EXPECT_TRUE(is_whole());
}

TEST_F(FailingMerge, StopsWhenAsked) {
  struct Stop {};
  MergeConfig config;
  config.prefixes = {a_, b_};
  config.output_prefix = p_;
  config.num_threads = 2;
  config.overwrite = true;
  for (int n = 0; n < 7; ++n) {
    std::atomic<int> calls{0};
    EXPECT_THROW(merge_datasets(config,
                                [&] {
                                  if (calls++ == n) throw Stop{};
                                }),
                 Stop);
    EXPECT_THAT(part_files(), IsEmpty());
    expect_nothing_looks_complete("stop " + std::to_string(n));
  }
}

}  // namespace
}  // namespace weft
