#include "coverage.h"

#include <array>
#include <iomanip>
#include <ostream>

namespace precast::fuzz {
namespace {

struct Column {
  at::ScalarType dtype;
  const char* name;
};
constexpr std::array kColumns = {
    Column{at::kFloat, "f32"},     Column{at::kDouble, "f64"},       Column{at::kHalf, "f16"},
    Column{at::kBFloat16, "bf16"}, Column{at::kLong, "i64"},         Column{at::kInt, "i32"},
    Column{at::kShort, "i16"},     Column{at::kChar, "i8"},          Column{at::kByte, "u8"},
    Column{at::kBool, "bool"},     Column{at::kComplexFloat, "c64"}, Column{at::kComplexDouble, "c128"}};

std::string dtype_of(const Step& step, const std::vector<at::Tensor>& values) {
  int first = -1;
  for (const Arg& arg : step.args) {
    if (const auto* r = std::get_if<Ref>(&arg)) first = r->value;
    if (const auto* list = std::get_if<std::vector<Ref>>(&arg); list && !list->empty()) first = list->front().value;
    if (first >= 0) break;
  }
  if (first >= 0)
    for (const Column& c : kColumns)
      if (c.dtype == values[static_cast<size_t>(first)].scalar_type()) return c.name;
  return "none";
}

}  // namespace

Coverage coverage(const std::vector<Program>& programs) {
  Coverage seen;
  for (const Program& p : programs) {
    std::vector<at::Tensor> values = make_inputs(p, Variant::capture);
    for (Step step : p.steps) {
      ++seen[step.op][dtype_of(step, values)];
      if (p.backward) ++seen[step.op]["backward"];
      run_step(step, values);
    }
  }
  return seen;
}

void print_grid(const Coverage& seen, std::ostream& out) {
  std::vector<std::string> columns;
  for (const Column& c : kColumns) columns.emplace_back(c.name);
  columns.insert(columns.end(), {"none", "backward"});
  int cells = 0, steps = 0;
  out << std::left << std::setw(42) << "op" << std::right;
  for (const auto& c : columns) out << std::setw(c == "backward" ? 9 : 5) << c;
  out << "\n";
  for (const auto& [op, counts] : seen) {
    out << std::left << std::setw(42) << op << std::right;
    for (const auto& c : columns) {
      const auto found = counts.find(c);
      out << std::setw(c == "backward" ? 9 : 5) << (found == counts.end() ? "." : std::to_string(found->second));
      if (found == counts.end() || c == "backward") continue;
      ++cells;
      steps += found->second;
    }
    out << "\n";
  }
  out << seen.size() << " ops, " << cells << " pairs of op and dtype, " << steps << " steps\n";
}

}  // namespace precast::fuzz
