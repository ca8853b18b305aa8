#include "preprocess/ledger/coordinator_file.h"

#include <nlohmann/json.hpp>
#include <system_error>

#include "indexed_dataset/storage/file_io.h"
#include "preprocess/datasets/json_integer.h"

namespace weft {
namespace {

constexpr const char* kFormat = "weft coordinator 1";
constexpr uintmax_t kMaxFileBytes = 64 << 10;
constexpr size_t kMaxAddresses = 64;

std::string hex(const RunSecret& secret) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : secret) {
    text.push_back(kDigits[byte >> 4]);
    text.push_back(kDigits[byte & 15]);
  }
  return text;
}

RunSecret secret_of(const std::string& text) {
  RunSecret secret{};
  if (text.size() != 2 * secret.size()) throw std::runtime_error("its secret is no 32 bytes");
  const auto digit = [](char c) -> int {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    throw std::runtime_error("its secret is not hexadecimal");
  };
  for (size_t i = 0; i < secret.size(); ++i) {
    secret[i] = static_cast<unsigned char>(digit(text[2 * i]) * 16 + digit(text[2 * i + 1]));
  }
  return secret;
}

CoordinatorAddress parsed(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text);
  if (json.at("format").get<std::string>() != kFormat) {
    throw std::runtime_error("its format is not '" + std::string(kFormat) + "'");
  }
  CoordinatorAddress address;
  address.launch_id = json.at("launch_id").get<std::string>();
  address.host = json.at("host").get<std::string>();
  address.addresses = json.at("addresses").get<std::vector<std::string>>();
  const int64_t port = json_integer(json.at("port"));
  if (port < 1 || port > 65535) throw std::runtime_error("its port is none");
  if (address.addresses.size() > kMaxAddresses)
    throw std::runtime_error("it has too many addresses");
  address.port = static_cast<uint16_t>(port);
  address.secret = secret_of(json.at("secret").get<std::string>());
  return address;
}

}  // namespace

void publish_coordinator(const std::filesystem::path& folder, const CoordinatorAddress& address) {
  const nlohmann::json json = {{"format", kFormat},    {"launch_id", address.launch_id},
                               {"host", address.host}, {"addresses", address.addresses},
                               {"port", address.port}, {"secret", hex(address.secret)}};
  // Names of machines and launches are bytes; whatever they are, the file is JSON.
  const std::string text = json.dump(2, ' ', true, nlohmann::json::error_handler_t::replace);
  write_file_atomically(folder / kCoordinatorFileName, text + "\n", /*is_private=*/true);
}

void withdraw_coordinator(const std::filesystem::path& folder) {
  remove_file(folder / kCoordinatorFileName);
}

std::optional<CoordinatorAddress> find_coordinator(const std::filesystem::path& folder,
                                                   std::string& problem) {
  const std::filesystem::path path = folder / kCoordinatorFileName;
  const std::string name = std::string(1, '\'').append(path.string()).append("'");
  problem = name + " is not there";
  try {
    std::error_code error;
    const uintmax_t size = std::filesystem::file_size(path, error);
    if (error) return std::nullopt;
    if (size > kMaxFileBytes) throw std::runtime_error("it is too large");
    CoordinatorAddress address = parsed(read_file(path));
    problem.clear();
    return address;
  } catch (const std::exception& error) {
    // Also for files that a network file system is replacing at this moment (ESTALE).
    problem = name + " does not say where rank 0 is: " + error.what();
    return std::nullopt;
  }
}

}  // namespace weft
