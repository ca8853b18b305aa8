#include "indexed_dataset/base/storage/sha256.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <memory>
#include <new>
#include <vector>

#include "indexed_dataset/base/storage/file_io.h"

namespace weft {
namespace {

std::string hex(const unsigned char* digest, unsigned size_bytes) {
  std::string text;
  for (unsigned i = 0; i < size_bytes; ++i) {
    text += "0123456789abcdef"[digest[i] >> 4];
    text += "0123456789abcdef"[digest[i] & 15];
  }
  return text;
}

struct Digest {
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned size_bytes = 0;

  explicit Digest(std::string_view of) {
    if (EVP_Digest(of.data(), of.size(), bytes.data(), &size_bytes, EVP_sha256(), nullptr) != 1)
      throw std::bad_alloc();
  }
};

}  // namespace

std::string sha256_of_file(const std::filesystem::path& path) {
  const InputFile file(path);
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        EVP_MD_CTX_free);
  if (!context || EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) != 1)
    throw std::bad_alloc();
  std::vector<char> buffer(1 << 20);
  for (int64_t offset = 0; offset < file.size_bytes(); offset += std::ssize(buffer)) {
    const auto count =
        static_cast<size_t>(std::min<int64_t>(file.size_bytes() - offset, std::ssize(buffer)));
    file.read_at(buffer.data(), count, offset);
    EVP_DigestUpdate(context.get(), buffer.data(), count);
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size_bytes = 0;
  EVP_DigestFinal_ex(context.get(), digest.data(), &size_bytes);
  return hex(digest.data(), size_bytes);
}

std::string sha256_of(std::string_view bytes) {
  const Digest digest(bytes);
  return hex(digest.bytes.data(), digest.size_bytes);
}

std::string sha256_base64(std::string_view bytes) {
  const Digest digest(bytes);
  std::array<unsigned char, 4 * ((EVP_MAX_MD_SIZE + 2) / 3) + 1> text{};
  const int length =
      EVP_EncodeBlock(text.data(), digest.bytes.data(), static_cast<int>(digest.size_bytes));
  return {reinterpret_cast<const char*>(text.data()), static_cast<size_t>(length)};
}

std::string lower_sha256(std::string text) {
  for (char& digit : text) {
    const auto c = static_cast<unsigned char>(digit);
    if (std::isxdigit(c) == 0) return "";
    digit = static_cast<char>(std::tolower(c));
  }
  return text.size() == 64 ? text : "";
}

}  // namespace weft
