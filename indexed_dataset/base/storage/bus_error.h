// Explains a death by SIGBUS: the kernel sends it when bytes of a mapped file cannot be read any
// more, because the file was made shorter meanwhile or its disk or server failed. Without a handler
// a program dies of it without a word.
#pragma once

#include <cstddef>
#include <filesystem>

namespace weft {

// For `main`: from now on a SIGBUS in a MappedFile ends the program with a message that names the
// file and with ExitCode::kIo, at once, as a kill would; other ones do what they always did.
void explain_bus_errors();

// MappedFile tells by these which file lies where. Thread-safe; a map has no name where there is no
// memory for it.
void add_mapping(const void* begin, size_t size_bytes, const std::filesystem::path& path) noexcept;
void remove_mapping(const void* begin) noexcept;

}  // namespace weft
