#include "indexed_dataset/run_record/manifest_checksum.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "indexed_dataset/base/process/exit_code.h"
#include "indexed_dataset/format/soundness/xxh3.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

// JSON cannot hold a path that is not UTF-8; such bytes are replaced.
std::string checksum_of(const Json& members) {
  const std::string text = members.dump(-1, ' ', false, Json::error_handler_t::replace);
  return fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()));
}

}  // namespace

void add_checksum(Json& manifest) { manifest["checksum"] = checksum_of(manifest); }

void take_checksum(Json& manifest, const std::filesystem::path& path, std::string_view hint) {
  if (!manifest.contains("checksum"))
    throw std::runtime_error(fmt::format(
        "{}: it has no checksum, which every run of this version writes; {}", path.string(), hint));
  const std::string stored = manifest.at("checksum").get<std::string>();
  manifest.erase("checksum");
  const std::string found = checksum_of(manifest);
  if (found == stored) return;
  throw ChecksumMismatch(fmt::format(
      "{}: the manifest was changed since it was written (checksum {} expected, {} found); {}",
      path.string(), stored, found, hint));
}

}  // namespace weft
