#include "artifact/compose.h"

#include <stdexcept>

#include "artifact/embedded.h"
#include "artifact/isa.h"
#include "artifact/literal.h"
#include "artifact/symbol.h"
#include "artifact/tables.h"
#include "ir/print.h"
#include "util/errors.h"

namespace precast::artifact {
namespace {

constexpr std::string_view kFirstLine = "// precast artifact, format 1: ";
constexpr std::string_view kMetadata = "\nstatic const char precast_metadata[] =\n";
constexpr std::string_view kGraph = "\nstatic const char precast_graph[] =\n";

std::string title(std::string_view name) { return "\n// ---- " + std::string(name) + " ----\n\n"; }

const Isa& isa_named(const std::string& name) {
  for (const Isa& isa : all_isas())
    if (name == isa.name) return isa;
  internal_error(__FILE__, __LINE__, "no such instruction set: " + name);
}

std::string header(const Metadata& m) {
  const std::string n = std::to_string(m.total_ops);
  const std::string what = m.signature.backend == "eager"
                               ? n + " ops, run through the host"
                               : n + " ops, " + std::to_string(m.lowered_ops) + " lowered, " +
                                     std::to_string(m.host_ops.size()) + " run by the host";
  return std::string(kFirstLine) + what + R"(
//
// One C++ file (C++14 or later) without headers. It holds, in order: metadata (JSON, read and never executed), the recorded graph,
// the kernels, the driver with all checks of a call. It holds no weights: the model is passed to each call.
//
//   build it alone     g++ -O3 -shared -fPIC THIS_FILE -o model.so      (clang++ takes the same flags)
//   or link it in      compile it with your program; the one symbol it defines is )" +
         m.symbol + R"(()
//
// The kernels stand here once and are compiled once per instruction set: the file includes itself with PRECAST_ISA set.
// With -DPRECAST_PART=k only one part is compiled, so that parts compile in parallel; see the end of section 3.
// This text is executable input: run only what you trust.

#ifndef PRECAST_PART
#define PRECAST_PART -1  // the whole file; 0: all but the kernels; 1 and up: a part of the kernels
#endif
#ifndef PRECAST_ISA
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wunused-function"
#elif defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

// All is local to this file, or to its parts.
#if PRECAST_PART < 0
#define PRECAST_LOCAL namespace
#else
#define PRECAST_LOCAL namespace )" +
         m.symbol + R"(_parts __attribute__((visibility("hidden")))
#endif
)";
}

std::string literals(const Metadata& m, const std::string& graph) {
  return title("1. Metadata") + "#if PRECAST_PART <= 0" + std::string(kMetadata) + raw_literal(to_json(m)) +
         ";\n#endif\n" + title("2. Graph, as recorded") + "#if PRECAST_PART <= 0" + std::string(kGraph) +
         raw_literal(graph) + ";\n#endif\n";
}

// ---- Kernels, once in the text ----

std::string kernels(const emit::Emitted& emitted) {
  std::string text = "#else  // PRECAST_ISA is defined: the kernels of one section\n" + emitted.preamble;
  for (size_t p = 0; p < emitted.parts.size(); ++p)
    text += "\n#if PRECAST_PART < 0 || PRECAST_PART == PRECAST_FIRST + " + std::to_string(p) + "\n" + emitted.parts[p] +
            "\n#endif\n";
  return text + "\n#if PRECAST_PART <= 0\n" + emitted.run + "\n#endif\n";
}

struct Section {
  const Isa& isa;
  bool portable_only;  // not asked for: there so that other processors have something to run
  std::string name_space() const { return std::string("precast_isa_") + isa.name; }
};

std::vector<Section> sections(const Metadata& m) {
  std::vector<Section> all;
  bool baseline = false;
  for (const std::string& name : m.isa) {
    all.push_back({isa_named(name), false});
    baseline = baseline || all.back().isa.level == 0;
  }
  if (!baseline) all.push_back({isa_named("baseline"), true});
  return all;
}

// The condition under which a section is compiled; empty if always.
std::string guard(const Section& s) {
  if (s.portable_only) return "#if !defined(__x86_64__)\n";
  return s.isa.level > 0 ? "#if defined(__x86_64__)\n" : "";
}

std::string with_guard(const Section& s, const std::string& text) {
  return guard(s).empty() ? text : guard(s) + text + "#endif\n";
}

std::string section_text(const Section& s, size_t index, int parts) {
  const std::string first = std::to_string(1 + index * static_cast<size_t>(parts));
  const std::string last = std::to_string(static_cast<size_t>(parts) * (index + 1));
  std::string text = "#if PRECAST_PART <= 0 || (PRECAST_PART >= " + first + " && PRECAST_PART <= " + last + ")\n";
  text += "#define PRECAST_ISA " + std::to_string(s.isa.level) + "\n";
  text += "#define PRECAST_VECTOR_BYTES " + std::to_string(s.isa.vector_bytes) + "\n";
  text += "#define PRECAST_FIRST " + first + "\n";
  const std::string target = s.isa.target;
  if (!target.empty())
    text += "#if defined(__clang__)\n#pragma clang attribute push(__attribute__((target(\"" + target +
            "\"))), apply_to = function)\n#else\n#pragma GCC push_options\n#pragma GCC target(\"" + target +
            "\")\n#endif\n";
  else
    text += "#if !defined(__clang__)\n#pragma GCC push_options\n#endif\n";
  text += "PRECAST_LOCAL {\nnamespace " + s.name_space() + " {\n#include PRECAST_THIS_FILE\n}\n}\n";
  text += target.empty() ? "#if !defined(__clang__)\n" : "#if defined(__clang__)\n#pragma clang attribute pop\n#else\n";
  text +=
      "#pragma GCC pop_options\n#endif\n#undef PRECAST_ISA\n#undef PRECAST_VECTOR_BYTES\n#undef "
      "PRECAST_FIRST\n#endif\n";
  return with_guard(s, text);
}

std::string sections_text(const Metadata& m, const std::vector<Section>& all) {
  std::string text = R"(
#endif
#ifndef PRECAST_ISA
// One section per instruction set. The name alone finds the file from any directory; compilers without
// __FILE_NAME__ must be given an absolute path, or run in the file's folder.
#ifdef __FILE_NAME__
#define PRECAST_THIS_FILE __FILE_NAME__
#else
#define PRECAST_THIS_FILE __FILE__
#endif
)";
  size_t index = 0;
  for (const Section& s : all) text += section_text(s, index++, m.parts);
  return text;
}

// ---- Driver and entry ----

std::string cpu_check(const Section& s) {
  std::string text;
  for (const std::string_view feature : s.isa.features) {
    if (!text.empty()) text += " && ";
    text += feature == "f16c" ? "precast_cpu_has_f16c()" : "__builtin_cpu_supports(\"" + std::string(feature) + "\")";
  }
  return text.empty() ? "true" : text;
}

// The sections as types, and the artifact that each makes of the tables and the driver.
std::string section_type(const std::string& isa, const std::string& run, const std::string& prepare,
                         const std::string& check) {
  return "struct precast_section_" + isa + " {\n  static constexpr const char* isa = \"" + isa +
         "\";\n  static constexpr int (*run)(precast_frame*) = " + run +
         ";\n  static constexpr int (*prepare)(precast_frame*) = " + prepare +
         ";\n  static bool runs_here() { return " + check + "; }\n};\n";
}

std::string entry(const Metadata& m, const std::vector<Section>& sections) {
  const int64_t scratch = (m.arena_bytes + 63) / 64 * 64;
  std::string types, choice;
  for (const Section& s : sections) {
    types += with_guard(s, section_type(s.isa.name, s.name_space() + "::precast_run",
                                        s.name_space() + "::precast_prepare", cpu_check(s)));
    choice +=
        with_guard(s, std::string("  if (precast_section_") + s.isa.name +
                          "::runs_here()) return precast_made<precast_section_" + s.isa.name + ">::artifact();\n");
  }
  if (sections.empty()) {
    types = section_type("graph", "nullptr", "nullptr", "true");
    choice = "  return precast_made<precast_section_graph>::artifact();\n";
  } else {
    choice += "  return nullptr;  // no section runs on this processor\n";
  }
  return R"(
#if defined(__x86_64__)
static bool precast_cpu_has_f16c() {  // not every compiler has a name for it
  unsigned a = 1, b = 0, c = 0, d = 0;
  __asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
  return (c >> 29 & 1) != 0;
}
#endif

)" + types +
         R"(
template <class Section>
struct precast_made {
  static const precast_program& program() {
    static constexpr precast_program made = {&precast_the_spec, Section::run, Section::prepare, )" +
         std::to_string(scratch) + ", " + std::to_string(m.prepared_bytes) + R"(};
    return made;
  }
  static int check_modules(const precast_host* host, const precast_named* entries, int n, int* slot_of) {
    return precast_check_modules(precast_the_spec, host, entries, n, slot_of);
  }
  static int prepare(const precast_host* host, const precast_call* call, char* prepared) {
    return precast_prepare_program(program(), host, call, prepared);
  }
  static int call(const precast_host* host, const precast_call* call) { return precast_call_program(program(), host, call); }
  static const precast_artifact* artifact() {
    static constexpr precast_artifact made = {
        PRECAST_ABI_VERSION, sizeof(precast_artifact), 0, precast_metadata, precast_graph, &precast_the_spec, Section::isa,
        )" +
         std::to_string(scratch + m.prepared_bytes) + ", " + std::to_string(m.prepared_bytes) +
         R"(, check_modules, prepare, call};
    return &made;
  }
};
}

#if PRECAST_PART >= 0
using namespace )" +
         m.symbol + R"(_parts;
#endif
extern "C" __attribute__((visibility("default"))) const precast_artifact* )" +
         m.symbol + R"((void);
const precast_artifact* )" +
         m.symbol + "(void) {\n" + choice + "}\n";
}

}  // namespace

std::string compose(const Signature& signature, const ir::Graph& recorded, const emit::Emitted* emitted,
                    const ComposeOptions& options) {
  check_symbol(options.symbol);
  Metadata m = describe(signature, recorded, emitted);
  m.symbol = options.symbol;
  if (emitted) m.isa = resolve_isas(options.isa);
  const Tables tables(m);
  const std::vector<Section> all = emitted ? sections(m) : std::vector<Section>{};

  std::string text =
      header(m) + literals(m, ir::print(recorded)) + title("Interface with the host") + std::string(kAbiHeader);
  if (emitted) text += title("3. Kernels") + kernels(*emitted) + sections_text(m, all);
  text += title("4. Tables: the calling convention") + "#if PRECAST_PART <= 0\nPRECAST_LOCAL {\n" +
          print_tables(tables.spec());
  text += title("5. Driver") + std::string(kDriverText) + title("6. Entry") + entry(m, all);
  return text + "#endif\n#endif\n";
}

std::vector<int> parts_to_compile(const Metadata& m) {
  constexpr size_t few_kernels = 8;  // about what compiles in the time that starting more processes costs
  if (m.kernels.size() * m.isa.size() <= few_kernels || m.parts == 0) return {};
  std::vector<int> parts = {0};
  int first = 1;
  for (const Section& s : sections(m)) {
#if defined(__x86_64__)
    const bool here = !s.portable_only;
#else
    const bool here = s.isa.level == 0;
#endif
    for (int p = 0; here && p < m.parts; ++p) parts.push_back(first + p);
    first += m.parts;
  }
  return parts;
}

Text read_artifact_text(std::string_view code, std::string_view name) {
  const auto literal = [&](std::string_view marker) -> std::optional<std::string> {
    const size_t at = code.find(marker);
    if (at == code.npos) return std::nullopt;
    code.remove_prefix(at + marker.size());  // the next marker is looked for behind this one
    return read_raw_literal(code);
  };
  const bool begins = code.starts_with(kFirstLine);
  const auto metadata = begins ? literal(kMetadata) : std::nullopt;
  const auto graph = metadata ? literal(kGraph) : std::nullopt;
  if (!graph)
    throw PrecompileError(std::string(name) + " is not a precast artifact: expected a text that begins with \"" +
                          std::string(kFirstLine.substr(3)) + "...\" and holds " +
                          (begins ? "metadata and graph" : "metadata") + ". Pass the .cpp file that a capture wrote.");
  return {from_json(*metadata), *graph};
}

}  // namespace precast::artifact
