# Finds LibTorch's headers, libtorch_cpu and libc10 without find_package(Torch), which stops on a CUDA build
# where there is no CUDA toolkit. A CUDA or ROCm build works too: its CPU half is what is used.
# Input: TORCH_DIR (a folder with include/ and lib/). Output: target precast::libtorch, TORCH_VERSION, TORCH_DIR.
if(NOT TORCH_DIR)
  set(TORCH_DIR "$ENV{TORCH_DIR}")
endif()
if(NOT TORCH_DIR)
  foreach(python python3 "${CMAKE_SOURCE_DIR}/.venv/bin/python3")
    execute_process(
      COMMAND ${python} -c "import importlib.util as u; s=u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
      OUTPUT_VARIABLE torch_found OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(torch_found)
      set(TORCH_DIR "${torch_found}")
      break()
    endif()
  endforeach()
endif()

set(torch_version_file "")
foreach(candidate include/torch/headeronly/version.h include/torch/csrc/api/include/torch/version.h)
  if(NOT torch_version_file AND EXISTS "${TORCH_DIR}/${candidate}")
    set(torch_version_file "${TORCH_DIR}/${candidate}")
  endif()
endforeach()
if(NOT TORCH_DIR)
  message(FATAL_ERROR "LibTorch was not found. Set TORCH_DIR to a folder with include/ and lib/ (a LibTorch download or "
    "the 'torch' folder of a Python environment), or run `make setup`, which installs torch into .venv.")
elseif(NOT torch_version_file)
  message(FATAL_ERROR "TORCH_DIR is ${TORCH_DIR}, and no LibTorch is there: expected a folder with include/torch and "
    "lib/libtorch_cpu.so (a LibTorch download or the 'torch' folder of a Python environment).")
endif()

file(READ "${torch_version_file}" torch_version_header)
set(TORCH_VERSION "")
foreach(part MAJOR MINOR PATCH)
  string(REGEX MATCH "TORCH_VERSION_${part} ([0-9]+)" _ "${torch_version_header}")
  list(APPEND TORCH_VERSION "${CMAKE_MATCH_1}")
endforeach()
list(JOIN TORCH_VERSION "." TORCH_VERSION)
if(TORCH_VERSION VERSION_LESS 2.13)
  message(FATAL_ERROR "LibTorch ${TORCH_VERSION} at ${TORCH_DIR} is too old: precast needs 2.13 or newer. Set TORCH_DIR "
    "to a newer one; `make test-torch TORCH=2.13.0` installs one for this project alone.")
endif()
foreach(library torch_cpu c10)
  if(NOT EXISTS "${TORCH_DIR}/lib/lib${library}.so")
    message(FATAL_ERROR "LibTorch at ${TORCH_DIR} is not whole: lib/lib${library}.so is missing.")
  endif()
endforeach()

if(NOT TARGET precast::libtorch)
  message(STATUS "LibTorch ${TORCH_VERSION}: ${TORCH_DIR}")
  file(GLOB torch_openmp "${TORCH_DIR}/lib/libgomp*.so*")  # the runtime of its threads; wheels carry their own
  list(APPEND torch_openmp gomp)
  list(GET torch_openmp 0 torch_openmp)
  add_library(precast::libtorch INTERFACE IMPORTED GLOBAL)
  set_target_properties(precast::libtorch PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${TORCH_DIR}/include;${TORCH_DIR}/include/torch/csrc/api/include"
    INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${TORCH_DIR}/include;${TORCH_DIR}/include/torch/csrc/api/include"
    INTERFACE_LINK_LIBRARIES "${TORCH_DIR}/lib/libtorch_cpu.so;${TORCH_DIR}/lib/libc10.so;${torch_openmp}"
    # A CUDA build's libtorch_cpu names libraries of CUDA, found at run time through its own path, not by the linker.
    INTERFACE_LINK_OPTIONS
      "LINKER:-rpath,${TORCH_DIR}/lib;LINKER:--no-as-needed;LINKER:--unresolved-symbols=ignore-in-shared-libs")
endif()
