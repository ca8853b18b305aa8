// GPT-2's vocabulary files: found where they usually lie, else downloaded.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "tokenizer/vocabulary.h"

namespace weft {

// The given files (both or none), $WEFT_GPT2_DIR, ~/.cache/weft/gpt2; else downloads GPT-2's into
// ~/.cache/weft/gpt2 and checks their SHA-256; one process at a time, others wait for it. `note` is
// told before anything is downloaded. Throws NetworkError that says what the user can do;
// std::invalid_argument if one of the two is given; DownloadStopped soon after `stop_requested`
// says so.
VocabularyFiles find_or_download_vocabulary(const std::filesystem::path& vocab_file,
                                            const std::filesystem::path& merge_file,
                                            const std::function<void(const std::string&)>& note,
                                            const std::function<bool()>& stop_requested);

}  // namespace weft
