#include "artifact/metadata.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "artifact/constraints.h"
#include "artifact/spec.h"
#include "ir/print.h"
#include "util/errors.h"

namespace precast::artifact {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormat = "precast artifact";

[[noreturn]] void malformed(const std::string& field, const std::string& why) {
  throw PrecompileError("the artifact's metadata is malformed: " + field + " " + why);
}

// Fractions stand in a few places only: elsewhere one would be read as an integer, which is undefined if it is too
// large.
Json parse(std::string_view json) {
  using Event = Json::parse_event_t;
  bool may_be_fraction = false;
  const auto check = [&](int, Event event, Json& v) {
    if (event == Event::value && v.is_number_float() && !may_be_fraction)
      malformed("the number " + v.dump(), "is no integer");
    may_be_fraction = event == Event::key && (v == "real" || v == "flops" || v == "bytes");
    return true;
  };
  try {
    return Json::parse(json, check);
  } catch (const Json::parse_error& e) {
    throw PrecompileError("the artifact's metadata is no JSON (byte " + std::to_string(e.byte) +
                          "). Capture again, and do not edit it.");
  } catch (const Json::exception&) {  // a number that no type holds
    malformed("a number", "is out of range");
  }
}

/// The metadata's fields; remembers which one was asked for last.
class Fields {
 public:
  explicit Fields(std::string_view json) : json_(parse(json)) {
    if (!json_.is_object() || json_.value("FORMAT", Json()) != kFormat)
      throw PrecompileError(std::string("the artifact's metadata does not name its format, \"FORMAT\": \"") + kFormat +
                            "\": this is no artifact of precast");
    const auto version = json_.find("VERSION");
    if (version != json_.end() && (!version->is_number_integer() || *version > kFormatVersion))
      throw PrecompileError("the artifact has format version " + version->dump() + ", this precast reads up to " +
                            std::to_string(kFormatVersion) + ". Capture again, or use a newer precast.");
    static const auto& all = *new Json(Json::parse(to_json(Metadata())));  // a thread may load while the process ends
    std::string missing;
    for (const auto& [key, value] : all.items())
      if (!json_.contains(key)) missing += (missing.empty() ? "" : ", ") + key;
    if (!missing.empty()) throw PrecompileError("the artifact's metadata lacks " + missing + ". Capture again.");
  }
  const Json& at(const std::string& key) const {
    current_ = key;
    return json_.at(key);
  }
  const std::string& current() const { return current_; }

 private:
  Json json_;
  mutable std::string current_;
};

// ---- Strings and numbers that JSON cannot hold as they are ----

// Bytes that are not UTF-8 become {"bytes": [..]}.
Json text(const std::string& s) {
  try {
    Json(s).dump();
    return s;
  } catch (const Json::exception&) {
    Json bytes = Json::array();
    for (const char c : s) bytes.push_back(static_cast<unsigned char>(c));
    return {{"bytes", bytes}};
  }
}

std::string text(const Json& j) {
  if (j.is_string()) return j.get<std::string>();
  std::string s;
  for (const Json& byte : j.at("bytes")) s += static_cast<char>(byte.get<unsigned char>());
  return s;
}

Json real(double x) {
  if (std::isfinite(x)) return x;
  return std::isnan(x) ? "nan" : x < 0 ? "-inf" : "inf";
}

double real(const Json& j) {
  if (!j.is_string()) return j.get<double>();
  if (j == "nan") return std::numeric_limits<double>::quiet_NaN();
  return j == "-inf" ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
}

// ---- Types ----

constexpr const char *kDtype = "dtype", *kSizes = "sizes", *kStrides = "strides", *kDevice = "device", *kLazy = "lazy";

ir::Dtype dtype_of(const Json& j) {
  const auto dtype = ir::dtype_from_name(j.get<std::string>());
  if (!dtype) malformed("dtype", "'" + j.get<std::string>() + "' is unknown");
  return *dtype;
}

ir::Device device_of(const Json& j) {
  const auto device = ir::device_from_name(j.get<std::string>());
  if (!device) malformed("device", "'" + j.get<std::string>() + "' is unknown");
  return *device;
}

std::string lazy(const ir::Type& t) { return std::string(t.conj ? "conj" : "") + (t.neg ? "neg" : ""); }

void set_lazy(ir::Type& t, const std::string& s) {
  t.conj = s.find("conj") != s.npos;
  t.neg = s.find("neg") != s.npos;
}

// A size is a number, or the text of an expression of symbols.
Json size(const ir::Size& s) { return s.is_symbolic() ? Json(ir::to_string(s)) : Json(int64_t{s}); }
Json dims(const ir::Dims& d) {
  Json list = Json::array();
  for (const ir::Size& s : d) list.push_back(size(s));
  return list;
}

Json type(const ir::Type& t) {
  return {{kDtype, ir::name(t.dtype)},
          {kSizes, dims(t.sizes)},
          {kStrides, dims(t.strides)},
          {kDevice, ir::name(t.device)},
          {kLazy, lazy(t)}};
}

Json bound(int64_t max) { return max == ir::Symbol::kUnbounded ? Json() : Json(max); }
Json symbol(const ir::Symbol& s) { return Json::array({ir::name(s), s.min, bound(s.max), s.hint}); }

/// Reads what may name symbols.
struct Reader {
  std::vector<ir::Symbol> symbols;

  void symbol(const Json& j) {
    ir::Symbol s{0, j.at(1), j.at(2).is_null() ? ir::Symbol::kUnbounded : j.at(2).get<int64_t>(), j.at(3)};
    const std::string name = j.at(0);
    const auto digits = std::from_chars(name.data() + !name.empty(), name.data() + name.size(), s.id);
    if (digits.ec != std::errc{} || s.id < 0 || ir::name(s) != name || find(name))
      malformed("SYMBOLS", "holds " + j.at(0).dump());
    if (s.min < 0 || s.min > s.max) malformed("SYMBOLS", "has bounds of " + name + " that no size is within");
    symbols.push_back(s);
  }
  std::optional<ir::Symbol> find(std::string_view name) const {
    for (const ir::Symbol& s : symbols)
      if (ir::name(s) == name) return s;
    return {};
  }
  ir::Size size(const Json& j) const {
    if (!j.is_string()) return j.get<int64_t>();
    const std::string text = j;
    std::string_view rest = text;
    const auto s = ir::parse_size(rest, [&](std::string_view name) { return find(name); });
    if (!s || !rest.empty()) malformed("a size", "is '" + text + "', which is no expression of SYMBOLS");
    return *s;
  }
  ir::Dims dims(const Json& j) const {
    ir::Dims d;
    for (const Json& s : j) d.push_back(size(s));
    return d;
  }
  ir::Type type(const Json& j) const {
    ir::Type t{dtype_of(j.at(kDtype)), dims(j.at(kSizes)), dims(j.at(kStrides)), device_of(j.at(kDevice))};
    set_lazy(t, j.at(kLazy));
    return t;
  }
};

// ---- Values of leaves and results ----

Json value(const ir::Attr& v) {
  if (auto* b = std::get_if<bool>(&v)) return *b;
  if (auto* i = std::get_if<int64_t>(&v)) return *i;
  if (auto* d = std::get_if<double>(&v)) return {{"real", real(*d)}};
  if (auto* s = std::get_if<std::string>(&v)) return text(*s);
  PRECAST_CHECK(std::holds_alternative<std::monostate>(v), "a leaf holds a value that is no number, bool or string");
  return nullptr;
}

ir::Attr value(const Json& j) {
  if (j.is_null()) return {};
  if (j.is_boolean()) return j.get<bool>();
  if (j.is_number_integer()) return j.get<int64_t>();
  if (j.is_object() && j.contains("real")) return real(j.at("real"));
  return text(j);
}

// ---- Tensors as parallel lists: PARAM_NAMES, PARAM_SHAPES, ... ----

void put_tensors(Json& j, const std::string& prefix, const std::vector<TensorMeta>& tensors) {
  const auto column = [&](const char* name, auto&& get) {
    Json& list = j[prefix + name] = Json::array();
    for (const TensorMeta& t : tensors) list.push_back(get(t));
  };
  column("_NAMES", [](auto& t) { return text(t.name); });
  column("_SHAPES", [](auto& t) { return dims(t.type.sizes); });
  column("_STRIDES", [](auto& t) { return dims(t.type.strides); });
  column("_DTYPES", [](auto& t) { return std::string(ir::name(t.type.dtype)); });
  column("_DEVICES", [](auto& t) { return ir::name(t.type.device); });
  column("_LAZY", [](auto& t) { return lazy(t.type); });
  column("_REQUIRES_GRAD", [](auto& t) { return t.requires_grad; });
  column("_READ", [](auto& t) { return t.read; });
}

std::vector<TensorMeta> get_tensors(const Reader& read, const Fields& j, const std::string& prefix) {
  std::vector<TensorMeta> tensors(j.at(prefix + "_NAMES").size());
  const auto column = [&](const char* name, auto&& set) {
    const Json& list = j.at(prefix + name);
    if (list.size() != tensors.size()) malformed(prefix + name, "has another length than " + prefix + "_NAMES");
    for (size_t i = 0; i < tensors.size(); ++i) set(tensors[i], list[i]);
  };
  column("_NAMES", [](auto& t, const Json& v) { t.name = text(v); });
  column("_SHAPES", [&](auto& t, const Json& v) { t.type.sizes = read.dims(v); });
  column("_STRIDES", [&](auto& t, const Json& v) { t.type.strides = read.dims(v); });
  column("_DTYPES", [](auto& t, const Json& v) { t.type.dtype = dtype_of(v); });
  column("_DEVICES", [](auto& t, const Json& v) { t.type.device = device_of(v); });
  column("_LAZY", [](auto& t, const Json& v) { set_lazy(t.type, v); });
  column("_REQUIRES_GRAD", [](auto& t, const Json& v) { v.get_to(t.requires_grad); });
  column("_READ", [](auto& t, const Json& v) { v.get_to(t.read); });
  return tensors;
}

// ---- User leaves: columns too, null where the leaf is no tensor ----

constexpr const char* kKinds[] = {"none", "bool", "int", "float", "str", "tensor"};

// {"0": [2, null]}: the least and greatest size of a dim that varies, of those that are bounded.
Json bounds(const ir::Dims& sizes, const std::vector<ir::Symbol>& symbols) {
  Json found;
  for (size_t d = 0; d < sizes.size(); ++d)
    for (const ir::Symbol& s : symbols)
      if (sizes[d] == ir::Size::symbol(s) && (s.min > 0 || s.max != ir::Symbol::kUnbounded))
        found[std::to_string(d)] = Json::array({s.min, bound(s.max)});
  return found;
}

void put_leaves(Json& j, const std::vector<UserLeaf>& leaves, const std::vector<ir::Symbol>& symbols) {
  const auto column = [&](const char* name, bool tensors_only, auto&& get) {
    Json& list = j[std::string("USER_INPUT_") + name] = Json::array();
    for (const UserLeaf& leaf : leaves)
      list.push_back(tensors_only && leaf.kind != UserLeaf::Kind::tensor ? Json() : Json(get(leaf)));
  };
  column("PLACES", false, [](auto& l) { return text(l.where); });
  column("KINDS", false, [](auto& l) { return kKinds[static_cast<int>(l.kind)]; });
  column("VALUES", false, [](auto& l) { return value(l.value); });
  column("SHAPES", true, [](auto& l) { return dims(l.tensor.type.sizes); });
  column("STRIDES", true, [](auto& l) { return dims(l.tensor.type.strides); });
  column("DTYPES", true, [](auto& l) { return std::string(ir::name(l.tensor.type.dtype)); });
  column("DEVICES", true, [](auto& l) { return ir::name(l.tensor.type.device); });
  column("LAZY", true, [](auto& l) { return lazy(l.tensor.type); });
  column("REQUIRES_GRAD", true, [](auto& l) { return l.tensor.requires_grad; });
  column("READ", true, [](auto& l) { return l.tensor.read; });
  column("NAMES", true, [](auto& l) { return text(l.tensor.name); });
  column("BOUNDS", true, [&](auto& l) { return bounds(l.tensor.type.sizes, symbols); });
}

UserLeaf::Kind kind_of(const Json& j) {
  for (int k = 0; k < 6; ++k)
    if (j == kKinds[k]) return static_cast<UserLeaf::Kind>(k);
  malformed("USER_INPUT_KINDS", "holds " + j.dump());
}

std::vector<UserLeaf> get_leaves(const Reader& read, const Fields& j) {
  std::vector<UserLeaf> leaves(j.at("USER_INPUT_PLACES").size());
  const auto column = [&](const char* name, bool tensors_only, auto&& set) {
    const std::string field = std::string("USER_INPUT_") + name;
    const Json& list = j.at(field);
    if (list.size() != leaves.size()) malformed(field, "has another length than USER_INPUT_PLACES");
    for (size_t i = 0; i < leaves.size(); ++i)
      if (!tensors_only || leaves[i].kind == UserLeaf::Kind::tensor) set(leaves[i], list[i]);
  };
  column("PLACES", false, [](auto& l, const Json& v) { l.where = text(v); });
  column("KINDS", false, [](auto& l, const Json& v) { l.kind = kind_of(v); });
  column("VALUES", false, [](auto& l, const Json& v) { l.value = value(v); });
  column("SHAPES", true, [&](auto& l, const Json& v) { l.tensor.type.sizes = read.dims(v); });
  column("STRIDES", true, [&](auto& l, const Json& v) { l.tensor.type.strides = read.dims(v); });
  column("DTYPES", true, [](auto& l, const Json& v) { l.tensor.type.dtype = dtype_of(v); });
  column("DEVICES", true, [](auto& l, const Json& v) { l.tensor.type.device = device_of(v); });
  column("LAZY", true, [](auto& l, const Json& v) { set_lazy(l.tensor.type, v); });
  column("REQUIRES_GRAD", true, [](auto& l, const Json& v) { v.get_to(l.tensor.requires_grad); });
  column("READ", true, [](auto& l, const Json& v) { v.get_to(l.tensor.read); });
  column("NAMES", true, [](auto& l, const Json& v) { l.tensor.name = text(v); });
  return leaves;
}

void check_structure(const char* field, const std::string& spec, size_t leaves) {
  size_t found = 0;
  try {
    found = static_cast<size_t>(count_leaves(parse_tree(spec)));
  } catch (const PrecompileError& e) {
    malformed(field, std::string("is none: ") + e.what());
  }
  if (found != leaves)
    malformed(field, "has " + std::to_string(found) + " leaves, and " + std::to_string(leaves) + " are described");
}

// ---- Rows ----

constexpr const char* kResults[] = {"none",   "bool",   "int",         "float",      "str",
                                    "output", "source", "output_view", "source_view"};

Json result(const Result& r) {
  Json j = {{"kind", kResults[static_cast<int>(r.kind)]}};
  if (r.kind >= Result::Kind::output) j["index"] = r.index;
  if (r.kind >= Result::Kind::output_view) j["offset_bytes"] = size(r.offset_bytes), j["type"] = type(r.type);
  if (r.kind < Result::Kind::output) j["value"] = value(r.value);
  if (r.required_grad) j["required_grad"] = true;
  if (r.same_as >= 0) j["same_as"] = r.same_as;
  return j;
}

Result result(const Reader& read, const Json& j) {
  Result r;
  int kind = 0;
  while (kind < 9 && j.at("kind") != kResults[kind]) ++kind;
  if (kind == 9) malformed("RESULTS", "holds the kind " + j.at("kind").dump());
  r.kind = static_cast<Result::Kind>(kind);
  if (r.kind >= Result::Kind::output) r.index = j.at("index");
  if (r.kind >= Result::Kind::output_view)
    r.offset_bytes = read.size(j.at("offset_bytes")), r.type = read.type(j.at("type"));
  if (r.kind < Result::Kind::output) r.value = value(j.at("value"));
  r.required_grad = j.value("required_grad", false);
  r.same_as = j.value("same_as", -1);
  return r;
}

Json gradient(const Gradient& g) {
  Json j = Json::array({g.source, g.output, g.accumulate, g.in_place});
  if (g.part) j.push_back(size(g.part->offset_bytes)), j.push_back(type(g.part->type));
  return j;
}

Gradient gradient(const Reader& read, const Json& j) {
  Gradient g{j.at(0), j.at(1), j.at(2), j.at(3)};
  if (j.size() > 4) g.part = Part{read.size(j.at(4)), read.type(j.at(5))};
  return g;
}

template <class T, class F>
Json rows(const std::vector<T>& v, F&& put) {
  Json list = Json::array();
  for (const T& t : v) list.push_back(put(t));
  return list;
}

template <class T, class F>
std::vector<T> rows(const Json& list, F&& get) {
  std::vector<T> v;
  for (const Json& j : list) v.push_back(get(j));
  return v;
}

}  // namespace

Metadata describe(const Signature& signature, const ir::Graph& recorded, const emit::Emitted* emitted) {
  Metadata m;
  m.signature = signature;
  m.symbols = recorded.symbols;
  try {
    m.constraints = constraints_of(recorded, signature);
  } catch (const ir::Undecided& u) {
    throw PrecompileError("a call could not check the sizes of this program: " + u.expression +
                          ". Leave fewer sizes open.");
  }
  for (const ir::ValueId id : recorded.outputs) m.outputs.push_back(recorded.type(id));
  m.total_ops = static_cast<int>(recorded.nodes.size());
  if (emitted == nullptr) return m;
  m.parts = static_cast<int>(emitted->parts.size());
  for (const emit::HostOp& op : emitted->host_ops) m.host_ops.push_back({op.op, op.why, ir::print(op.graph)});
  m.kernels = emitted->kernels;
  m.arena_bytes = emitted->arena_bytes, m.arena_slots = emitted->arena_slots,
  m.prepared_bytes = emitted->prepared_bytes;
  m.lowered_ops = emitted->lowered_ops, m.total_ops = emitted->total_ops;
  return m;
}

std::function<int64_t(const ir::Symbol&)> values_of(const Metadata& m, const long long* values) {
  return [&m, values](const ir::Symbol& s) {
    size_t i = 0;
    while (i < m.symbols.size() && m.symbols[i].id != s.id) ++i;
    PRECAST_CHECK(i < m.symbols.size(), "a symbol that the artifact does not have");
    return int64_t{values[i]};
  };
}

std::string to_json(const Metadata& m) {
  const Signature& s = m.signature;
  Json j;
  j["FORMAT"] = kFormat, j["VERSION"] = kFormatVersion;
  j["BACKEND"] = s.backend, j["TRACER"] = s.tracer, j["TORCH_VERSION"] = s.torch_version;
  j["SYMBOL"] = m.symbol, j["ISA"] = m.isa, j["PARTS"] = m.parts;
  j["NUM_POSITIONAL_ARGS"] = s.num_positional_args, j["MODULE_POSITIONS"] = s.module_positions;
  j["SYMBOLS"] = rows(m.symbols, [](auto& symbol_of) { return symbol(symbol_of); });
  j["NOT_NEGATIVE"] = dims(m.constraints);
  put_tensors(j, "PARAM", s.params);
  put_tensors(j, "BUFFER", s.buffers);
  j["MODULE_SLOTS"] =
      rows(s.slots, [](auto& r) { return Json::array({text(r.name), r.module, r.is_buffer, r.tensor}); });
  j["IN_SPEC"] = s.in_spec ? text(*s.in_spec) : Json(), j["OUT_SPEC"] = text(s.out_spec);
  put_leaves(j, s.leaves, m.symbols);
  j["GRAPH_INPUTS"] = rows(s.graph_inputs, [](auto& r) { return Json::array({r.source, r.offset_bytes}); });
  j["GRAPH_OUTPUTS"] = rows(m.outputs, [](auto& t) { return type(t); });
  j["ALIASES"] = rows(s.aliases, [](auto& r) { return Json::array({r.a, r.b, r.shared, r.delta_bytes}); });
  j["RESULTS"] = rows(s.results, [](auto& r) { return result(r); });
  j["FIXED_LAYOUTS"] = s.fixed_layouts;
  j["WRITES"] = rows(s.writes, [](auto& r) { return Json::array({r.source, r.output}); });
  Json& indices = j["GRAD_PARAM_INDICES"] = Json::array();
  for (const Gradient& g : s.grads)
    if (g.source < static_cast<int>(s.params.size())) indices.push_back(g.source);
  j["GRADS"] = rows(s.grads, [](auto& r) { return gradient(r); });
  j["CLEARED_GRADS"] = s.cleared_grads, j["ZEROED_GRADS"] = s.zeroed_grads;
  j["MODULE_ATTRIBUTES"] =
      rows(s.attributes, [](auto& a) { return Json::array({text(a.name), a.module, text(a.value)}); });
  j["MODULE_MODES"] = s.modes;
  j["CONDITIONS"] = rows(s.conditions, [](auto& c) { return text(c); });
  j["TOTAL_OPS"] = m.total_ops, j["LOWERED_OPS"] = m.lowered_ops;
  j["ARENA_BYTES"] = m.arena_bytes, j["ARENA_SLOTS"] = dims(m.arena_slots), j["PREPARED_BYTES"] = m.prepared_bytes;
  j["KERNELS"] = rows(m.kernels, [](auto& k) {
    return Json{{"name", text(k.name)}, {"what", text(k.what)}, {"flops", real(k.flops)}, {"bytes", real(k.bytes)}};
  });
  j["HOST_OPS"] = rows(
      m.host_ops, [](auto& h) { return Json{{"op", text(h.op)}, {"why", text(h.why)}, {"graph", text(h.graph)}}; });

  // One field a line: readable, and a difference between two artifacts shows which field.
  std::string out = "{\n";
  for (auto it = j.begin(); it != j.end(); ++it) {
    out += Json(it.key()).dump() + ": " + it.value().dump(-1, ' ', true);
    out += std::next(it) == j.end() ? "\n" : ",\n";
  }
  return out + "}\n";
}

Metadata from_json(std::string_view json) {
  const Fields j(json);
  try {
    Metadata m;
    Signature& s = m.signature;
    s.backend = j.at("BACKEND"), s.tracer = j.at("TRACER"), s.torch_version = j.at("TORCH_VERSION");
    m.symbol = j.at("SYMBOL"), j.at("ISA").get_to(m.isa), m.parts = j.at("PARTS");
    s.num_positional_args = j.at("NUM_POSITIONAL_ARGS"), j.at("MODULE_POSITIONS").get_to(s.module_positions);
    Reader read;
    for (const Json& r : j.at("SYMBOLS")) read.symbol(r);
    m.symbols = read.symbols;
    m.constraints = read.dims(j.at("NOT_NEGATIVE"));
    s.params = get_tensors(read, j, "PARAM");
    s.buffers = get_tensors(read, j, "BUFFER");
    s.slots = rows<ModuleSlot>(j.at("MODULE_SLOTS"),
                               [](const Json& r) { return ModuleSlot{text(r.at(0)), r.at(1), r.at(2), r.at(3)}; });
    if (!j.at("IN_SPEC").is_null()) s.in_spec = text(j.at("IN_SPEC"));
    s.out_spec = text(j.at("OUT_SPEC"));
    s.leaves = get_leaves(read, j);
    if (s.in_spec) check_structure("IN_SPEC", *s.in_spec, s.leaves.size());
    s.graph_inputs = rows<GraphInput>(j.at("GRAPH_INPUTS"), [](const Json& r) { return GraphInput{r.at(0), r.at(1)}; });
    m.outputs = rows<ir::Type>(j.at("GRAPH_OUTPUTS"), [&](const Json& r) { return read.type(r); });
    s.aliases = rows<Alias>(j.at("ALIASES"), [](const Json& r) { return Alias{r.at(0), r.at(1), r.at(2), r.at(3)}; });
    s.results = rows<Result>(j.at("RESULTS"), [&](const Json& r) { return result(read, r); });
    check_structure("OUT_SPEC", s.out_spec, s.results.size());
    j.at("FIXED_LAYOUTS").get_to(s.fixed_layouts);
    s.writes = rows<WriteBack>(j.at("WRITES"), [](const Json& r) { return WriteBack{r.at(0), r.at(1)}; });
    s.grads = rows<Gradient>(j.at("GRADS"), [&](const Json& r) { return gradient(read, r); });
    j.at("CLEARED_GRADS").get_to(s.cleared_grads), j.at("ZEROED_GRADS").get_to(s.zeroed_grads);
    s.attributes = rows<ModuleAttribute>(j.at("MODULE_ATTRIBUTES"), [](const Json& r) {
      return ModuleAttribute{text(r.at(0)), r.at(1), text(r.at(2))};
    });
    j.at("MODULE_MODES").get_to(s.modes);
    s.conditions = rows<std::string>(j.at("CONDITIONS"), [](const Json& c) { return text(c); });
    m.total_ops = j.at("TOTAL_OPS"), m.lowered_ops = j.at("LOWERED_OPS");
    m.arena_bytes = j.at("ARENA_BYTES"), m.arena_slots = read.dims(j.at("ARENA_SLOTS"));
    m.prepared_bytes = j.at("PREPARED_BYTES");
    m.kernels = rows<emit::KernelInfo>(j.at("KERNELS"), [](const Json& k) {
      return emit::KernelInfo{text(k.at("name")), text(k.at("what")), real(k.at("flops")), real(k.at("bytes"))};
    });
    m.host_ops = rows<HostOpText>(j.at("HOST_OPS"), [](const Json& h) {
      return HostOpText{text(h.at("op")), text(h.at("why")), text(h.at("graph"))};
    });
    if (m.arena_bytes < 0 || m.prepared_bytes < 0 || m.parts < 0)
      malformed("ARENA_BYTES, PREPARED_BYTES or PARTS", "is negative");
    return m;
  } catch (const Json::exception&) {
    malformed(j.current(), "has a value of another kind, or out of range");
  }
}

}  // namespace precast::artifact
