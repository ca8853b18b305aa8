# What the trainer takes from the CUDA toolkit's neighbours, where they are found:
#
#   NVTX3_INCLUDE_DIR          names of operations for NVIDIA's profilers; a header that loads their library at run time
#   WEFT_NCCL_LIBRARIES        collectives of several GPUs, with NCCL_INCLUDE_DIR. From NCCL 2.26 on, operations of several
#                              communicators keep the order in which they were enqueued; older ones are left out.
set(WEFT_NCCL_LIBRARIES "")
if(NOT WEFT_HAVE_CUDA)
  return()
endif()
find_path(NVTX3_INCLUDE_DIR nvtx3/nvToolsExt.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_library(NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR} ${CUDAToolkit_LIBRARY_ROOT}/lib)
if(NCCL_INCLUDE_DIR AND NCCL_LIBRARY)
  file(STRINGS ${NCCL_INCLUDE_DIR}/nccl.h lines REGEX "^#define NCCL_(MAJOR|MINOR) +[0-9]+")
  string(REGEX MATCHALL "[0-9]+" version "${lines}")
  string(REPLACE ";" "." WEFT_NCCL_VERSION "${version}")
  if(WEFT_NCCL_VERSION VERSION_GREATER_EQUAL 2.26)
    set(WEFT_NCCL_LIBRARIES ${NCCL_LIBRARY} CUDA::cudart_static)
  endif()
endif()
if(WEFT_NCCL_LIBRARIES)
  message(STATUS "  NCCL:                     ON (version ${WEFT_NCCL_VERSION})")
else()
  message(STATUS "  NCCL:                     OFF (no version from 2.26 on found): several GPUs need --distributed-backend mpi")
endif()
