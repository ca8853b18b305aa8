# The tests that attack run with what GCC's address and undefined-behaviour sanitizers watch. tests/run.sh builds the target
# `attacks` in build/asan where WEFT_SANITIZE=1, and configures the ordinary build with WEFT_SANITIZED_TESTS=ON: its ctest then
# runs them from there, and the ordinary build leaves them out, so that each is compiled and run once. The targets `memory` of
# build/asan and `races` of build/tsan are the trainer's.
option(WEFT_SANITIZED_TESTS "run the attacking tests of build/asan (target attacks, preset asan) in place of those of this build, and those of \
the trainer (targets memory and, of build/tsan, races) beside them" OFF)

# Hostile bytes, damaged files, lost ranks: what others write is read, by threads that are hindered.
set(attack_programs
  documents_test hostile_test inputs_test preprocess_differential_test preprocess_test rank_test ranks_test stream_test)
# The trainer's memory, by the address sanitizer: kernels of the CPU, planned and reused buffers, checkpoints, the loader's ring. They run
# in the ordinary build, too, whose kernels are others.
set(memory_programs checkpoint_test kernels_test planned_step_test recompute_test trainer_loader_test)
# Ranks as threads with their watch, communicators and flight recorders, and the loader's threads: with what the thread sanitizer
# watches. They run in the ordinary build, too, where times are those of a run.
set(race_programs trainer_loader_test trainer_parallel_test)

function(weft_add_sanitized_tests)
  if(WEFT_SANITIZER)
    add_executable(sanitizer_probe ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/sanitizer_probe.cpp)
    target_link_libraries(sanitizer_probe PRIVATE weft_options)
    if(WEFT_DATA)
      add_custom_target(attacks DEPENDS sanitizer_probe ${attack_programs})
    endif()
    if(WEFT_TRAIN)
      add_custom_target(memory DEPENDS sanitizer_probe ${memory_programs})
      add_custom_target(races DEPENDS sanitizer_probe ${race_programs})
    endif()
  elseif(WEFT_SANITIZED_TESTS)
    set(sanitized "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/sanitized_test.sh;${CMAKE_SOURCE_DIR}/build")
    if(WEFT_DATA)
      foreach(program ${attack_programs})
        weft_add_script_test(sanitized.${program} "${sanitized}/asan;tests/${program}" LABELS sanitized TIMEOUT 1800)
      endforeach()
    endif()
    if(WEFT_TRAIN)
      foreach(program ${memory_programs})
        weft_add_script_test(memory.${program} "${sanitized}/asan;tests/${program}" LABELS sanitized TIMEOUT 1800)
      endforeach()
      foreach(program ${race_programs})
        weft_add_script_test(races.${program} "${sanitized}/tsan;tests/${program}" LABELS sanitized TIMEOUT 1800)
      endforeach()
    endif()
  endif()
endfunction()
