#include "artifact/metadata.h"

#include "artifact/tables.h"
#include "target.h"

using namespace precast;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return refused_or_accepted(data, size, [](const std::string& text) {
    const artifact::Metadata m = artifact::from_json(text);
    const artifact::Tables tables(m);
    const std::string json = artifact::to_json(m);
    if (artifact::to_json(artifact::from_json(json)) != json) throw std::runtime_error("JSON reads as other metadata");
  });
}
