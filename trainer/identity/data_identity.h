// Ties a run to the bytes that it reads. Checkpoints and run manifests hold the identity of the
// datasets and of their vocabulary, so that a dataset which was replaced under the same name, or a
// vocabulary of equal size with other entries, is noticed; and the blends of the datasets, so that
// a file which names them is not needed again.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "indexed_dataset/format/soundness/dataset_identity.h"
#include "indexed_dataset/order/blends/data_paths.h"
#include "trainer/identity/run_vocabulary.h"

namespace weft {

struct DataIdentity {
  std::vector<DatasetIdentity> datasets;
  RunVocabulary vocabulary;
  std::string unsee_sha256 = {};  // of the file of --unsee; "" without one
  // The datasets that the options, and the files which they name, named when the run began. There
  // is none in imported weights.
  SplitBlends blends = {};

  bool has_blends() const { return !blends.prefixes().empty(); }
};

// {"datasets": [...], "vocabulary": {...}, "blends": {...}}. from_json() throws std::runtime_error
// or a JSON exception for anything else.
nlohmann::ordered_json to_json(const DataIdentity& data);
DataIdentity data_identity_from_json(const nlohmann::ordered_json& json);

// The differences between the data of a checkpoint and that of the run which loads it.
struct DataDifferences {
  // The bytes under one name were replaced, or the vocabulary is another one.
  std::vector<std::string> refused;  // or other tokens end documents, which nobody asked for
  std::vector<std::string> allowed;  // the run was told to go on with another dataset
};
// `config` is the loading run's: the token that ends documents matters where options look for it,
// and a change of it is allowed where --eod-token-id asks for it.
DataDifferences compare_data(const DataIdentity& saved, const DataIdentity& ours,
                             const Config& config);

// Notices that the files of a dataset are changed while a run reads them.
class DatasetWatch {
 public:
  // Identifies the dataset. Throws as identify_dataset(), std::system_error if a file is not there.
  explicit DatasetWatch(const std::filesystem::path& prefix);
  const DatasetIdentity& identity() const { return identity_; }
  // Throws std::runtime_error if a file is another one, or was written to, since the dataset was
  // identified. A run calls it when it has opened the files: those that it reads are then the
  // identified ones.
  void check_untouched() const;
  // Throws std::runtime_error if the files were written to and their bytes differ, and
  // std::system_error if one was made shorter. Returns a warning, once, if other files took their
  // place: the run still reads the old ones; and if a .bin was written to that is too large to be
  // compared as a whole.
  std::string check();

 private:
  struct File {
    std::filesystem::path path;
    struct stat status {};
    bool is_lost = false;  // other files took its place, or none
  };
  std::vector<File> files_;
  DatasetIdentity identity_;
};

// The watches of all datasets of a run.
class DataWatch {
 public:
  // Identifies the datasets, several at a time.
  explicit DataWatch(const std::vector<std::string>& prefixes);
  std::vector<DatasetIdentity> identities() const;
  void check_untouched() const;
  // As DatasetWatch::check(), for all of them; the warnings are lines.
  std::vector<std::string> check();

 private:
  std::vector<std::unique_ptr<DatasetWatch>> watches_;
};

}  // namespace weft
