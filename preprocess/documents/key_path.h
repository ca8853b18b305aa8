// Names of values within the objects of a line: keys with dots between them, as in meta.url.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft {

// The keys from the object of a line to a value. Of a key that occurs twice in an object the last
// one counts, also if it is no object with the rest of the path.
using KeyPath = std::vector<std::string>;

// The path that `text` means; a dot that is part of a key has a backslash before it, and so has a
// backslash. Throws UsageError, whose message begins with `option`, for anything else.
KeyPath key_path(std::string_view option, std::string_view text);

// The path within the line for one of --json-keys; empty for a key without a dot. A line that has a
// key of the whole name is read by that: the path counts where there is none. Throws as key_path().
// `option` is the one that gave the key.
KeyPath nested_path(std::string_view json_key, std::string_view option = "--json-keys");
std::vector<KeyPath> nested_paths(const std::vector<std::string>& json_keys);

}  // namespace weft
