# SPDX-License-Identifier: BSD-3-Clause
# Plays the functions of vcpkg that our port calls, so that the port is run where vcpkg is not:
#   cmake -DPORT=portfile.cmake -DCURRENT_PACKAGES_DIR=... -DBUILD=... -DCOMPILER=... -P vcpkg.cmake
function(vcpkg_cmake_configure)
  cmake_parse_arguments(PARSE_ARGV 0 port "" SOURCE_PATH OPTIONS)
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${port_SOURCE_PATH} -B ${BUILD} -DCMAKE_CXX_COMPILER=${COMPILER}
    -DCMAKE_INSTALL_PREFIX=${CURRENT_PACKAGES_DIR} ${port_OPTIONS} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

function(vcpkg_cmake_install)
  execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

function(must_exist file)
  if(NOT EXISTS ${file})
    message(FATAL_ERROR "the port names ${file}, which is not there")
  endif()
endfunction()

# vcpkg keeps package files in share/<name>, and counts the way from there to the prefix anew.
function(vcpkg_cmake_config_fixup)
  cmake_parse_arguments(PARSE_ARGV 0 port "" "PACKAGE_NAME;CONFIG_PATH" "")
  must_exist(${CURRENT_PACKAGES_DIR}/${port_CONFIG_PATH}/${port_PACKAGE_NAME}Config.cmake)
  set(here ${CURRENT_PACKAGES_DIR}/share/${port_PACKAGE_NAME})
  file(RENAME ${CURRENT_PACKAGES_DIR}/${port_CONFIG_PATH} ${here})
  file(REMOVE_RECURSE ${CURRENT_PACKAGES_DIR}/share/cmake)
  file(GLOB scripts ${here}/*.cmake)
  set(up [[get_filename_component(_IMPORT_PREFIX "${_IMPORT_PREFIX}" PATH)
]])
  foreach(script IN LISTS scripts)
    file(READ ${script} text)
    string(REPLACE "${up}${up}${up}" "${up}${up}" text "${text}")
    string(REPLACE [["${CMAKE_CURRENT_LIST_DIR}/../../../"]] [["${CMAKE_CURRENT_LIST_DIR}/../../"]] text "${text}")
    file(WRITE ${script} "${text}")
  endforeach()
endfunction()

function(vcpkg_fixup_pkgconfig)
  must_exist(${CURRENT_PACKAGES_DIR}/share/pkgconfig/tessera.pc)
endfunction()

function(vcpkg_install_copyright)
  cmake_parse_arguments(PARSE_ARGV 0 port "" "" FILE_LIST)
  must_exist(${port_FILE_LIST})
endfunction()

include(${PORT})
