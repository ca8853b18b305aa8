// The arguments of a run that Weft did not train, from what people keep of it:
//
// - the banner of its log (Megatron-LM, Megatron-DeepSpeed, weft-train), with or without what srun
//   -l puts before each line:
//
//     ------------------------ arguments ------------------------
//       data_path ....................................... ['0.4', '/data/a', '0.6', '/data/b']
//       seed ............................................ 43
//     -------------------- end of arguments ---------------------
//
// - or the words of its command line, in one line or several, with backslashes before the ends of
//   lines, comments and quotes as a shell has them: --seed 43 --split 949,50,1 ...
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

namespace weft {

// Returns what sample_order_from() reads: {"arguments": {...}, "data_parallel_size": N if it is
// told, in the text or by the caller}, and "unknown_evaluations", the arguments with which
// validation and test take samples that are not known here, if there are any. Where nothing is
// said, Megatron's defaults stand. Of several banners, which a log has of a run that was started
// again, the last one counts. Reads the file of deepspeed_config that it names. Throws
// UsageError for text that is neither, for words that a shell would replace ($NAME), and
// for arguments that change which samples training takes in a way that is not known here: it names
// them.
nlohmann::ordered_json parse_megatron_arguments(
    std::string_view text, std::optional<int64_t> data_parallel_size = std::nullopt);

}  // namespace weft
