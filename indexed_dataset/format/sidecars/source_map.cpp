#include "indexed_dataset/format/sidecars/source_map.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>

#include "indexed_dataset/base/process/json_integer.h"
#include "indexed_dataset/base/process/parse_json.h"
#include "indexed_dataset/base/storage/little_endian.h"
#include "indexed_dataset/base/terminal/terminal_text.h"
#include "indexed_dataset/format/pair/reader.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

// A part has at most 9 PB, so that a thousand of them can be added up.
constexpr int64_t kMaxPartBytes = int64_t{1} << 53;

[[noreturn]] void throw_bad(const std::filesystem::path& path, const std::string& what) {
  // Training does without the map: a damaged one must not cost a new dataset.
  throw std::runtime_error(path.string() + ": " + what + "; " + kSourcesHint);
}

Json part_json(const InputPart& part) {
  return {{"file_begin", part.file_begin},
          {"file_end", part.file_end},
          {"file_bytes", part.file_bytes},
          {"num_bytes", part.num_bytes},
          {"counts_from_input", part.counts_from_input}};
}

InputPart part_of(const Json& json) {
  InputPart part;
  part.file_begin = json_integer_at(json, "file_begin");
  part.file_end = json_integer_at(json, "file_end");
  part.file_bytes = json_integer_at(json, "file_bytes");
  part.num_bytes = json_integer_at(json, "num_bytes");
  part.counts_from_input = json.at("counts_from_input").get<bool>();
  // A pipe, which is read to its end, has -1.
  if (part.file_begin < 0 || part.file_end < -1 || part.file_bytes < -1 || part.num_bytes < 0 ||
      std::max({part.file_begin, part.file_end, part.file_bytes, part.num_bytes}) > kMaxPartBytes) {
    throw std::runtime_error("a part has a size that none has");
  }
  return part;
}

constexpr const char* kLocatorNames[] = {"byte", "row"};

Locator locator_of(const std::string& name) {
  const auto* const found = std::find(std::begin(kLocatorNames), std::end(kLocatorNames), name);
  if (found == std::end(kLocatorNames)) throw std::runtime_error("no locator is called " + name);
  return static_cast<Locator>(found - std::begin(kLocatorNames));
}

std::vector<std::string> parse_footer(std::string_view text, uint64_t num_inputs,
                                      const std::filesystem::path& path, InputParts& parts,
                                      Locators& locators) {
  std::vector<std::string> inputs;
  try {
    const Json footer = parse_json<Json>(text);
    for (const Json& input : footer.at("inputs")) {
      inputs.push_back(input.at("path").get<std::string>());
      locators.push_back(locator_of(input.at("locator").get<std::string>()));
      parts.emplace_back();
      if (input.contains("part")) parts.back() = part_of(input["part"]);
    }
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    throw_bad(path, std::string("the list of inputs at its end is damaged: ") + error.what());
  }
  if (inputs.size() != num_inputs) {
    throw_bad(path, "the header (byte 24) says " + std::to_string(num_inputs) +
                        " inputs, the list at the end holds " + std::to_string(inputs.size()));
  }
  return inputs;
}

}  // namespace

std::filesystem::path sources_path(const std::filesystem::path& prefix) {
  return prefix.string() + ".sources";
}

void append_source_entry(std::vector<std::byte>& bytes, const SourceEntry& entry,
                         bool has_origins) {
  const size_t at = bytes.size();
  bytes.resize(at + static_cast<size_t>(source_entry_bytes(has_origins)));
  store_number(bytes.data() + at, entry.input_idx);
  store_number(bytes.data() + at + 4, static_cast<uint64_t>(entry.offset_bytes));
  if (has_origins) store_number(bytes.data() + at + 12, entry.origin.bytes);
}

void subtract_from_source_offset(std::byte* entry, int64_t num_bytes) {
  store_number(entry + 4, load_number<uint64_t>(entry + 4) - static_cast<uint64_t>(num_bytes));
}

SourceMapFrame source_map_frame(int64_t num_documents, const std::vector<std::string>& inputs,
                                const InputParts& parts, bool has_origins,
                                const Locators& locators) {
  Json list = Json::array();
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Locator locator = locators.empty() ? Locator::kByte : locators.at(i);
    list.push_back({{"path", inputs[i]}, {"locator", kLocatorNames[static_cast<size_t>(locator)]}});
    if (i < parts.size() && parts[i]) list.back()["part"] = part_json(*parts[i]);
  }
  const Json footer = {{"inputs", list}};
  // Names may hold any bytes: those that are not UTF-8 are replaced, not refused.
  const std::string text = footer.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";

  std::byte header[kSourceHeaderBytes] = {};
  std::memcpy(header, kSourcesMagic.data(), kSourcesMagic.size());
  store_number(header + kSourcesVersionAt, kSourcesVersion);
  store_number(header + kHasOriginsAt, static_cast<uint32_t>(has_origins));
  store_number(header + kNumSourcesAt, static_cast<uint64_t>(num_documents));
  store_number(header + kNumInputsAt, static_cast<uint64_t>(inputs.size()));
  store_number(header + kFooterBytesAt, static_cast<uint64_t>(text.size()));
  return {std::string(reinterpret_cast<const char*>(header), sizeof header), text};
}

void seal_source_map(const std::filesystem::path& path, int64_t num_documents,
                     const std::vector<std::string>& inputs, const InputParts& parts,
                     bool has_origins, const Locators& locators) {
  const auto [header, footer] =
      source_map_frame(num_documents, inputs, parts, has_origins, locators);
  OutputFile file(path, /*keep=*/true);
  const int64_t footer_at = source_entry_at(num_documents, has_origins);
  if (num_documents > 0 && file.size_bytes() < footer_at) {
    throw std::logic_error(path.string() + ": has " + std::to_string(file.size_bytes()) +
                           " bytes, too few for the sources of " + std::to_string(num_documents) +
                           " documents");
  }
  file.truncate(footer_at);
  file.write_at(footer.data(), footer.size(), footer_at);
  file.sync();
  file.write_at(header.data(), header.size(), 0);
  file.sync();
  file.close();
}

SourceMap::SourceMap(const std::filesystem::path& path) : path_(path), file_(path) {
  const std::span<const std::byte> bytes = file_.bytes();
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with(kSourcesMagic)) {
    throw_bad(path, "is not a source map of weft-data (its first 8 bytes are not WEFTSRC1)");
  }
  if (bytes.size() < static_cast<size_t>(kSourceHeaderBytes)) {
    throw_bad(path,
              "is truncated: " + std::to_string(bytes.size()) + " bytes, the header alone has 64");
  }
  const auto version = load_number<uint32_t>(bytes.data() + kSourcesVersionAt);
  if (version != kSourcesVersion) {
    throw_bad(path, "has version " + std::to_string(version) + " at byte 8; only " +
                        std::to_string(kSourcesVersion) + " is known");
  }
  const auto has_origins = load_number<uint32_t>(bytes.data() + kHasOriginsAt);
  if (has_origins > 1) throw_bad(path, "is damaged at byte 12");
  has_origins_ = has_origins == 1;
  const auto entry_bytes = static_cast<uint64_t>(source_entry_bytes(has_origins_));
  const auto num_documents = load_number<uint64_t>(bytes.data() + kNumSourcesAt);
  const auto num_inputs = load_number<uint64_t>(bytes.data() + kNumInputsAt);
  const auto footer_bytes = load_number<uint64_t>(bytes.data() + kFooterBytesAt);
  const uint64_t rest_bytes = bytes.size() - kSourceHeaderBytes;
  // By division first: counts of a damaged header may overflow the product.
  if (num_documents > rest_bytes / entry_bytes ||
      footer_bytes != rest_bytes - num_documents * entry_bytes) {
    throw_bad(path, "is truncated or damaged: it has " + std::to_string(bytes.size()) +
                        " bytes, which do not fit " + std::to_string(num_documents) +
                        " documents (byte 16) and a list of inputs of " +
                        std::to_string(footer_bytes) + " bytes (byte 32)");
  }
  num_documents_ = static_cast<int64_t>(num_documents);
  inputs_ =
      parse_footer(text.substr(static_cast<size_t>(source_entry_at(num_documents_, has_origins_))),
                   num_inputs, path, parts_, locators_);
}

SourceEntry SourceMap::entry(int64_t document_idx) const {
  if (document_idx < 0 || document_idx >= num_documents_) {
    throw std::out_of_range(path_.string() + ": no document " + std::to_string(document_idx) +
                            " (there are " + std::to_string(num_documents_) + ")");
  }
  const std::byte* at = file_.bytes().data() + source_entry_at(document_idx, has_origins_);
  SourceEntry entry{
      load_number<uint32_t>(at), static_cast<int64_t>(load_number<uint64_t>(at + 4)), {}};
  if (entry.input_idx >= inputs_.size() || entry.offset_bytes < 0) {
    throw_bad(path_, "the entry of document " + std::to_string(document_idx) + " (byte " +
                         std::to_string(source_entry_at(document_idx, has_origins_)) +
                         ") names input " + std::to_string(entry.input_idx) + " of " +
                         std::to_string(inputs_.size()) + ", byte " +
                         std::to_string(static_cast<uint64_t>(entry.offset_bytes)) +
                         ": it is damaged");
  }
  if (!has_origins_) return entry;
  std::memcpy(entry.origin.bytes.data(), at + 12, kOriginBytes);
  if (!is_valid(entry.origin)) {
    throw_bad(path_, "the origin of document " + std::to_string(document_idx) + " (byte " +
                         std::to_string(source_entry_at(document_idx, has_origins_) + 12) +
                         ") is no UTF-8 with zeros behind it: it is damaged");
  }
  return entry;
}

std::string_view Origin::view() const {
  const auto end = std::find(bytes.begin(), bytes.end(), '\0');
  return {bytes.data(), static_cast<size_t>(end - bytes.begin())};
}

bool is_valid(const Origin& origin) {
  const std::string_view text = origin.view();
  return std::all_of(origin.bytes.begin() + static_cast<ptrdiff_t>(text.size()), origin.bytes.end(),
                     [](char c) { return c == '\0'; }) &&
         num_valid_utf8_bytes(text) == text.size();
}

std::string SourceMap::describe(int64_t document_idx) const {
  const SourceEntry entry = this->entry(document_idx);
  std::string text = inputs_[entry.input_idx] + ", " +
                     kLocatorNames[static_cast<size_t>(locators_[entry.input_idx])] + " " +
                     std::to_string(entry.offset_bytes);
  if (!entry.origin.is_empty()) text += " (from " + std::string(entry.origin.view()) + ")";
  return text;
}

std::optional<SourceMap> open_source_map_of(const DatasetReader& reader) {
  const std::filesystem::path path = sources_path(reader.prefix());
  if (!std::filesystem::exists(path)) return std::nullopt;
  SourceMap sources(path);
  if (sources.num_documents() != reader.num_documents()) {
    throw_bad(path, "holds the sources of " + std::to_string(sources.num_documents()) +
                        " documents, the dataset has " + std::to_string(reader.num_documents()) +
                        ": it is not of this dataset");
  }
  return sources;
}

}  // namespace weft
