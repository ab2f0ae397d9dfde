# A room is a folder of src/; these functions make targets of rooms.
function(precast_sources out)  # precast_sources(out room...): all src/ROOM/*.cpp
  set(sources)
  foreach(room ${ARGN})
    file(GLOB room_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/${room}/*.cpp")
    list(APPEND sources ${room_sources})
  endforeach()
  set(${out} "${sources}" PARENT_SCOPE)
endfunction()

function(precast_room target)  # precast_room(target room...): a static library
  precast_sources(sources ${ARGN})
  add_library(${target} STATIC ${sources})
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_include_directories(${target}
    PUBLIC "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>" "$<INSTALL_INTERFACE:include>"
    PRIVATE "${PROJECT_SOURCE_DIR}/src")
  target_compile_definitions(${target} PRIVATE PRECAST_VERSION="${PROJECT_VERSION}")
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:precast_warnings>)
endfunction()

function(precast_program target room library)
  precast_sources(sources ${room})
  add_executable(${target} ${sources})
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/src")
  target_compile_definitions(${target} PRIVATE PRECAST_VERSION="${PROJECT_VERSION}")
  target_link_libraries(${target} PRIVATE ${library} precast_warnings)
endfunction()

function(precast_plugin target room library)
  precast_sources(sources ${room})
  if(sources)
    add_library(${target} SHARED ${sources})
    target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/src")
    target_compile_definitions(${target} PRIVATE PRECAST_VERSION="${PROJECT_VERSION}")
    target_link_libraries(${target} PRIVATE ${library} precast_warnings)
    target_precompile_headers(${target} REUSE_FROM ${library})
  endif()
endfunction()

# The precompiled header that tests, demo and benchmarks share: target_precompile_headers(TARGET REUSE_FROM ...). It is
# heavier than the library's: every user pays some seconds for templates that torch/torch.h leaves open.
function(precast_torch_headers target)
  file(GENERATE OUTPUT "${PROJECT_BINARY_DIR}/generated/empty.cpp" CONTENT "")
  add_library(${target} OBJECT "${PROJECT_BINARY_DIR}/generated/empty.cpp")
  target_compile_options(${target} PRIVATE -O1)
  target_link_libraries(${target} PRIVATE precast::libtorch precast_warnings)
  target_precompile_headers(${target} PRIVATE <torch/torch.h> <torch/script.h>)
endfunction()
