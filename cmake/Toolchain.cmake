# Compiler flags of the whole project. Everything is compiled -fPIC (programs too), so that all targets that include
# LibTorch can share precompiled headers.
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
add_compile_options(-fPIC)
find_package(Threads REQUIRED)

if(PRECAST_LIBFUZZER)
  add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined -g1
    -Wno-deprecated-declarations)  # libstdc++ 12 uses what clang 19 calls deprecated
  add_link_options(-fsanitize=address,undefined)
endif()
if(PRECAST_SANITIZE)
  # No vptr checks: LibTorch hides some of the type information that they need.
  add_compile_options(-fsanitize=address,undefined -fno-sanitize=vptr -fno-sanitize-recover=undefined
    -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
  # -O2 with sanitizers makes g++ 12 see uninitialized values in LibTorch's small vectors.
  set(PRECAST_SANITIZER_WARNINGS -Wno-maybe-uninitialized)
endif()

add_library(precast_warnings INTERFACE)
# g++ 12 sees overlaps in `"text" + std::string` that are not there (GCC bug 105329).
target_compile_options(precast_warnings INTERFACE -Wall -Wextra -Werror ${PRECAST_SANITIZER_WARNINGS} $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)

find_program(PRECAST_CCACHE ccache)
if(PRECAST_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${PRECAST_CCACHE}")
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-fpch-preprocess)  # what ccache needs to cache users of a precompiled header
  endif()
endif()
