#include "artifact/build.h"

#include "artifact/cache.h"
#include "artifact/isa.h"
#include "artifact/toolchain.h"
#include "util/sha256.h"
#include "util/warn.h"

namespace precast::artifact {

PairBytes build_pair(const Signature& signature, const ir::Graph& recorded, const emit::Emitted* emitted,
                     const ComposeOptions& options) {
  PairBytes pair;
  pair.code = compose(signature, recorded, emitted, options);
  Cache cache{signature.backend, signature.tracer, sha256_hex(pair.code), {}};
  if (emitted) {
    const std::vector<std::string> compiler = find_compiler();
    if (compiler.empty())
      warn(
          "no C++ compiler found ($CXX, c++, g++, clang++ in PATH): the cache holds no compiled form, so the artifact "
          "is compiled when it is loaded where there is one");
    else
      cache.variants.push_back(
          {target_name(), compiler_version(compiler), resolve_isas(options.isa), compile_artifact(pair.code)});
  }
  pair.cache = write_cache(cache);
  return pair;
}

}  // namespace precast::artifact
