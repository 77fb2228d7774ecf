# SPDX-License-Identifier: BSD-3-Clause
# The optional components, looked for on the machine that uses them: included by our CMakeLists.txt and by the installed
# tesseraConfig.cmake. A component that is found becomes the target tessera::<component>, which links its library and
# defines TESSERA_HAS_<COMPONENT>=1; one that is not found leaves the sentence tessera_<component>_WANTS behind.
# `kernels` is always found: it is tessera_kernels_source, which the file that includes this one names, as it does
# tessera_cuda_source, the kernels of `cuda`.
include_guard(GLOBAL)

# The kernels and the walk over networks, compiled once in the project that asks for them instead of in each of its files
# that trains. Optimized also where the rest is not: nobody debugs them, and with large layers they are most of the time.
function(tessera_add_kernels)
  add_library(tessera_kernels STATIC EXCLUDE_FROM_ALL ${ARGN})
  add_library(tessera::kernels ALIAS tessera_kernels)
  target_link_libraries(tessera_kernels PUBLIC tessera::tessera)
  target_compile_definitions(tessera_kernels PUBLIC TESSERA_LINKED_KERNELS)
  target_compile_options(tessera_kernels PRIVATE $<$<NOT:$<CONFIG:Release,RelWithDebInfo,MinSizeRel>>:-O2>)
  # A program then carries the kernels it uses, not all of them: one that only adds vectors has 32 KB instead of 1.1 MB.
  target_compile_options(tessera_kernels PRIVATE -ffunction-sections -fdata-sections)
  target_link_options(tessera_kernels INTERFACE
    $<IF:$<PLATFORM_ID:Darwin>,LINKER:-dead_strip,LINKER:--gc-sections>)
  set_target_properties(tessera_kernels PROPERTIES POSITION_INDEPENDENT_CODE ON)  # a shared library may want them too
endfunction()

# The kernels of a device, compiled by nvcc for the architectures that there are; the last of them also as PTX, which a driver
# compiles for newer ones. Nothing else is CUDA: no project has to enable that language.
set(TESSERA_CUDA_ARCHITECTURES 75 80 90 100 120 CACHE STRING "What tessera::cuda is compiled for")
mark_as_advanced(TESSERA_CUDA_ARCHITECTURES)
function(tessera_add_cuda_kernels source)
  set(object ${CMAKE_CURRENT_BINARY_DIR}/tessera_cuda_kernels${CMAKE_CXX_OUTPUT_EXTENSION})
  set(targets)
  foreach(architecture IN LISTS TESSERA_CUDA_ARCHITECTURES)
    list(APPEND targets -gencode arch=compute_${architecture},code=sm_${architecture})
  endforeach()
  list(GET TESSERA_CUDA_ARCHITECTURES -1 last)
  list(APPEND targets -gencode arch=compute_${last},code=compute_${last})
  add_custom_command(OUTPUT ${object} DEPENDS ${source}
    COMMAND ${CUDAToolkit_NVCC_EXECUTABLE} -c -O3 -std=c++17 -Xcompiler -fPIC ${targets} ${source} -o ${object}
    COMMENT "Compiling the device's kernels for ${TESSERA_CUDA_ARCHITECTURES}" VERBATIM)
  set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
  add_library(tessera_cuda_kernels STATIC EXCLUDE_FROM_ALL ${object})
  set_target_properties(tessera_cuda_kernels PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(tessera_cuda_kernels PUBLIC CUDA::cudart)
endfunction()

# A macro, because find_package() answers in variables that later calls in the same scope may need.
macro(tessera_find_component component)
  set(tessera_${component}_FOUND FALSE)
  set(_tessera_links)
  set(_tessera_includes)

  if("${component}" STREQUAL "kernels")
    set(tessera_${component}_FOUND TRUE)
    if(NOT TARGET tessera::kernels)
      tessera_add_kernels(${tessera_kernels_source})
    endif()
  elseif("${component}" STREQUAL "openmp")
    set(tessera_${component}_WANTS "a C++ compiler with OpenMP (clang: the matching libomp package)")
    find_package(OpenMP QUIET COMPONENTS CXX)
    if(OpenMP_CXX_FOUND)
      set(_tessera_links OpenMP::OpenMP_CXX)
    endif()
  elseif("${component}" STREQUAL "xtensor")
    set(tessera_${component}_WANTS "xtensor (Debian: libxtensor-dev)")
    find_package(xtensor CONFIG QUIET)
    if(TARGET xtensor::xtensor)
      set(_tessera_links xtensor::xtensor)
    elseif(TARGET xtensor)
      set(_tessera_links xtensor)
    endif()
  elseif("${component}" STREQUAL "blas")
    # Not the target xtensor-blas: Debian's names the OpenBLAS of the machine it was packaged on.
    set(tessera_${component}_WANTS "xtensor, xtensor-blas, BLAS and LAPACK (Debian: libxtensor-blas-dev libopenblas-dev)")
    if(NOT TARGET tessera::xtensor)
      tessera_find_component(xtensor)
      set(_tessera_links)
        endif()
    find_package(BLAS QUIET)
    find_package(LAPACK QUIET)
    find_path(tessera_XTENSOR_BLAS_INCLUDE xtensor-blas/xlinalg.hpp)
    mark_as_advanced(tessera_XTENSOR_BLAS_INCLUDE)
    if(TARGET tessera::xtensor AND BLAS_FOUND AND LAPACK_FOUND AND tessera_XTENSOR_BLAS_INCLUDE)
      set(_tessera_links tessera::xtensor LAPACK::LAPACK BLAS::BLAS)
      set(_tessera_includes ${tessera_XTENSOR_BLAS_INCLUDE})
    endif()
  elseif("${component}" STREQUAL "zlib")
    set(tessera_${component}_WANTS "zlib (Debian: zlib1g-dev)")
    find_package(ZLIB QUIET)
    if(ZLIB_FOUND)
      set(_tessera_links ZLIB::ZLIB)
    endif()
  elseif("${component}" STREQUAL "cuda")
    set(tessera_${component}_WANTS "the CUDA toolkit, 12.8 or newer, with nvcc, cuBLAS and cuSPARSE")
    find_package(CUDAToolkit 12.8 QUIET)
    if(CUDAToolkit_NVCC_EXECUTABLE AND TARGET CUDA::cudart AND TARGET CUDA::cublas AND TARGET CUDA::cusparse)
      if(NOT TARGET tessera_cuda_kernels)
        tessera_add_cuda_kernels("${tessera_cuda_source}")
      endif()
      set(_tessera_links tessera_cuda_kernels CUDA::cublas CUDA::cusparse CUDA::cudart)
    endif()
  elseif("${component}" STREQUAL "mpi")
    set(tessera_${component}_WANTS "MPI (Debian: libopenmpi-dev or libmpich-dev)")
    find_package(MPI QUIET COMPONENTS CXX)
    if(MPI_CXX_FOUND)
      set(_tessera_links MPI::MPI_CXX)
    endif()
  elseif("${component}" STREQUAL "json")
    set(tessera_${component}_WANTS "nlohmann/json (Debian: nlohmann-json3-dev)")
    find_package(nlohmann_json CONFIG QUIET)
    if(TARGET nlohmann_json::nlohmann_json)
      set(_tessera_links nlohmann_json::nlohmann_json)
    endif()
  else()
    set(tessera_${component}_WANTS
      "a component of that name: there are kernels, openmp, xtensor, blas, zlib, json, mpi and cuda")
  endif()

  if(_tessera_links)
    set(tessera_${component}_FOUND TRUE)
    if(NOT TARGET tessera::${component})
      string(TOUPPER "${component}" _tessera_upper)
      add_library(tessera::${component} INTERFACE IMPORTED GLOBAL)
      set_target_properties(tessera::${component} PROPERTIES
        INTERFACE_LINK_LIBRARIES "tessera::tessera;${_tessera_links}"
        INTERFACE_COMPILE_DEFINITIONS TESSERA_HAS_${_tessera_upper}=1
        INTERFACE_INCLUDE_DIRECTORIES "${_tessera_includes}")
    endif()
  endif()
endmacro()
