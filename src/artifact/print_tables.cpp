#include <charconv>
#include <cmath>
#include <cstring>

#include "artifact/tables.h"

namespace precast::artifact {
namespace {

std::string number(precast_i64 n) { return n == INT64_MIN ? "(-9223372036854775807LL - 1)" : std::to_string(n); }

std::string real(double x) {
  if (std::isnan(x)) return "__builtin_nan(\"\")";
  if (std::isinf(x)) return x < 0 ? "-__builtin_inf()" : "__builtin_inf()";
  char text[40];
  const auto end = std::to_chars(text, text + sizeof text, x, std::chars_format::hex).ptr;  // exact
  std::string digits(text, end);
  return (digits[0] == '-' ? "-0x" + digits.substr(1) : "0x" + digits);
}

std::string string_or_null(const char* s) { return s ? quote(s) : "nullptr"; }

// All sizes and strides stand in one array; tensors point into it.
struct Dims {
  std::string text;
  size_t n = 0;
  std::string add(const precast_i64* values, int count) {
    if (count == 0) return "nullptr";
    const std::string place = "precast_dims + " + std::to_string(n);
    for (int i = 0; i < count; ++i) text += (n++ % 24 == 0 ? "\n  " : " ") + number(values[i]) + ",";
    return place;
  }
};

std::string row(Dims& dims, const precast_tensor_spec& t) {
  const std::string sizes = dims.add(t.sizes, t.ndim), strides = dims.add(t.strides, t.ndim);
  std::string text = "{" + string_or_null(t.name) + ", " + sizes + ", " + strides;
  for (const precast_i64 n : {t.ndim, t.dtype, t.device_type, t.device_index, t.read}) text += ", " + number(n);
  return text + ", " + std::to_string(t.flags) + "}";
}

// "static const TYPE NAME[] = {...};" and nothing when empty; `put` makes the text of a row.
template <class Row, class Put>
std::string array(const char* type, const char* name, const Row* rows, int n, Put&& put) {
  if (n == 0) return {};
  std::string text = std::string("static const ") + type + " " + name + "[] = {\n";
  for (int i = 0; i < n; ++i) text += "  " + put(rows[i]) + ",\n";
  return text + "};\n";
}

}  // namespace

std::string quote(std::string_view bytes) {
  std::string text = "\"";
  for (const char c : bytes) {
    const auto u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\' || c == '?') {  // '?' could begin a trigraph
      text += '\\', text += c;
    } else if (u >= 0x20 && u < 0x7f) {
      text += c;
    } else {
      text += '\\';  // always three octal digits: no following digit can join
      for (const int shift : {6, 3, 0}) text += static_cast<char>('0' + ((u >> shift) & 7));
    }
  }
  return text + "\"";
}

std::string print_tables(const precast_spec& s) {
  Dims dims;
  std::string text;
  const auto tensor = [&](const precast_tensor_spec& t) { return row(dims, t); };
  text += array("int", "precast_module_positions", s.module_positions, s.n_modules, [](int n) { return number(n); });
  text += array("precast_tensor_spec", "precast_tensors", s.tensors, s.n_params + s.n_buffers, tensor);
  text += array("precast_slot_spec", "precast_slots", s.slots, s.n_slots, [](const precast_slot_spec& r) {
    return "{" + quote(r.name) + ", " + number(r.module) + ", " + number(r.is_buffer) + ", " + number(r.tensor) +
           ", 0}";
  });
  text += array("precast_leaf_spec", "precast_leaves", s.leaves, s.n_leaves, [&](const precast_leaf_spec& r) {
    const std::string string = r.s ? quote({r.s, static_cast<size_t>(r.length)}) : "nullptr";
    return "{" + number(r.kind) + ", " + number(r.length) + ", " + number(r.i) + ", " + real(r.d) + ", " + string +
           ", " + tensor(r.t) + "}";
  });
  text += array("precast_input_spec", "precast_inputs", s.inputs, s.n_inputs, [](const precast_input_spec& r) {
    return "{" + number(r.source) + ", 0, " + number(r.offset_bytes) + "}";
  });
  text += array("precast_alias_spec", "precast_aliases", s.aliases, s.n_aliases, [](const precast_alias_spec& r) {
    return "{" + number(r.a) + ", " + number(r.b) + ", " + number(r.shared) + ", 0, " + number(r.delta_bytes) + "}";
  });
  text += array("precast_tensor_spec", "precast_outputs", s.outputs, s.n_outputs, tensor);
  text += array("precast_write_spec", "precast_writes", s.writes, s.n_writes,
                [](const precast_write_spec& r) { return "{" + number(r.source) + ", " + number(r.output) + "}"; });

  text += array("precast_symbol_spec", "precast_symbols", s.symbols, s.n_symbols, [](const precast_symbol_spec& r) {
    return "{" + quote(r.name) + ", " + number(r.min) + ", " + number(r.max) + ", " + number(r.leaf) + ", " +
           number(r.dim) + "}";
  });
  const int n_computed = s.n_numbers - s.n_symbols;
  text += array("precast_number_spec", "precast_numbers", s.numbers, n_computed, [](const precast_number_spec& r) {
    return "{" + string_or_null(r.text) + ", " + number(r.a) + ", " + number(r.b) + ", " + number(r.op) + ", 0}";
  });
  const auto plain = [](int n) { return number(n); };
  text += array("precast_i32", "precast_constraints", s.constraints, s.n_constraints, plain);
  text += array("precast_i32", "precast_slots_of_arena", s.slots_of_arena, s.n_slots_of_arena, plain);

  const auto name = [](int n, const char* array_name) { return std::string(n > 0 ? array_name : "nullptr"); };
  const auto counted = [&](int n, const char* array_name) { return number(n) + ", " + name(n, array_name); };
  text += "static const precast_spec precast_the_spec = {\n  sizeof(precast_spec), " + number(s.layout_strict) + ", " +
          number(s.n_positional) + ",\n  " + counted(s.n_modules, "precast_module_positions") + ",\n  " +
          number(s.n_params) + ", " + number(s.n_buffers) + ", " + name(s.n_params + s.n_buffers, "precast_tensors") +
          ",\n  " + number(s.n_slots) + ", " + number(s.n_leaves) + ", " + name(s.n_slots, "precast_slots") + ", " +
          string_or_null(s.in_spec) + ", " + name(s.n_leaves, "precast_leaves") + ",\n  " + number(s.n_inputs) + ", " +
          number(s.n_aliases) + ", " + name(s.n_inputs, "precast_inputs") + ", " +
          name(s.n_aliases, "precast_aliases") + ",\n  " + number(s.n_outputs) + ", " + number(s.n_writes) + ", " +
          name(s.n_outputs, "precast_outputs") + ", " + name(s.n_writes, "precast_writes") + ",\n  " +
          number(s.n_symbols) + ", " + number(s.n_numbers) + ", " + name(s.n_symbols, "precast_symbols") + ", " +
          name(n_computed, "precast_numbers") + ",\n  " + number(s.n_constraints) + ", " + number(s.n_slots_of_arena) +
          ", " + name(s.n_constraints, "precast_constraints") + ", " +
          name(s.n_slots_of_arena, "precast_slots_of_arena") + ", " + number(s.n_call_numbers) + ", 0,\n};\n";
  return (dims.n > 0 ? "static const precast_i64 precast_dims[] = {" + dims.text + "\n};\n" : "") + text;
}

}  // namespace precast::artifact
