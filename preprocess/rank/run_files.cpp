#include "preprocess/rank/run_files.h"

#include <array>
#include <random>
#include <span>
#include <string>
#include <utility>

#include "indexed_dataset/base/process/crash_point.h"
#include "indexed_dataset/base/storage/file_io.h"
#include "indexed_dataset/format/sidecars/source_map.h"
#include "preprocess/rank/spill_file.h"

namespace weft {
namespace {

using Output = Batch::Output;

// Random bits of the kernel.
int64_t random_process_id() {
  std::random_device device;
  return static_cast<int64_t>((uint64_t{device()} << 32 | device()) >> 1);
}

SpillHeader header_of(const Output& output) {
  return {output.token_bytes().size(), output.sequence_lengths.size(),
          output.document_sequences.size()};
}

}  // namespace

RunFiles::Dataset::Dataset(const RunFiles& files, size_t k, TokenType type, bool make)
    : pair(files.path_of(k, ".bin"), files.path_of(k, ".idx"), files.path_of(k, ".bounds"), type,
           make),
      sources(make ? OutputFile(files.path_of(k, ".sources"), /*keep=*/true)
                   : OutputFile::existing(files.path_of(k, ".sources"))) {}

RunFiles::RunFiles(std::filesystem::path folder, size_t num_datasets, TokenType type, bool make,
                   bool has_origins)
    : folder_(std::move(folder)),
      type_(type),
      has_origins_(has_origins),
      process_id_(random_process_id()) {
  for (size_t k = 0; k < num_datasets; ++k) {
    datasets_.push_back(std::make_unique<Dataset>(*this, k, type, make));
  }
}

bool RunFiles::are_there(const std::filesystem::path& folder, size_t num_datasets) {
  for (size_t k = 0; k < num_datasets; ++k) {
    for (const char* suffix : {".bin", ".idx", ".bounds", ".sources"}) {
      if (!std::filesystem::exists(path_in(folder, k, suffix))) return false;
    }
  }
  return true;
}

void RunFiles::write(const TaskOffset& before, int32_t input_idx,
                     const std::vector<Output>& outputs) {
  for (size_t k = 0; k < outputs.size(); ++k) {
    const Output& output = outputs[k];
    datasets_[k]->pair.write(before.datasets.at(k), output.token_bytes(), output.sequence_lengths,
                             output.document_sequences);
    write_sources(k, before, input_idx, output);
  }
}

void RunFiles::write_sources(size_t k, const TaskOffset& before, int32_t input_idx,
                             const Output& output) {
  std::vector<std::byte> entries;
  for (size_t i = 0; i < output.locators.size(); ++i) {
    append_source_entry(
        entries,
        {static_cast<uint32_t>(input_idx), before.num_input_bytes + output.locators[i],
         has_origins_ ? output.origins.at(i) : Origin{}},
        has_origins_);
  }
  crash_point("pair_placed");
  if (entries.empty()) return;
  datasets_[k]->sources.write_at(
      entries.data(), entries.size(),
      source_entry_at(before.datasets.at(k).num_documents, has_origins_));
}

int64_t RunFiles::spill_size(const std::vector<Output>& outputs) {
  uint64_t size_bytes = 0;
  for (const Output& output : outputs) {
    size_bytes += sizeof(SpillHeader) + header_of(output).size_bytes(!output.origins.empty());
  }
  return static_cast<int64_t>(size_bytes);
}

void RunFiles::spill(int64_t task, int64_t offset_bytes, const std::vector<Output>& outputs) {
  const auto file = spill_file(task);
  const auto write = [&](const auto& values) {
    const auto bytes = std::as_bytes(std::span(values));
    if (!bytes.empty()) file->write_at(bytes.data(), bytes.size(), offset_bytes);
    offset_bytes += std::ssize(bytes);
  };
  for (const Output& output : outputs) {
    write(std::array{header_of(output)});
    write(output.token_bytes());
    write(output.sequence_lengths);
    write(output.document_sequences);
    write(output.locators);
    write(output.origins);
  }
  crash_point("spilled");
}

void RunFiles::unspill(int64_t task, const std::vector<SpillFile>& spill, const TaskOffset& offset,
                       int32_t input_idx) {
  TaskOffset before = offset;
  Output output;
  for (const SpillFile& file : spill) {
    SpillReader reader(spill_path(folder_, task, file.process_id), file.num_bytes, type_,
                       has_origins_);
    while (!reader.at_end()) {
      for (size_t k = 0; k < datasets_.size(); ++k) {
        const DatasetCounts counts = reader.copy(before.datasets[k], datasets_[k]->pair, output);
        write_sources(k, before, input_idx, output);
        before.datasets[k].add(counts);
      }
      crash_point("batch_unspilled");
    }
  }
}

void RunFiles::close_spill(int64_t task) {
  const std::lock_guard lock(mutex_);
  spills_.erase(task);
}

std::shared_ptr<OutputFile> RunFiles::spill_file(int64_t task) {
  const std::lock_guard lock(mutex_);
  if (const auto found = spills_.find(task); found != spills_.end()) return found->second;
  const auto file =
      std::make_shared<OutputFile>(spill_path(folder_, task, process_id_), /*keep=*/true);
  has_new_files_ = true;
  spills_[task] = file;
  return file;
}

void RunFiles::sync() {
  // First of all: a spill file that is closed while the others are synced holds what was written
  // before the call, too.
  std::vector<std::shared_ptr<OutputFile>> spills;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [task, file] : spills_) spills.push_back(file);
  }
  for (const auto& dataset : datasets_) {
    dataset->pair.sync();
    dataset->sources.sync();
  }
  crash_point("datasets_synced");
  for (const auto& file : spills) file->sync();
  if (has_new_files_.exchange(false)) sync_folder(folder_);
  crash_point("files_synced");
}

DatasetFrame RunFiles::prepare(size_t k, const DatasetCounts& total,
                               const std::vector<std::string>& input_names,
                               const InputParts& input_parts, const Locators& locators) {
  Dataset& dataset = *datasets_.at(k);
  dataset.pair.prepare(total);
  dataset.pair.sync();
  crash_point("pair_prepared");
  const int64_t footer_at = source_entry_at(total.num_documents, has_origins_);
  dataset.sources.truncate(footer_at);
  seal_source_map(path_of(k, ".sources"), total.num_documents, input_names, input_parts,
                  has_origins_, locators);
  const auto frame =
      source_map_frame(total.num_documents, input_names, input_parts, has_origins_, locators);
  dataset.sources.truncate(footer_at + std::ssize(frame.footer));  // a lost footer reads as zeros
  const auto crc_of = [](const std::string& text) {
    return Crc32::of(std::as_bytes(std::span(text)));
  };
  return {crc_of(SharedPairWriter::index_header(total, type_)), crc_of(frame.header),
          crc_of(frame.footer)};
}

}  // namespace weft
