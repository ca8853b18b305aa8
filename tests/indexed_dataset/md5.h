// MD5 of arrays' raw bytes, for comparison with published checksums.
#pragma once

#include <openssl/evp.h>

#include <span>
#include <string>
#include <vector>

#include "tests/indexed_dataset/test_files.h"

namespace weft {

template <typename T>
std::string md5_of(const std::vector<T>& values) {
  std::string digest(16, '\0');
  EVP_Digest(values.data(), values.size() * sizeof(T),
             reinterpret_cast<unsigned char*>(digest.data()), nullptr, EVP_md5(), nullptr);
  return to_hex(digest);
}

}  // namespace weft
