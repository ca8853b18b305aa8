# `cmake --install BUILD --prefix DIR` puts programs into bin/, job scripts and recipes into share/weft/jobs/, licence and notice into
# share/doc/weft/. `cpack -G DEB` in a build folder makes a Debian package of the same, whose dependencies dpkg-shlibdeps finds.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)  # tests need not be built first
foreach(program weft-data weft-train weft-model weft-run)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION bin)
  endif()
endforeach()
install(DIRECTORY jobs/ DESTINATION share/weft/jobs USE_SOURCE_PERMISSIONS PATTERN package EXCLUDE PATTERN quickstart.sh EXCLUDE)
install(FILES LICENSE jobs/package/NOTICE DESTINATION share/doc/weft)

set(CPACK_PACKAGE_NAME weft)
set(CPACK_PACKAGE_CONTACT "Weft <weft@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "turns raw text corpora into trained GPT models")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
if(MPI_C_FOUND)
  # The library comes by itself; mpirun and srun's plug-ins do not.
  set(CPACK_DEBIAN_PACKAGE_RECOMMENDS openmpi-bin)
endif()
include(CPack)
