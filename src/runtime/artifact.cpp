#include "runtime/artifact.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "artifact/cache.h"
#include "artifact/isa.h"
#include "artifact/pair.h"
#include "artifact/tables.h"
#include "artifact/toolchain.h"
#include "runtime/arena.h"
#include "runtime/driver.h"
#include "runtime/library.h"
#include "util/checks.h"
#include "util/errors.h"
#include "util/files.h"
#include "util/sha256.h"
#include "util/warn.h"

namespace precast::runtime {

using artifact::Cache;
using artifact::CacheProblem;
using artifact::CacheVariant;
using artifact::Metadata;

struct Artifact::State {
  artifact::Text text;
  artifact::Tables tables;  // points into text
  Library library;
  const precast_artifact* compiled = nullptr;
  ArenaPool arenas;

  State(artifact::Text t, Library l, const precast_artifact* c)
      : text(std::move(t)), tables(text.metadata), library(std::move(l)), compiled(c) {}
};

Artifact::Artifact(std::unique_ptr<State> state) : state_(std::move(state)) {}
Artifact::~Artifact() = default;

const artifact::Text& Artifact::text() const { return state_->text; }
Mode Artifact::mode() const {
  return state_->compiled && state_->text.metadata.signature.backend != "eager" ? Mode::compiled : Mode::graph;
}
const char* Artifact::isa() const { return state_->compiled ? state_->compiled->isa : "graph"; }
const precast_spec& Artifact::spec() const {
  return state_->compiled ? *state_->compiled->spec : state_->tables.spec();
}
int64_t Artifact::arena_bytes() const { return state_->compiled ? state_->compiled->arena_bytes : 0; }
int64_t Artifact::prepared_bytes() const { return state_->compiled ? state_->compiled->prepared_bytes : 0; }

int Artifact::check_modules(const precast_host& host, const precast_named* entries, int n_entries, int* slot_of) const {
  if (state_->compiled) return state_->compiled->check_modules(&host, entries, n_entries, slot_of);
  return driver::check_modules(spec(), &host, entries, n_entries, slot_of);
}

namespace {

struct Borrowed {  // scratch memory for the length of a call
  ArenaPool& pool;
  ArenaPool::Block* block = nullptr;
  explicit Borrowed(ArenaPool& from) : pool(from) {}
  ~Borrowed() { pool.give_back(block); }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;

  char* take(int64_t bytes) {
    block = pool.take(bytes);
    return block ? block->data : nullptr;
  }
};

/// precast_call.take_arena: an exception must not pass through the artifact.
char* take_arena(void* borrowed, precast_i64 bytes) {
  try {
    return static_cast<Borrowed*>(borrowed)->take(std::max<int64_t>(bytes, 64));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

}  // namespace

int Artifact::prepare(const precast_host& host, precast_call& call, char* prepared) const {
  if (!state_->compiled) return driver::check_bound(spec(), &host, &call);
  Borrowed arena(state_->arenas);
  call.arena = arena.take(state_->compiled->arena_bytes);
  return state_->compiled->prepare(&host, &call, prepared);
}

int Artifact::call(const precast_host& host, precast_call& call) const {
  if (!state_->compiled) return driver::call_graph(spec(), &host, &call);
  Borrowed arena(state_->arenas);
  if (spec().n_slots_of_arena > 0) {
    call.take_arena = take_arena, call.arena_context = &arena;
  } else {
    call.arena = arena.take(state_->compiled->arena_bytes);
  }
  return state_->compiled->call(&host, &call);
}

// ---- Loading ----

namespace {

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::string differs(const std::string& field, const std::string& expected, const std::string& found) {
  return field + ": expected " + expected + ", found " + found;
}

// A cache that is whole and current must belong to this very text.
void check_pairing(const Cache& cache, const Metadata& m, std::string_view code, const std::string& name) {
  const auto same = [&](Check check, const char* field, const std::string& expected, const std::string& found) {
    if (expected != found)
      refuse(check,
             name + " does not belong to this artifact: " + differs(field, "'" + expected + "'", "'" + found + "'") +
                 ". Pass the two files that one capture wrote; a text that was edited or cut belongs to no cache.");
  };
  same(Check::load_backend, "backend", m.signature.backend, cache.backend);
  same(Check::load_tracer, "tracer", m.signature.tracer, cache.tracer);
  same(Check::load_code_hash, "code_hash", sha256_hex(code), cache.code_hash);
}

int rank(const CacheVariant& v) {  // of the best section that this processor runs; -1 if none
  int best = -1;
  for (const artifact::Isa& isa : artifact::all_isas())
    for (const std::string& name : v.isa)
      if (name == isa.name && artifact::cpu_runs(name)) best = std::max(best, isa.level);
  return best;
}

// The variant to load, or null and why.
const CacheVariant* best_variant(const Cache& cache, std::string& why) {
  const CacheVariant* best = nullptr;
  why = "payload: expected a compiled form, found none";
  for (const CacheVariant& v : cache.variants) {
    if (v.target != artifact::target_name())
      why = differs("target", artifact::target_name(), v.target);
    else if (rank(v) < 0)
      why = differs("isa", "one that this processor runs", joined(v.isa));
    else if (best == nullptr || rank(v) > rank(*best))
      best = &v;
  }
  return best;
}

}  // namespace

struct Loader {
  std::string code, name;
  artifact::Text text;
  LoadOptions options;
  std::string cache_name;

  Loader(std::string c, std::string artifact, const LoadOptions& o, std::string cache)
      : code(std::move(c)),
        name(std::move(artifact)),
        text(artifact::read_artifact_text(code, name)),
        options(o),
        cache_name(std::move(cache)) {}

  static ArtifactPtr make(artifact::Text text, Library library, const precast_artifact* compiled) {
    auto state = std::make_unique<Artifact::State>(std::move(text), std::move(library), compiled);
    return ArtifactPtr(new Artifact(std::move(state)));
  }

  // The library's entry must serve this text and this processor.
  const precast_artifact* entry_of(const Library& library) const {
    const std::string& symbol = text.metadata.symbol;
    const auto entry = reinterpret_cast<precast_entry>(library.symbol(symbol));
    if (entry == nullptr) throw PrecompileError("it does not define " + symbol);
    const precast_artifact* made = entry();
    if (made == nullptr)
      throw PrecompileError(differs("isa", "a section that this processor runs", joined(text.metadata.isa)));
    if (made->abi_version != PRECAST_ABI_VERSION || made->struct_size < sizeof(precast_artifact))
      throw PrecompileError(
          differs("ABI version", std::to_string(PRECAST_ABI_VERSION), std::to_string(made->abi_version)));
    if (text.graph != made->graph) throw PrecompileError("it was made from another text");
    return made;
  }

  ArtifactPtr from_library(std::span<const std::byte> shared_object) {
    Library library(shared_object);
    const precast_artifact* made = entry_of(library);
    return make(std::move(text), std::move(library), made);
  }

  ArtifactPtr from_cache(std::span<const std::byte> bytes, std::string& why) {
    const auto read = artifact::read_cache(bytes);
    if (const auto* problem = std::get_if<CacheProblem>(&read)) {
      why = differs(problem->field, problem->expected, problem->found);
      return nullptr;
    }
    const Cache& cache = std::get<Cache>(read);
    check_pairing(cache, text.metadata, code, cache_name);
    if (text.metadata.signature.backend == "eager") return nullptr;
    const CacheVariant* variant = best_variant(cache, why);
    if (variant == nullptr) return nullptr;
    try {
      return from_library(variant->payload);
    } catch (const PrecompileError& error) {
      why = std::string("payload: ") + error.what();
      return nullptr;
    }
  }

  // `why` says what is wrong with the cache; empty if it was not asked for.
  ArtifactPtr from_text(const std::string& why) {
    const std::string reason = why.empty() ? "" : cache_name + " is not used (" + why + "); ";
    std::string failure = "no C++ compiler was found ($CXX, c++, g++, clang++ in PATH)";
    if (!artifact::find_compiler().empty()) {
      if (!reason.empty()) warn(reason + "the artifact is compiled from its text, which takes longer");
      try {
        return from_library(artifact::compile_artifact(code));
      } catch (const PrecompileError& error) {
        failure = std::string("the text cannot be compiled here: ") + error.what();
      }
    } else {
      failure = reason + failure;
    }
    if (!options.host_runs_graphs)
      throw PrecompileError(failure +
                            ". Without LibTorch an artifact needs a cache made for this machine, or a compiler.");
    warn(failure + "; the recorded graph is run op by op instead, which is right but slower");
    return make(std::move(text), {}, nullptr);
  }

  ArtifactPtr load(std::span<const std::byte> cache) {
    if (options.announce)
      warn("loading " + name +
           ": an artifact and its cache are executable input; load only files that you made or trust");
    std::string why;
    if (options.use_cache)
      if (ArtifactPtr loaded = from_cache(cache, why)) return loaded;
    if (text.metadata.signature.backend != "eager") return from_text(why);
    if (!why.empty()) warn(cache_name + " is not used (" + why + "); backend=\"eager\" runs without it");
    return make(std::move(text), {}, nullptr);
  }
};

ArtifactPtr load(const std::filesystem::path& artifact_path, const std::filesystem::path& cache_path,
                 const LoadOptions& options) {
  artifact::PairBytes pair;
  if (options.use_cache)
    pair = artifact::read_pair(artifact_path, cache_path);
  else
    pair.code = read_text_file(artifact_path, "artifact");
  return Loader(std::move(pair.code), artifact_path.string(), options, cache_path.string()).load(pair.cache);
}

ArtifactPtr load_from_memory(std::string code, std::span<const std::byte> cache, const LoadOptions& options) {
  return Loader(std::move(code), "the artifact text", options, "the cache").load(cache);
}

ArtifactPtr link(precast_entry entry) {
  PRECAST_CHECK(entry != nullptr, "link() needs the artifact's entry");
  const precast_artifact* made = entry();
  if (made == nullptr)
    throw PrecompileError(
        "the linked artifact has no section for this processor. Capture it with isa {\"native\", \"baseline\"}.");
  if (made->abi_version != PRECAST_ABI_VERSION)
    throw PrecompileError("the linked artifact has " + differs("ABI version", std::to_string(PRECAST_ABI_VERSION),
                                                               std::to_string(made->abi_version)));
  artifact::Text text{artifact::from_json(made->metadata), made->graph};
  return Loader::make(std::move(text), {}, made);
}

}  // namespace precast::runtime
