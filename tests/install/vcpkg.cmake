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

function(vcpkg_cmake_config_fixup)  # vcpkg keeps package files in share/<name>
  cmake_parse_arguments(PARSE_ARGV 0 port "" "PACKAGE_NAME;CONFIG_PATH" "")
  must_exist(${CURRENT_PACKAGES_DIR}/${port_CONFIG_PATH}/${port_PACKAGE_NAME}Config.cmake)
endfunction()

function(vcpkg_fixup_pkgconfig)
  must_exist(${CURRENT_PACKAGES_DIR}/share/pkgconfig/tessera.pc)
endfunction()

function(vcpkg_install_copyright)
  cmake_parse_arguments(PARSE_ARGV 0 port "" "" FILE_LIST)
  must_exist(${port_FILE_LIST})
endfunction()

include(${PORT})
