// Addresses of datasets on the Hugging Face hub: hf://datasets/OWNER/NAME[@REVISION]/PATH.
#pragma once

#include <string>
#include <vector>

namespace weft {

struct HubAddress {
  std::string dataset;   // "OWNER/NAME"
  std::string revision;  // a branch, tag or commit: "main" where none was given
  std::string path;      // of a file or folder, or a pattern; "" for the whole dataset

  // The address of this path at another revision.
  std::string at(const std::string& other_revision, const std::string& other_path) const;
  // The page of the dataset, for messages.
  std::string page() const;
  // The address of the API, such as "revision" or "tree", for this revision.
  std::string api_url(const std::string& what) const;
  // The address at which the hub says where the file lies.
  std::string resolve_url() const;
};

// A revision with a slash is written with %2F, but for refs/convert/NAME and refs/pr/NUMBER. Throws
// UsageError.
HubAddress parse_hub_address(const std::string& address);

// True for the name of a commit: such an address always gives the same bytes.
bool is_commit(const std::string& revision);

// Says that the commit which a branch was pinned to is another one for two lists of addresses of
// the same dataset, and which address gives the first one's files; "" if none has moved.
std::string describe_moved_commit(const std::vector<std::string>& before,
                                  const std::vector<std::string>& after);

}  // namespace weft
