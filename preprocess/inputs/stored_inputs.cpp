#include "preprocess/inputs/stored_inputs.h"

#include <fmt/format.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "indexed_dataset/base/process/parse_json.h"
#include "preprocess/stores/find_store.h"

namespace weft {
namespace {

using Json = nlohmann::json;

// Throws where no file is an input.
FilesOfName inputs_among(const std::string& name, const StoredFiles& stored, InputFormat format) {
  FilesOfName files;
  for (const StoredFile& file : stored.files) {
    const bool is_input = !file.is_of_folder || is_input_path(file.address, format);
    (is_input ? files.paths : files.passed).insert(file.address);
  }
  if (!files.paths.empty()) return files;
  std::string why = stored.files.empty() ? "no file fits the pattern"
                                         : "no file in it has the name of an input: " +
                                               describe(input_names(format));
  if (!stored.hint.empty()) why += "; " + stored.hint;
  throw std::system_error(ENOENT, std::generic_category(),
                          fmt::format("cannot read '{}' ({})", name, why));
}

}  // namespace

const FilesOfName& StoredInputs::files_of(const std::string& name, InputFormat format) {
  if (const auto known = files_.find(name); known != files_.end()) return known->second;
  const RemoteStore* store = find_store(name);
  store->check(name);
  std::unique_ptr<RemoteLister>& lister = listers_[store];
  if (!lister) lister = store->make_lister(options_, cancelled_);
  return files_.emplace(name, inputs_among(name, lister->list(name), format)).first->second;
}

std::string StoredInputs::to_text() const {
  Json json = Json::object();
  for (const auto& [name, files] : files_) json[name] = {files.paths, files.passed};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void StoredInputs::take_text(const std::string& text) {
  const Json listed = parse_json<Json>(text);
  for (const auto& [name, files] : listed.items()) files_[name] = {files.at(0), files.at(1)};
}

}  // namespace weft
