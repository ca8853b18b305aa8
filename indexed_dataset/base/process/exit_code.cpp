#include "indexed_dataset/base/process/exit_code.h"

#include <cerrno>
#include <new>
#include <regex>
#include <system_error>

namespace weft {
namespace {

// True for the types of runtime errors that the standard library throws where the program has made
// a mistake.
bool is_mistake_of_the_program(const std::exception& error) {
  const auto is = [&error]<typename T>(std::type_identity<T>) {
    return dynamic_cast<const T*>(&error) != nullptr;
  };
  return is(std::type_identity<std::range_error>{}) ||
         is(std::type_identity<std::overflow_error>{}) ||
         is(std::type_identity<std::underflow_error>{}) ||
         is(std::type_identity<std::regex_error>{});
}

}  // namespace

ExitCode exit_code_for(const std::exception& error) {
  const auto is = [&error]<typename T>(std::type_identity<T>) {
    return dynamic_cast<const T*>(&error) != nullptr;
  };
  if (is_mistake_of_the_program(error)) return ExitCode::kInternalError;
  if (const auto* failed = dynamic_cast<const RunFailed*>(&error)) {
    return static_cast<ExitCode>(failed->exit_code);
  }
  if (is(std::type_identity<UsageError>{})) return ExitCode::kUsage;
  if (is(std::type_identity<ChecksumMismatch>{})) return ExitCode::kChecksumMismatch;
  if (is(std::type_identity<NetworkError>{})) return ExitCode::kNetwork;
  if (is(std::type_identity<LockedByAnotherRun>{})) return ExitCode::kLocked;
  if (is(std::type_identity<LimitExceeded>{})) return ExitCode::kOutOfMemory;
  if (is(std::type_identity<ConfigurationDiffers>{})) return ExitCode::kConfigurationDiffers;
  if (is(std::type_identity<std::bad_alloc>{})) return ExitCode::kOutOfMemory;
  if (const auto* system = dynamic_cast<const std::system_error*>(&error)) {
    const int code = system->code().value();
    if (code == ENOMEM) return ExitCode::kOutOfMemory;
    return code == ENOSPC || code == EDQUOT || code == EFBIG ? ExitCode::kNoSpace : ExitCode::kIo;
  }
  if (is(std::type_identity<std::runtime_error>{})) return ExitCode::kBadInput;
  return ExitCode::kInternalError;
}

}  // namespace weft
