// All inputs of a command: the object for each name that was given, and what is wrong with the
// names as a whole.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "preprocess/inputs/input.h"

namespace weft {

using Inputs = std::vector<std::shared_ptr<Input>>;

// The input of this name: an address of the web or a store, a path, or standard input for "-".
// Reads nothing yet.
std::shared_ptr<Input> make_input(const std::string& name, const HttpOptions& options = {});
Inputs make_inputs(const std::vector<std::string>& names, const HttpOptions& options = {});

// Looks at an input, and opens all of it. The format is found by the first bytes, never by the
// name; but a file of a compressed format's name that is too short to be one is refused
// (std::runtime_error).
std::unique_ptr<ByteSource> open_input(const std::string& name, const std::atomic<bool>& cancelled,
                                       const DecodeOptions& options = {},
                                       const HttpOptions& http = {});

// Throws std::system_error that names all inputs that are missing (or else: all that are folders,
// or may not be read), so that a run does not learn of the last one after hours. Asks no server.
void check_can_be_opened(const Inputs& inputs);

// Says what is wrong with the inputs as a whole: there is none, or standard input is among them
// twice, as '-' or as the file /dev/stdin. "" if nothing is. `names` are as they were given.
std::string problem_of_inputs(const std::vector<std::string>& names);

// Names inputs that are the same file or URL under one or two names; "" if none are.
std::string describe_repeated(const Inputs& inputs);

}  // namespace weft
