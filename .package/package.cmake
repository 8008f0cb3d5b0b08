# What `make install` puts where, and what CPack makes of it: `make deb`, `make tarball`.
foreach(section 1 5 7)
  file(GLOB pages CONFIGURE_DEPENDS man/*.${section})
  install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
endforeach()
install(FILES completions/wdelta.bash RENAME wdelta DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES completions/_wdelta DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES completions/wdelta.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
install(FILES README.md CHANGELOG.md LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/wdelta)
# Beside libwdelta itself (lib/CMakeLists.txt). There is none where everything is linked into the program.
if(NOT WDELTA_STATIC)
  install(FILES man/wdelta-library.3 DESTINATION ${CMAKE_INSTALL_MANDIR}/man3)
  install(FILES lib/python/wdelta.py DESTINATION ${CMAKE_INSTALL_DATADIR}/wdelta/python)
endif()

set(CPACK_PACKAGE_NAME wdelta)
set(CPACK_PACKAGE_VENDOR wdelta)
set(CPACK_PACKAGE_CONTACT "wdelta maintainers <maintainers@wdelta.invalid>")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_FILE_NAME wdelta-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "git for weights: a model's checkpoints as a versioned repository")
set(CPACK_PACKAGE_DESCRIPTION
    "wdelta keeps one checkpoint whole and of each later one only the bits that
changed. Training scripts push a commit for each save; servers, CI and people
pull, roll back and verify any of them, byte for byte.")
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
# Puts files where each kind of package has them.
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/stage.cmake)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION utils)
# Finds what is linked with; what is loaded by name it is told.
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libcurl4 (>= 7.85), libssl3")
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# What a package of a program that links with libwdelta depends on.
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "man-db, bash-completion, python3, pkg-config")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
include(CPack)
