// The hooks by which tests make a program fail: they are only in builds with -DWEFT_TEST_HOOKS=ON.
#pragma once

#include <cstdint>
#include <string>

namespace weft {

// Returns a line that names the variables of the environment by which hooks are active in this
// process, or "" where none is, as in every build without hooks. Programs print it when they start.
std::string active_test_hooks();

// Returns the number in this variable of the environment, in a build with hooks; else `value`.
int64_t hooked_number(const char* name, int64_t value);

// What a test that needs hooks says in a build without them.
inline constexpr char kNoTestHooks[] =
    "this build has no fault hooks: configure it with -DWEFT_TEST_HOOKS=ON, as tests/run.sh does";

}  // namespace weft
