# precast_add_artifact(TARGET model.cpp): a static library of an artifact, to be linked into a program. Its one symbol
# is `precast_model`, or the name given at capture. Needs nothing: no header, no library, no LibTorch.
#
#   precast_add_artifact(digits digits.cpp)
#   target_link_libraries(app PRIVATE digits precast::runtime)   # precast_link(precast_model, &model)
function(precast_add_artifact target source)
  add_library(${target} STATIC "${source}")
  # What a plain `g++ -O3` does, whatever the project's own flags and warnings are: the text brings all else itself.
  target_compile_options(${target} PRIVATE -O3 -w)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_STANDARD 17 CXX_EXTENSIONS ON)
endfunction()
