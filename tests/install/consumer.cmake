# Installs precast into a folder of its own and builds and tests examples/consumer against it:
#   cmake -DBUILD=build/default -DSOURCE=examples/consumer -DGENERATOR=Ninja -DTORCH_DIR=... -P consumer.cmake
set(folder "${BUILD}/consumer")
function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()
file(REMOVE_RECURSE "${folder}")
run("${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${folder}/prefix")
run("${CMAKE_COMMAND}" -S "${SOURCE}" -B "${folder}/build" -G "${GENERATOR}" -DCMAKE_BUILD_TYPE=Release
  "-DCMAKE_PREFIX_PATH=${folder}/prefix" "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror ${CXX_FLAGS}")
run("${CMAKE_COMMAND}" --build "${folder}/build")
run("${CMAKE_CTEST_COMMAND}" --test-dir "${folder}/build" --output-on-failure)
