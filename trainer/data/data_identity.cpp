#include "trainer/data/data_identity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>

#include "indexed_dataset/soundness/block_checksums.h"
#include "indexed_dataset/soundness/xxh3.h"
#include "indexed_dataset/storage/file_io.h"

namespace weft {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int64_t kPieceBytes = 1 << 20;
constexpr int64_t kMaxPieces = 64;

// Returns the XXH3 of `num_pieces` pieces at equal distances; they cover the whole file where it
// has no more bytes.
uint64_t xxh3_of_pieces(const InputFile& file, int64_t num_pieces) {
  XXH3_state_t hash;
  XXH3_64bits_reset(&hash);
  std::vector<char> piece(static_cast<size_t>(std::min(kPieceBytes, file.size_bytes())));
  const int64_t last_begin = std::max<int64_t>(0, file.size_bytes() - kPieceBytes);
  for (int64_t i = 0; i < num_pieces; ++i) {
    const bool whole = num_pieces * kPieceBytes >= file.size_bytes();
    // The product of a number below 2^53 and one below 64 fits.
    const int64_t begin = whole ? i * kPieceBytes : last_begin * i / (num_pieces - 1);
    const int64_t end = std::min(begin + kPieceBytes, file.size_bytes());
    if (begin >= end) break;
    file.read_at(piece.data(), static_cast<size_t>(end - begin), begin);
    XXH3_64bits_update(&hash, piece.data(), static_cast<size_t>(end - begin));
  }
  return XXH3_64bits_digest(&hash);
}

int64_t num_pieces_of(const InputFile& file) {
  return (file.size_bytes() + kPieceBytes - 1) / kPieceBytes;
}

// Constant-time opening (DatasetReader) checks the last sequence only. A run reads all lengths
// anyway, to make its samples.
void check_offsets(const DatasetReader& reader) {
  const int64_t token_bytes = size_bytes(reader.token_type());
  int64_t expected = 0;
  for (int64_t i = 0; i < reader.num_sequences(); ++i) {
    if (reader.length(i) < 0 || reader.offset_bytes(i) != expected) {
      throw std::runtime_error(fmt::format(
          "{}.idx: sequence {} has {} tokens from byte {} on, but the sequences before it end at "
          "byte {}: the index is damaged; weft-data verify tells more, weft-data repair may make "
          "it again",
          reader.prefix().string(), i, reader.length(i), reader.offset_bytes(i), expected));
    }
    expected += reader.length(i) * token_bytes;
  }
}

std::optional<uint64_t> xxh3_of_blocks(const fs::path& prefix, int64_t bin_bytes) {
  const auto checksums = read_block_checksums(checksums_path(prefix));
  if (!checksums) return std::nullopt;
  for (const FileChecksums& file : *checksums) {
    if (file.suffix != ".bin" || file.size_bytes != bin_bytes) continue;
    return XXH3_64bits(file.blocks.data(), file.blocks.size() * sizeof(uint64_t));
  }
  return std::nullopt;
}

Json hex(uint64_t value) { return fmt::format("{:016x}", value); }

uint64_t from_hex(const Json& json) {
  const auto text = json.get<std::string>();
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc{} || end != text.data() + text.size())
    throw std::runtime_error("bad checksum " + text);
  return value;
}

void add_dataset_differences(const DatasetIdentity& saved, const DatasetIdentity& ours,
                             DataDifferences& differences) {
  if (same_bytes(saved, ours)) return;
  if (saved.prefix == ours.prefix) {
    differences.refused.push_back(fmt::format(
        "the dataset {} was replaced or changed: the checkpoint was trained on {}, and there are "
        "{} now; put the old files back, give the new ones a name of their own, or start from the "
        "weights alone with --finetune",
        ours.prefix, describe(saved), describe(ours)));
    return;
  }
  differences.allowed.push_back(
      fmt::format("the dataset was {} with {} when the checkpoint was saved and is {} with {} now: "
                  "samples from here on are others than without the change",
                  saved.prefix, describe(saved), ours.prefix, describe(ours)));
}

void add_vocabulary_differences(const RunVocabulary& saved, const RunVocabulary& ours,
                                DataDifferences& differences) {
  const auto compare = [&](const std::string& saved_sha256, const std::string& saved_file,
                           const std::string& our_sha256, const std::string& our_file) {
    if (saved_sha256.empty() || our_sha256.empty() || saved_sha256 == our_sha256) return;
    differences.refused.push_back(fmt::format(
        "the vocabulary is another one: the checkpoint's data was made with {} (SHA-256 {}), this "
        "run's with {} (SHA-256 {}), so the same token ids stand for other text",
        saved_file, saved_sha256, our_file, our_sha256));
  };
  compare(saved.vocab_sha256, saved.vocab_file, ours.vocab_sha256, ours.vocab_file);
  compare(saved.merge_sha256, saved.merge_file, ours.merge_sha256, ours.merge_file);
}

}  // namespace

bool same_bytes(const DatasetIdentity& a, const DatasetIdentity& b) {
  if (a.blocks_xxh3 && b.blocks_xxh3 && *a.blocks_xxh3 != *b.blocks_xxh3) return false;
  return a.num_documents == b.num_documents && a.num_sequences == b.num_sequences &&
         a.num_tokens == b.num_tokens && a.bin_bytes == b.bin_bytes && a.idx_xxh3 == b.idx_xxh3 &&
         a.bin_xxh3 == b.bin_xxh3;
}

std::string describe(const DatasetIdentity& dataset) {
  return fmt::format("{} documents, {} tokens (XXH3 of .idx {:016x}, of .bin {:016x})",
                     dataset.num_documents, dataset.num_tokens, dataset.idx_xxh3, dataset.bin_xxh3);
}

DatasetIdentity identify_dataset(const fs::path& prefix) {
  const DatasetReader reader(prefix);
  check_offsets(reader);
  const InputFile idx(prefix.string() + ".idx"), bin(prefix.string() + ".bin");
  DatasetIdentity identity;
  identity.prefix = fs::weakly_canonical(prefix).string();
  identity.num_documents = reader.num_documents();
  identity.num_sequences = reader.num_sequences();
  identity.num_tokens = reader.num_tokens();
  identity.bin_bytes = bin.size_bytes();
  identity.idx_xxh3 = xxh3_of_pieces(idx, num_pieces_of(idx));
  identity.bin_xxh3 = xxh3_of_pieces(bin, std::min(kMaxPieces, num_pieces_of(bin)));
  identity.blocks_xxh3 = xxh3_of_blocks(prefix, bin.size_bytes());
  return identity;
}

Json to_json(const DataIdentity& data) {
  Json datasets = Json::array();
  for (const DatasetIdentity& dataset : data.datasets) {
    Json json = {{"prefix", dataset.prefix},           {"documents", dataset.num_documents},
                 {"sequences", dataset.num_sequences}, {"tokens", dataset.num_tokens},
                 {"bin_bytes", dataset.bin_bytes},     {"idx_xxh3", hex(dataset.idx_xxh3)},
                 {"bin_xxh3", hex(dataset.bin_xxh3)}};
    if (dataset.blocks_xxh3) json["blocks_xxh3"] = hex(*dataset.blocks_xxh3);
    datasets.push_back(std::move(json));
  }
  const RunVocabulary& vocabulary = data.vocabulary;
  return {{"datasets", datasets},
          {"vocabulary",
           {{"size", vocabulary.num_tokens},
            {"source", vocabulary.source},
            {"vocab_file", vocabulary.vocab_file},
            {"vocab_sha256", vocabulary.vocab_sha256},
            {"merge_file", vocabulary.merge_file},
            {"merge_sha256", vocabulary.merge_sha256}}}};
}

DataIdentity data_identity_from_json(const Json& json) {
  DataIdentity data;
  for (const Json& dataset : json.at("datasets")) {
    DatasetIdentity& identity = data.datasets.emplace_back();
    dataset.at("prefix").get_to(identity.prefix);
    dataset.at("documents").get_to(identity.num_documents);
    dataset.at("sequences").get_to(identity.num_sequences);
    dataset.at("tokens").get_to(identity.num_tokens);
    dataset.at("bin_bytes").get_to(identity.bin_bytes);
    identity.idx_xxh3 = from_hex(dataset.at("idx_xxh3"));
    identity.bin_xxh3 = from_hex(dataset.at("bin_xxh3"));
    if (dataset.contains("blocks_xxh3")) identity.blocks_xxh3 = from_hex(dataset["blocks_xxh3"]);
  }
  const Json& vocabulary = json.at("vocabulary");
  vocabulary.at("size").get_to(data.vocabulary.num_tokens);
  vocabulary.at("source").get_to(data.vocabulary.source);
  vocabulary.at("vocab_file").get_to(data.vocabulary.vocab_file);
  vocabulary.at("vocab_sha256").get_to(data.vocabulary.vocab_sha256);
  vocabulary.at("merge_file").get_to(data.vocabulary.merge_file);
  vocabulary.at("merge_sha256").get_to(data.vocabulary.merge_sha256);
  return data;
}

DataDifferences compare_data(const DataIdentity& saved, const DataIdentity& ours) {
  DataDifferences differences;
  // Imported weights and checkpoints of version 0.1 know no dataset.
  for (size_t i = 0; i < std::min(saved.datasets.size(), ours.datasets.size()); ++i)
    add_dataset_differences(saved.datasets[i], ours.datasets[i], differences);
  add_vocabulary_differences(saved.vocabulary, ours.vocabulary, differences);
  return differences;
}

// The files are looked at before their bytes are, so that a change in between is noticed later.
DatasetWatch::DatasetWatch(const fs::path& prefix)
    : files_{{prefix.string() + ".idx"}, {prefix.string() + ".bin"}} {
  for (File& file : files_) {
    // A file that is not there gets the better message of DatasetReader.
    file.is_lost = ::stat(file.path.c_str(), &file.status) != 0;
  }
  identity_ = identify_dataset(prefix);
}

std::string DatasetWatch::check() {
  std::string warning;
  for (File& file : files_) {
    if (file.is_lost) continue;
    const struct stat before = file.status;
    struct stat now {};
    const bool is_there = ::stat(file.path.c_str(), &now) == 0;
    file.is_lost = !is_there || now.st_ino != before.st_ino || now.st_dev != before.st_dev;
    if (file.is_lost) {
      warning += fmt::format(
          "{} was {} while this run reads it; the run goes on with the old file, and can only be "
          "resumed with that file in its place",
          file.path.string(), is_there ? "replaced by another file" : "removed");
      continue;
    }
    file.status = now;
    if (now.st_size == before.st_size && now.st_mtim.tv_sec == before.st_mtim.tv_sec &&
        now.st_mtim.tv_nsec == before.st_mtim.tv_nsec) {
      continue;
    }
    if (now.st_size < before.st_size) {
      // A read behind the new end would say the same (bus_error.h): which of the two comes first is
      // chance.
      throw std::system_error(
          EIO, std::generic_category(),
          fmt::format("'{}' was made shorter while it was read; restore it, then run the same "
                      "command again",
                      file.path.string()));
    }
    const DatasetIdentity found = identify_dataset(identity_.prefix);
    if (same_bytes(found, identity_)) continue;
    throw std::runtime_error(
        fmt::format("{} was changed while this run read it: it began with {}, and there are {} now",
                    file.path.string(), describe(identity_), describe(found)));
  }
  return warning;
}

}  // namespace weft
