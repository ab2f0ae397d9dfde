#include "coverage.h"

#include <iomanip>
#include <ostream>

namespace precast::fuzz {
const std::vector<std::pair<at::ScalarType, std::string>>& grid_dtypes() {
  static const std::vector<std::pair<at::ScalarType, std::string>> all = {
      {at::kFloat, "f32"}, {at::kDouble, "f64"}, {at::kHalf, "f16"},         {at::kBFloat16, "bf16"},
      {at::kLong, "i64"},  {at::kInt, "i32"},    {at::kShort, "i16"},        {at::kChar, "i8"},
      {at::kByte, "u8"},   {at::kBool, "bool"},  {at::kComplexFloat, "c64"}, {at::kComplexDouble, "c128"}};
  return all;
}

std::string dtype_name(at::ScalarType dtype) {
  for (const auto& [d, name] : grid_dtypes())
    if (d == dtype) return name;
  return "none";
}

std::string dtype_of(const Step& step, const std::vector<at::Tensor>& values) {
  int first = -1;
  for (const Arg& arg : step.args) {
    if (const auto* r = std::get_if<Ref>(&arg)) first = r->value;
    if (const auto* list = std::get_if<std::vector<Ref>>(&arg); list && !list->empty()) first = list->front().value;
    if (first >= 0) break;
  }
  return first >= 0 ? dtype_name(values[static_cast<size_t>(first)].scalar_type()) : "none";
}

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

namespace {

// "op: eager refuses: text (f16, bool)", a line a reason.
void print_holes(const Holes& holes, std::ostream& out) {
  for (const auto& [op, dtypes] : holes) {
    std::map<std::string, std::string> by_reason;
    for (const auto& [dtype, reason] : dtypes) by_reason[reason] += (by_reason[reason].empty() ? "" : ", ") + dtype;
    for (const auto& [reason, names] : by_reason) out << op << ": " << reason << " (" << names << ")\n";
  }
}

}  // namespace

void print_grid(const Coverage& seen, const Holes& holes, std::ostream& out) {
  std::vector<std::string> columns;
  for (const auto& [dtype, name] : grid_dtypes()) columns.push_back(name);
  columns.insert(columns.end(), {"none", "backward"});
  int cells = 0, steps = 0;
  out << std::left << std::setw(42) << "op" << std::right;
  for (const auto& c : columns) out << std::setw(c == "backward" ? 9 : 5) << c;
  out << "\n";
  for (const auto& [op, counts] : seen) {
    out << std::left << std::setw(42) << op << std::right;
    for (const auto& c : columns) {
      const auto found = counts.find(c);
      const bool explained = holes.contains(op) && holes.at(op).contains(c);
      const std::string hole = explained ? "." : "-";
      out << std::setw(c == "backward" ? 9 : 5) << (found == counts.end() ? hole : std::to_string(found->second));
      if (found == counts.end() || c == "backward") continue;
      ++cells;
      steps += found->second;
    }
    out << "\n";
  }
  if (!holes.empty()) out << "\nwhy cells are empty\n";
  print_holes(holes, out);
  out << seen.size() << " ops, " << cells << " pairs of op and dtype, " << steps << " steps\n";
}

}  // namespace precast::fuzz
