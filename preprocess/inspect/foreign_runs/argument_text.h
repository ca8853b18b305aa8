// The arguments of a program of Megatron as texts: from the banner that it prints or from the words
// of its command line (megatron_arguments.h shows both).
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

// The words behind each argument, by its name with underscores; "None" is none. A list within a
// list is one word.
using Arguments = std::map<std::string, std::vector<std::string>>;

// The values are those with which the program works: the words of data_path have the folder of
// aml_data_download_path before them. Throws by throw_bad_arguments.
Arguments parse_argument_text(std::string_view text);

// Reads a Python value as it is printed: None, True, 43, text, or ['0.4', '/data/a']. Throws as
// above for a list without its end.
std::vector<std::string> python_values(std::string_view text);

// Throws UsageError in words of --megatron-args.
[[noreturn]] void throw_bad_arguments(const std::string& what);

}  // namespace weft
