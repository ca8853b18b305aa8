#include "trainer/checkpoint/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "indexed_dataset/base/process/json_integer.h"
#include "indexed_dataset/base/process/parse_json.h"

namespace weft {

static_assert(std::endian::native == std::endian::little,
              "files are written as they lie in memory");

namespace {

// The reference implementation refuses longer headers.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;
constexpr size_t kAlignment = 64;

int64_t element_bytes(std::string_view dtype) {
  static const std::map<std::string_view, int64_t> sizes = {
      {"F64", 8},  {"I64", 8}, {"U64", 8}, {"F32", 4}, {"I32", 4}, {"U32", 4}, {"F16", 2},
      {"BF16", 2}, {"I16", 2}, {"U16", 2}, {"I8", 1},  {"U8", 1},  {"BOOL", 1}};
  const auto found = sizes.find(dtype);
  return found == sizes.end() ? 0 : found->second;
}

// Returns the number of elements times their size, or -1 where it does not fit into 63 bits or a
// size is negative.
int64_t num_bytes(const SafetensorsEntry& entry) {
  int64_t bytes = element_bytes(entry.dtype);
  for (const int64_t size : entry.shape) {
    if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes)) return -1;
  }
  return bytes;
}

SafetensorsEntry parse_entry(const std::string& name, const nlohmann::json& value) {
  try {
    const std::vector<int64_t> offsets = json_integers_at(value, "data_offsets");
    if (offsets.size() != 2) throw std::runtime_error("\"data_offsets\" are not two numbers");
    return {.name = name,
            .dtype = value.at("dtype").get<std::string>(),
            .shape = json_integers_at(value, "shape"),
            .begin = offsets[0],
            .end = offsets[1]};
  } catch (const std::exception& error) {
    throw std::runtime_error("tensor " + name + ": " + error.what());
  }
}

// nlohmann silently keeps the last of two equal keys, but a file with two tensors of one name is
// damaged or forged.
class HeaderLimits : public DocumentLimits<nlohmann::json> {
 public:
  bool key(std::string& name) override {
    names_.resize(static_cast<size_t>(depth()) + 1);
    if (!names_.back().insert(name).second)
      throw std::runtime_error("two entries named \"" + name + "\"");
    return DocumentLimits<nlohmann::json>::key(name);
  }
  bool end_object() override {
    names_.resize(std::min(names_.size(), static_cast<size_t>(depth())));
    return DocumentLimits<nlohmann::json>::end_object();
  }

 private:
  std::vector<std::set<std::string>> names_;  // of the object that is open at each depth
};

nlohmann::json parse_header(std::string_view text) {
  HeaderLimits limits;
  nlohmann::json::sax_parse(text, &limits);
  return nlohmann::json::parse(text);
}

// Opening a pipe would wait for someone who writes into it.
const std::filesystem::path& regular_file(const std::filesystem::path& path) {
  if (std::filesystem::exists(path) && !std::filesystem::is_regular_file(path))
    throw std::runtime_error(path.string() + ": not a sound safetensors file: no regular file");
  return path;
}

}  // namespace

std::string_view safetensors_dtype(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "F32";
    case DType::kBFloat16:
      return "BF16";
    case DType::kFloat16:
      return "F16";
    case DType::kInt32:
      return "I32";
    case DType::kUInt8:
      return "U8";
    case DType::kFloat8E4M3:
      return "F8_E4M3";
    case DType::kFloat8E5M2:
      return "F8_E5M2";
  }
  throw std::invalid_argument("safetensors: no name for this type");
}

std::string safetensors_header(std::vector<SafetensorsEntry>& entries,
                               const std::map<std::string, std::string>& metadata) {
  using Json = nlohmann::ordered_json;
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  Json::object_t::Container& members = header.get_ref<Json::object_t&>();
  int64_t offset = 0;
  for (SafetensorsEntry& entry : entries) {
    entry.begin = offset;
    entry.end = offset += num_bytes(entry);
    // operator[] would compare the name with all before it.
    members.emplace_back(entry.name, Json{{"dtype", entry.dtype},
                                          {"shape", entry.shape},
                                          {"data_offsets", {entry.begin, entry.end}}});
  }
  std::string json = header.dump();
  const size_t unpadded = sizeof(uint64_t) + json.size();
  json.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  const uint64_t length = json.size();
  std::string out(sizeof length, '\0');
  std::memcpy(out.data(), &length, sizeof length);
  return out + json;
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : path_(path), file_(regular_file(path)) {
  const auto fail = [&](const std::string& why) {
    throw std::runtime_error(path_.string() + ": not a sound safetensors file: " + why);
  };
  const std::span<const std::byte> bytes = file_.bytes();
  uint64_t length = 0;
  if (bytes.size() < sizeof length) fail("shorter than its 8-byte header length");
  std::memcpy(&length, bytes.data(), sizeof length);
  if (length > kMaxHeaderBytes || length > bytes.size() - sizeof length) {
    fail("header of " + std::to_string(length) + " bytes in a file of " +
         std::to_string(bytes.size()));
  }
  data_begin_ = static_cast<int64_t>(sizeof length + length);
  try {
    const auto header =
        parse_header({reinterpret_cast<const char*>(bytes.data()) + sizeof length, length});
    for (const auto& [name, value] : header.items()) {
      if (name == "__metadata__") {
        metadata_ = value.get<std::map<std::string, std::string>>();
      } else {
        entries_.push_back(parse_entry(name, value));
      }
    }
  } catch (const std::exception& error) {
    fail(std::string("its header does not parse: ") + error.what());
  }
  std::sort(entries_.begin(), entries_.end(), [](const auto& a, const auto& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  int64_t expected = 0;
  for (const SafetensorsEntry& entry : entries_) {
    if (element_bytes(entry.dtype) == 0)
      fail("tensor " + entry.name + " has the unknown type " + entry.dtype);
    if (entry.begin != expected) fail("a hole or an overlap before tensor " + entry.name);
    if (entry.end < entry.begin || entry.end - entry.begin != num_bytes(entry))
      fail("tensor " + entry.name + " has another size than its shape");
    expected = entry.end;
  }
  const auto data_bytes = static_cast<int64_t>(bytes.size()) - data_begin_;
  if (expected != data_bytes) {
    fail("tensors end at byte " + std::to_string(expected) + " of " + std::to_string(data_bytes) +
         (expected > data_bytes ? " (truncated)" : ""));
  }
  for (size_t i = 0; i < entries_.size(); ++i) by_name_.emplace(entries_[i].name, i);
}

const SafetensorsEntry* SafetensorsFile::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &entries_[found->second];
}

std::span<const std::byte> SafetensorsFile::bytes(const SafetensorsEntry& entry) const {
  return file_.bytes().subspan(static_cast<size_t>(data_begin_ + entry.begin),
                               static_cast<size_t>(entry.end - entry.begin));
}

}  // namespace weft
