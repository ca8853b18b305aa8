#include "indexed_dataset/base/storage/crc32.h"

#include <zlib.h>

#if defined(WEFT_HAVE_ISAL)
#include <isa-l/crc.h>
#endif

namespace weft {

void Crc32::add(std::span<const std::byte> bytes) {
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
#if defined(WEFT_HAVE_ISAL)
  value_ = ::crc32_gzip_refl(value_, data, bytes.size());
#else
  value_ = static_cast<uint32_t>(::crc32_z(value_, data, bytes.size()));
#endif
  num_bytes_ += std::ssize(bytes);
}

void Crc32::append(const Crc32& next) {
  if (next.num_bytes_ == 0) return;
  value_ = static_cast<uint32_t>(::crc32_combine(value_, next.value_, next.num_bytes_));
  num_bytes_ += next.num_bytes_;
}

}  // namespace weft
