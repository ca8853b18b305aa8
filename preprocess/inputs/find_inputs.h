// From the words on a command line to the names of inputs: folders, patterns and lists are replaced
// by the files that they stand for, in an order that is the same everywhere.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "preprocess/inputs/files_of_name.h"
#include "preprocess/inputs/input_list.h"
#include "preprocess/inputs/stored_inputs.h"

namespace weft {

struct GivenInputs {
  // Files, addresses, "-", folders (with all folders in them), and patterns: `*`, `?` and `[abc]`
  // within a name, `**` for any folders. Addresses of stores may be folders or patterns as well.
  std::vector<std::string> names;
  // Files with one such name on each line, which may be compressed, or addresses of such files.
  // Blank lines and those that begin with # are left out.
  std::vector<std::string> lists;
  // The folder or address below which relative names of lists lie; empty: where their list lies.
  std::string list_root;
  InputFormat format = InputFormat::kJsonLines;  // which files of folders are inputs
  HttpOptions http;
};

struct FoundInputs {
  // The files of a folder or a pattern are sorted by the bytes of their paths. A name of nothing
  // that is there stays as it is, for check_can_be_opened() to refuse.
  std::vector<std::string> names;
  // They say which names stand for several, and which files were passed over.
  std::vector<std::string> notes;
};

// Says what is wrong with the names as a whole, before anything is looked for: see
// problem_of_inputs() of names. "" if nothing is.
std::string problem_of_inputs(const GivenInputs& given);

// Throws std::system_error for a folder without such files and for what cannot be listed;
// UsageError for a name that is not allowed, and for what is no list of names; what
// open_input() and ByteSource::read throw for a list; what StoredInputs::files_of() throws.
FoundInputs find_inputs(const GivenInputs& given, StoredInputs& stored,
                        const std::atomic<bool>& cancelled);

}  // namespace weft
