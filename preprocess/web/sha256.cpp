#include "preprocess/web/sha256.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <new>
#include <system_error>
#include <vector>

namespace weft {
namespace {

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

std::string sha256_of_file(const std::filesystem::path& path) {
  const auto fail = [&](const char* what) {
    throw std::system_error(errno, std::generic_category(), what + (" '" + path.string() + "'"));
  };
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0) fail("cannot open");
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        EVP_MD_CTX_free);
  if (!context || EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) != 1)
    throw std::bad_alloc();
  std::vector<char> buffer(1 << 20);
  for (;;) {
    const ssize_t got = ::read(file.fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("cannot read");
    if (got == 0) break;
    EVP_DigestUpdate(context.get(), buffer.data(), static_cast<size_t>(got));
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size_bytes = 0;
  EVP_DigestFinal_ex(context.get(), digest.data(), &size_bytes);
  std::string text;
  for (unsigned i = 0; i < size_bytes; ++i) {
    text += "0123456789abcdef"[digest[i] >> 4];
    text += "0123456789abcdef"[digest[i] & 15];
  }
  return text;
}

std::string sha256_base64(std::string_view bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size_bytes = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size_bytes, EVP_sha256(), nullptr) !=
      1)
    throw std::bad_alloc();
  std::array<unsigned char, 4 * ((EVP_MAX_MD_SIZE + 2) / 3) + 1> text{};
  const int length = EVP_EncodeBlock(text.data(), digest.data(), static_cast<int>(size_bytes));
  return {reinterpret_cast<const char*>(text.data()), static_cast<size_t>(length)};
}

}  // namespace weft
