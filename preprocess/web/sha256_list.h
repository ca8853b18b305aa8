// Lists of checksums, as sha256sum writes them: which one belongs to a URL.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft {

class Sha256List {
 public:
  // Lines "HEX  NAME", "HEX *NAME" or "SHA256 (NAME) = HEX"; blank lines and lines from '#' on do
  // not count. Throws std::runtime_error (`name`, line number) for anything else.
  Sha256List(const std::string& name, std::string_view text);

  // The checksum of the entry whose name is the end of the URL's path, in whole components; the
  // longest one where several are. Throws std::runtime_error if none is, or two that contradict.
  std::string find(const std::string& url) const;

 private:
  std::string name_;
  std::vector<std::pair<std::string, std::string>> entries_;  // name, checksum
};

}  // namespace weft
