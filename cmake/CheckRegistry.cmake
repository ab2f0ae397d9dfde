# Fails when a room refuses something outside of the registry of checks (src/util/checks.h, precast_check in
# src/artifact/driver/checks.inc):  cmake -DSOURCE=. -P CheckRegistry.cmake
set(wrong)
function(forbid pattern advice)  # forbid(regex advice file...)
  foreach(file ${ARGN})
    file(STRINGS "${file}" lines REGEX "${pattern}")
    foreach(line ${lines})
      string(APPEND wrong "\n  ${file}: ${line}\n    ${advice}")
    endforeach()
  endforeach()
  set(wrong "${wrong}" PARENT_SCOPE)
endfunction()

file(GLOB files "${SOURCE}/src/trace/*.cpp")
# A refusal of the process, not of a program: it needs another library that holds the dispatch key.
list(FILTER files EXCLUDE REGEX "torch_internals.cpp$")
forbid("PrecompileError\\(" "use refuse(Check::..., message)" ${files} "${SOURCE}/src/api/capture.cpp"
  "${SOURCE}/src/api/runnable.cpp" "${SOURCE}/src/host_torch/effects.cpp")
file(GLOB files "${SOURCE}/src/artifact/driver/*.inc")
forbid("PRECAST_CONTRACT, m\\)" "use precast_refuse(host, PRECAST_CHECK_..., m)" ${files})
if(wrong)
  message(FATAL_ERROR "these checks are not in the registry:${wrong}")
endif()
