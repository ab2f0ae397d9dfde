// Everything that parses, on damaged input: thousands of seeded mutations of good examples. A parser may accept what is
// still good, or refuse with one of precast's errors; it may not crash, hang or fail in another way. `make asan` runs
// this with sanitizers.
#include <doctest/doctest.h>

#include <functional>
#include <limits>

#include "artifact/cache.h"
#include "artifact/compose.h"
#include "artifact/metadata.h"
#include "artifact/sample.h"
#include "artifact/spec.h"
#include "artifact/tables.h"
#include "fuzz/random.h"
#include "io/input.h"
#include "io/npy.h"
#include "io/safetensors.h"
#include "ir/print.h"
#include "ir/verify.h"
#include "precast/error.h"
#include "scratch.h"
#include "util/errors.h"

using namespace precast;
using fuzz::Random;

namespace {

// One small damage: a byte, a cut, a repeated or moved piece, a number made huge.
std::string mutated(std::string text, Random& random) {
  const auto place = [&] {
    return static_cast<size_t>(random.integer(0, std::max<int64_t>(static_cast<int64_t>(text.size()) - 1, 0)));
  };
  for (int64_t n = random.integer(1, 3); n > 0 && !text.empty(); --n) {
    const size_t at = place();
    switch (random.integer(0, 6)) {
      case 0:
        text[at] = static_cast<char>(random.integer(0, 255));
        break;
      case 1:
        text[at] = random.choose(
            {'0', '9', '-', '"', '\'', '(', ')', '[', ']', '{', '}', ',', ':', '%', '=', ' ', '\n', '\\'});
        break;
      case 2:
        text.resize(at);
        break;
      case 3:
        text.erase(at, static_cast<size_t>(random.integer(1, 12)));
        break;
      case 4:
        text.insert(place(), text.substr(at, static_cast<size_t>(random.integer(1, 40))));
        break;
      case 5:
        text.insert(at, random.choose<const char*>(
                            {"18446744073709551616", "-1", "9223372036854775807", "1e999", "99999999", "nan"}));
        break;
      default: {
        const size_t digit = text.find_first_of("0123456789", at);
        if (digit != std::string::npos) text[digit] = static_cast<char>('0' + random.integer(0, 9));
      }
    }
  }
  return text;
}

void try_all(const std::string& good, int times, const std::function<void(const std::string&)>& parse) {
  parse(good);
  int refused = 0;
  for (int i = 0; i < times; ++i) {
    Random random(static_cast<uint64_t>(i));
    const std::string text = mutated(good, random);
    try {
      parse(text);
    } catch (const PrecompileError&) {
      ++refused;
    } catch (const std::invalid_argument&) {
      ++refused;
    } catch (const std::exception& e) {
      FAIL_CHECK("mutation " << i << ": another kind of error: " << e.what());
    }
  }
  CHECK(refused > times / 20);  // else the mutations hit nothing; most of an artifact is kernels and driver, not parsed
}

std::string as_text(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

TEST_CASE("graph text") {
  const std::string good =
      "graph(%0: f32[64,784] \"x\", %1: f32[256,784] \"fc1.weight\", %2: i64[4]{2}) {\n"
      "  %3: f32[784,256]{1,784} = prim::view(base=%1, offset=0)\n"
      "  %4: f32[64,256] = aten::mm(self=%0, mat2=%3)\n"
      "  _ = aten::add_.Tensor(self=%4 -> %5: f32[64,256], other=%4, alpha=1)\n"
      "  return (%5, %2)\n"
      "}\n";
  try_all(good, 5000, [](const std::string& text) {
    const ir::Graph g = ir::parse(text);
    try {
      ir::verify(g, "test");
    } catch (const InternalError&) {  // text of a graph that breaks a rule
      return;
    }
    CHECK(ir::print(ir::parse(ir::print(g))) == ir::print(g));
  });
}

TEST_CASE("structure strings") {
  try_all("(*, [*, {'k': *, 'm': (*, *)}], Batch(x=*, y=[*]), (*,))", 5000, [](const std::string& text) {
    const artifact::Tree tree = artifact::parse_tree(text);
    CHECK(artifact::print(artifact::parse_tree(artifact::print(tree))) == artifact::print(tree));
  });
}

TEST_CASE("metadata") {
  const artifact::Sample s = artifact::sample();
  try_all(artifact::to_json(artifact::describe(s.signature, s.graph, &s.emitted)), 4000, [](const std::string& text) {
    const artifact::Metadata m = artifact::from_json(text);
    const artifact::Tables tables(m);
    CHECK(tables.spec().n_params == static_cast<int>(m.signature.params.size()));
  });

  artifact::Metadata sized = artifact::describe(s.signature, s.graph, &s.emitted);
  const ir::Size u0 = ir::Size::symbol(sized.symbols.emplace_back(ir::Symbol{.id = 0, .min = 1, .max = 64}));
  sized.signature.leaves[0].tensor.type = ir::contiguous(ir::Dtype::f32, {u0});
  sized.constraints = {u0 - 2}, sized.arena_slots = {4 * u0, ir::max(ir::floor_div(u0, 2), 3)};
  try_all(artifact::to_json(sized), 4000, [](const std::string& text) {
    const artifact::Metadata m = artifact::from_json(text);
    const artifact::Tables tables(m);
    CHECK(tables.spec().n_symbols == static_cast<int>(m.symbols.size()));
  });
}

TEST_CASE("text of an artifact") {
  const artifact::Sample s = artifact::sample();
  try_all(artifact::compose(s.signature, s.graph, nullptr, {}), 1500, [](const std::string& text) {
    const artifact::Text read = artifact::read_artifact_text(text, "model.cpp");
    ir::parse(read.graph);
  });
}

TEST_CASE("cache") {
  const artifact::Cache cache{"inductor",
                              "make_fx",
                              std::string(64, 'a'),
                              {{"x86_64-linux", "g++ 12", {"avx2", "baseline"}, std::vector<std::byte>(64)}}};
  int problems = 0;
  const std::string good = as_text(artifact::write_cache(cache));
  for (int i = 0; i < 4000; ++i) {
    Random random(static_cast<uint64_t>(i));
    const std::string text = mutated(good, random);
    if (text == good) continue;
    problems += std::holds_alternative<artifact::CacheProblem>(artifact::read_cache(std::as_bytes(std::span(text))));
  }
  CHECK(problems > 3900);
}

TEST_CASE("files of tensors") {
  const Scratch dir;
  io::write_npy(dir.path / "a.npy", *io::parse_input("f32[3,4]", 1).array);
  try_all(dir.read("a.npy"), 1500, [&](const std::string& text) {
    dir.write("m.npy", text);
    io::read_npy(dir.path / "m.npy");
  });
  io::write_safetensors(dir.path / "a.safetensors",
                        {{"w", *io::parse_input("f32[3,4]", 1).array}, {"b", *io::parse_input("i8[5]", 1).array}});
  try_all(dir.read("a.safetensors"), 1500, [&](const std::string& text) {
    dir.write("m.safetensors", text);
    io::read_safetensors(dir.path / "m.safetensors");
  });
}

/// Some number has more than four digits.
bool large(const std::string& text) {
  int digits = 0;
  for (const char c : text)
    if ((digits = c >= '0' && c <= '9' ? digits + 1 : 0) > 4) return true;
  return false;
}

TEST_CASE("arguments of the command line") {
  for (const char* good : {"f32[1,5,7]:randn", "i64[8,6]:0..500", "\"text\"", "0.5"})
    for (int i = 0; i < 2000; ++i) {
      Random random(static_cast<uint64_t>(i));
      const std::string text = mutated(good, random);
      if (large(text)) continue;  // legal, and takes memory that a test should not
      try {
        io::parse_input(text, 0);
      } catch (const std::invalid_argument&) {
      } catch (const PrecompileError&) {
      }
    }
}
