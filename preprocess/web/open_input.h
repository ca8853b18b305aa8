// Opens any input of the data tools, a file, a URL or standard input, as a stream of plain bytes that
// is decompressed on the fly.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "preprocess/compressed/decoded_source.h"

namespace weft {

// Opens `path`, an https URL, or standard input for "-". The format is found by the first bytes,
// never by the name; but a file of a compressed format's name that is too short to be one is
// refused (std::runtime_error). `cancelled` must outlive the source; a read that waits (a pipe)
// looks at it several times a second.
std::unique_ptr<ByteSource> open_input(const std::string& path, const std::atomic<bool>& cancelled,
                                       const DecodeOptions& options = {});

// Throws std::system_error that names all `paths` that are missing (or else: all that are folders,
// or may not be read), so that a run does not learn of the last one after hours. Looks at no URL.
void check_inputs_can_be_opened(const std::vector<std::string>& paths);

// Says what is wrong with the names as a whole: there is none, or standard input is among them
// twice, as '-' or as the file /dev/stdin. "" if nothing is.
std::string problem_of_inputs(const std::vector<std::string>& inputs);

// Names inputs that are the same file or URL under one or two names; "" if none are.
std::string describe_repeated_inputs(const std::vector<std::string>& inputs);

// How messages call this input: its path, its URL without the query, or "<stdin>" for "-".
std::string display_name(const std::string& path);

}  // namespace weft
