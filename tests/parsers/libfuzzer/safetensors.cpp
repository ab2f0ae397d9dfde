#include "io/safetensors.h"

#include "file.h"
#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return refused_or_accepted(data, size, [](const std::string& bytes) {
    const MemoryFile file(bytes);
    precast::io::read_safetensors(file.path());
  });
}
