#include "emit/kernel_writer.h"

#include <algorithm>
#include <cmath>

#include "util/errors.h"

namespace precast::emit {

bool contains(const std::vector<Atom>& v, Atom a) { return std::find(v.begin(), v.end(), a) != v.end(); }

bool is_arg(Reduction r) { return r == Reduction::argmax || r == Reduction::argmin; }

KernelText KernelWriter::run() {
  for (const Step& s : kernel_.steps) count(s);
  if (kernel_.steps[0].kind == Step::Kind::matmul) return matmul();
  std::vector<Step*> steps;
  for (Step& s : kernel_.steps) steps.push_back(&s);
  loops::collapse(steps, {&kernel_.outer, &kernel_.inner}, exprs_);
  assign_stages();
  choose_lane();
  choose_scratch();
  choose_width();
  return kernel_.steps[0].kind == Step::Kind::write ? spread(&KernelWriter::write_rows) : spread(&KernelWriter::rows);
}

void KernelWriter::count(const Step& s) {
  const double points = static_cast<double>((volume(s.space, exprs_) * volume(s.reduced, exprs_)).hint());
  double ops = s.kind == Step::Kind::reduce ? 1 : 0;
  exprs_.visit(loops::roots(s, exprs_), [&](ExprId e) {
    const Expr& x = exprs_[e];
    if (x.kind == Expr::Kind::call) ops += 1;
    if (x.kind == Expr::Kind::load && !produced(x.buffer)) read(x.buffer, x.at, x.dtype);
  });
  out_.flops += points * (s.kind == Step::Kind::matmul ? 2 : ops);
  if (kept_.contains(s.buffer)) read(s.buffer, s.at, s.dtype);
}

bool KernelWriter::produced(BufferId b) const {
  return std::any_of(kernel_.steps.begin(), kernel_.steps.end(), [&](const Step& s) { return s.buffer == b; });
}

void KernelWriter::read(BufferId b, const Index& at, Dtype t) {
  if (!counted_.emplace(b, at).second) return;
  double n = ir::itemsize(t);
  for (const auto& [a, c] : at.terms)
    if (a >= 0) n *= static_cast<double>(extent(a).hint());
  out_.bytes += std::min(n, static_cast<double>(program_.buffers[static_cast<size_t>(b)].bytes.hint()));
}

KernelText KernelWriter::spread(void (KernelWriter::*body)()) {
  std::vector<Atom> outer;
  for (const Atom a : kernel_.outer)
    if (a != w_.lane) outer.push_back(a);
  const bool blocks = w_.lane >= 0 && !lane_in_row();
  const Cost cost = point_cost();
  const Size row_length = volume(kernel_.inner, exprs_);
  const double point = (cost.each + cost.per_element * static_cast<double>(row_length.hint())) * cost.operation;
  Size units = volume(outer, exprs_), block = 0, n_blocks = 1;
  double unit = point;
  Size lanes_of_unit = 1;
  if (blocks) {
    const Size lanes = extent(w_.lane);
    const auto fitting = static_cast<int64_t>(4000 / std::max(point, 1e-3));
    block = std::max<int64_t>((fitting + 63) / 64 * 64, 64);
    if (transposes()) block = 32;  // so that the lines that the lanes read stay in the cache
    const bool in_one = !transposes() && units.hint() >= 64 && static_cast<double>(lanes.hint()) * point < 20000;
    if (in_one || ir::always_at_least(block, lanes)) block = lanes;
    n_blocks = block == lanes ? Size(1) : ir::floor_div(lanes + block - 1, block);
    unit = point * static_cast<double>(std::min(block.hint(), lanes.hint()));
    lanes_of_unit = block;
    units *= n_blocks;
  }

  std::map<std::string, std::string> names;
  for (size_t i = 0; i < outer.size(); ++i) w_.name(outer[i], "o" + std::to_string(i));
  const std::vector<Atom> row = row_order();
  for (size_t i = 0; i < row.size(); ++i) w_.name(row[i], "i" + std::to_string(i));
  if (w_.lane >= 0) w_.name(w_.lane, "v");

  w_.open({outer.begin(), outer.end()});
  std::string rest = "t";
  if (n_blocks != 1) {
    // Neighbouring units: the next block of lanes, or, in a transposition, the next row of the same block.
    const Size rows = volume(outer, exprs_);
    const std::string of_blocks = transposes() ? "t / " + number(rows) : "t % " + number(n_blocks);
    rest = transposes() ? "t % " + number(rows) : "t / " + number(n_blocks);
    w_.line("const i64 low = " + of_blocks + " * " + number(block) + ", high = low + " + number(block) + " < " +
            number(extent(w_.lane)) + " ? low + " + number(block) + " : " + number(extent(w_.lane)) + ";");
    low_ = "low", high_ = "high", block_multiple_ = block;
  } else if (blocks) {
    low_ = "0", high_ = number(extent(w_.lane)), block_multiple_ = 0;
  }
  Size below = 1;
  for (size_t i = outer.size(); i-- > 0;) {
    std::string e = below == 1 ? rest : "(" + rest + ") / " + number(below);
    if (i > 0) e = "(" + e + ") % " + number(extent(outer[i]));
    w_.line("const i64 o" + std::to_string(i) + " = " + e + ";");
    below *= extent(outer[i]);
  }
  (this->*body)();
  const std::string unit_text = w_.close();
  const std::string head = w_.take_text();

  std::string t = "static void KERNEL_range(void* arg, i64 begin, i64 end) {\n";
  t += "constexpr int W = " + width_ + ";\n";
  t += "void* const* P = (void* const*)arg;\n";
  t += parameters();
  if (w_.can_fail)
    t +=
        "precast_fault* const fault = (precast_fault*)P[" + number(static_cast<int64_t>(w_.parameters.size())) + "];\n";
  std::string guards;
  for (const std::string& guard : w_.guards) guards += guard;
  t += sizes(guards + head + unit_text);
  t += guards + head;
  t += "for (i64 t = begin; t < end; ++t) {\n" + unit_text + "}\n}\n";
  t += "void KERNEL(const precast_host* host, void* const* P) {\n";
  if (units.is_symbolic() || row_length.is_symbolic() || lanes_of_unit.is_symbolic()) {
    const std::string ns = literal(cost.operation) + " * (" + literal(cost.each) + " + " + literal(cost.per_element) +
                           " * (f64)" + text(row_length) + ") * (f64)" + text(lanes_of_unit);
    const std::string call = "spread_units(host, " + number(units) + ", " + ns + ", KERNEL_range, P);\n}\n";
    t += sizes(call) + call;
  } else {
    const double total = unit * static_cast<double>(units);
    const auto grain = std::max<int64_t>(static_cast<int64_t>(std::ceil(10000 / std::max(unit, 1e-3))), 1);
    if (units <= grain || total < 20000) {
      t += "(void)host;\nKERNEL_range((void*)P, 0, " + number(units) + ");\n}\n";
    } else {
      t += "host->parallel_for(host->context, " + number(units) + ", " + number(grain) +
           ", KERNEL_range, (void*)P);\n}\n";
    }
  }
  out_.text = std::move(t);
  finish();
  return std::move(out_);
}

std::string KernelWriter::parameters() {
  std::string t;
  for (size_t i = 0; i < w_.parameters.size(); ++i) {
    const std::string type = (w_.parameters[i].written ? "" : "const ") + type_name(w_.parameters[i].dtype) + "*";
    t += type + " p" + number(static_cast<int64_t>(i)) + " = (" + type + ")P[" + number(static_cast<int64_t>(i)) +
         "];\n";
  }
  return t;
}

std::string KernelWriter::sizes(const std::string& text) {
  const size_t at = w_.parameters.size() + (w_.can_fail ? 1 : 0);
  const std::string declared = declare_sizes(text, program_.symbols, "(const i64*)P[" + std::to_string(at) + "]");
  out_.reads_sizes |= !declared.empty();
  return declared;
}

void KernelWriter::finish() {
  for (const auto& p : w_.parameters) out_.pointers.push_back(p.pointer);
  out_.can_fail = w_.can_fail;
}

KernelText kernel_text(Kernel k, Program& p, const std::set<BufferId>& kept, const std::set<BufferId>& constants,
                       const ProductConfig& config) {
  return KernelWriter(std::move(k), p, kept, constants, config).run();
}

}  // namespace precast::emit
