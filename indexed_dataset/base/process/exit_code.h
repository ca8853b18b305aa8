// Exit codes of all programs (README, "Exit codes"), and the exception that stands for each.
//
// Libraries throw standard exceptions and these; `main` catches once and maps:
//   UsageError             wrong options or configuration        -> 2
//   ChecksumMismatch       stored and computed checksums differ  -> 6
//   NetworkError           a download failed for good            -> 7
//   LockedByAnotherRun     the output belongs to a live run      -> 8
//   LimitExceeded          over a configured limit               -> 9
//   ConfigurationDiffers   ranks were started differently        -> 14
//   std::bad_alloc         out of memory                         -> 9
//   RunFailed              its own code
//   std::system_error      ENOSPC, EDQUOT, EFBIG -> 5, ENOMEM -> 9, any other    -> 4
//   std::runtime_error     the input data is not as needed       -> 3
//   anything else          a mistake in the program              -> 1
// So a std::invalid_argument of std::stoi, or of a library's own checks, is no fault of the user.
#pragma once

#include <exception>
#include <stdexcept>
#include <string>

namespace weft {

enum class ExitCode : int {
  kDone = 0,
  kInternalError = 1,
  kUsage = 2,
  kBadInput = 3,
  kIo = 4,
  kNoSpace = 5,
  kChecksumMismatch = 6,
  kNetwork = 7,
  kLocked = 8,
  kOutOfMemory = 9,
  kStoppedOnRequest = 10,
  kNotFinite = 11,
  kHang = 12,
  kPeerLost = 13,
  kConfigurationDiffers = 14,
  kDeviceLost = 15,         // weft-train: a GPU failed; the job may be started again
  kDeviceOutOfMemory = 16,  // weft-train
};

struct UsageError : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};
struct ChecksumMismatch : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct NetworkError : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct LockedByAnotherRun : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct LimitExceeded : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct ConfigurationDiffers : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// The run fails for a reason that another part of it, or another process, has met.
struct RunFailed : std::runtime_error {
  RunFailed(int the_exit_code, const std::string& message)
      : std::runtime_error(message), exit_code(the_exit_code) {}
  int exit_code;
};

// Calls a function of a library that refuses users' values by std::invalid_argument (the tokenizer
// and the kernels, which know nothing of exit codes): its refusal becomes a UsageError.
template <class Call>
auto as_usage(Call&& call) {
  try {
    return call();
  } catch (const std::invalid_argument& refusal) {
    throw UsageError(refusal.what());
  }
}

// The exit code of a program that ends because of `error`, by the table above.
ExitCode exit_code_for(const std::exception& error);

}  // namespace weft
