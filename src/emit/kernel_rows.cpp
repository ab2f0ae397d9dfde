// Loops over a row: maps, reductions, scans, and writes through an index.
#include "emit/kernel_writer.h"

#include <algorithm>
#include <numeric>

#include "util/errors.h"

namespace precast::emit {

namespace {

/// What a reduction starts from, in the type it accumulates in.
std::string identity(Reduction r, Dtype t) {
  const std::string splat = "splat<" + type_name(t) + ", W>(";
  const bool real = ir::is_float(t);
  const int bits = 8 * ir::itemsize(t);
  const bool is_signed = t != Dtype::u8;
  const int64_t most = is_signed ? static_cast<int64_t>((uint64_t{1} << (bits - 1)) - 1) : (int64_t{1} << bits) - 1;
  const int64_t least = is_signed ? -most - 1 : 0;
  switch (r) {
    case Reduction::prod:
      return splat + "1)";
    case Reduction::amax:
    case Reduction::argmax:
      return splat + (real ? "-__builtin_inf()" : literal(t, least)) + ")";
    case Reduction::amin:
    case Reduction::argmin:
      return splat + (real ? "__builtin_inf()" : literal(t, most)) + ")";
    case Reduction::all:
      return "splat<b8, W>(true)";
    case Reduction::any:
      return "splat<b8, W>(false)";
    default:
      return splat + "0)";
  }
}

const char* combine(Reduction r) {
  switch (r) {
    case Reduction::sum:
      return "add";
    case Reduction::prod:
      return "mul";
    case Reduction::amax:
      return "maximum";
    case Reduction::amin:
      return "minimum";
    case Reduction::any:
      return "bitwise_or";
    case Reduction::all:
      return "bitwise_and";
    default:
      return "";
  }
}

const char* horizontal(Reduction r) {
  switch (r) {
    case Reduction::sum:
      return "sum";
    case Reduction::prod:
      return "prod";
    case Reduction::amax:
      return "amax";
    case Reduction::amin:
      return "amin";
    case Reduction::any:
      return "any";
    default:
      return "all";
  }
}

/// Whether vectors leave something of [0, extent), or of blocks of so many.
bool has_tail(const Size& extent, const Size& block) {
  if (extent.is_symbolic() || block.is_symbolic()) return true;
  return (block == 0 ? int64_t{extent} : std::gcd(int64_t{extent}, int64_t{block})) % kMaxLanes != 0;
}

}  // namespace

void KernelWriter::along_lanes(const std::string& low, const std::string& high, int unroll, bool has_tail,
                               const std::function<void(int)>& body) {
  const auto one = [&](int copies, bool tail) {
    w_.tail = tail;
    for (int u = 0; u < copies; ++u) {
      w_.open({w_.lane});
      w_.name(w_.lane, u == 0 ? "v" : "(v + " + (u == 1 ? std::string("W") : number(u) + " * W") + ")");
      body(u);
      const std::string text = w_.close();
      pending_ += copies > 1 ? "{\n" + text + "}\n" : text;
    }
    w_.name(w_.lane, "v");
    w_.tail = false;
    return std::exchange(pending_, {});
  };
  // Hoisted statements go before the loops: their text is complete when the bodies are.
  std::string loop;
  if (unroll > 1) {
    const std::string text = one(unroll, false);
    loop += "for (; v + " + number(unroll) + " * W <= end_v; v += " + number(unroll) + " * W) {\n" + text + "}\n";
  }
  const std::string full = one(1, false);
  loop += "for (; v + W <= end_v; v += W) {\n" + full + "}\n";
  if (has_tail) {
    const std::string last = one(1, true);
    loop += "if (v < end_v) {\nconst int len = (int)(end_v - v);\n" + last + "}\n";
  }
  w_.line("{\ni64 v = " + low + ";\nconst i64 end_v = " + high + ";\n" + loop + "}");
}

void KernelWriter::rows() {
  if (w_.lane >= 0 && !lane_in_row()) {
    const bool tail = has_tail(extent(w_.lane), block_multiple_);
    along_lanes(low_, high_, 1, tail, [&](int) { stages(); });
  } else {
    stages();
  }
}

void KernelWriter::stages() {
  int last = 0;
  for (const int s : stage_) last = std::max(last, s);
  declare_scratch();
  for (int stage = 0; stage <= last; ++stage) {
    bool loop = false;
    for (size_t i = 0; i < kernel_.steps.size(); ++i) {
      if (stage_[i] != stage) continue;
      if (!at_inner_level(kernel_.steps[i]) || kernel_.inner.empty()) {
        map(kernel_.steps[i]);
      } else {
        loop = true;
      }
    }
    if (loop) row_loops(stage);
  }
  w_.scratch.clear();
}

void KernelWriter::declare_scratch() {
  for (const size_t i : scratch_steps_) {
    const Step& s = kernel_.steps[i];
    Index at;
    for (const Atom a : row_order()) at = at * extent(a) + Index::atom(a);
    const std::string name = "s" + number(static_cast<int64_t>(i));
    const bool per_lane = !lane_in_row();
    w_.line("alignas(64) " + type_name(register_dtype(s.dtype)) + " " + name + "[" +
            number(volume(kernel_.inner, exprs_)) + (per_lane ? " * W" : "") + "];");
    w_.scratch[s.buffer] = {name, at, per_lane};
  }
}

void KernelWriter::map(const Step& s) {
  const std::string x = w_.value(s.body);
  w_.bind(exprs_.load(s.buffer, s.dtype, s.at), x);
  if (kept_.contains(s.buffer)) w_.store(s.buffer, s.dtype, s.at, x);
  if (const auto scratch = w_.scratch.find(s.buffer); scratch != w_.scratch.end()) {
    const auto& [array, at, per_lane] = scratch->second;
    const std::string t = type_name(register_dtype(s.dtype));
    w_.line("store<" + t + ">(" + array + " + " + (per_lane ? "(" + w_.scalar(at) + ") * W" : w_.scalar(at)) + ", " +
            x + (w_.tail && !per_lane ? ", len);" : ");"));
  }
}

Dtype KernelWriter::accumulator(const Step& s) const {
  if (s.kind == Step::Kind::scan) {  // ATen's acc_type on the CPU
    if (s.dtype == Dtype::f32) return Dtype::f64;
    return register_dtype(s.dtype);
  }
  if (is_arg(s.reduction)) return register_dtype(exprs_[s.body].dtype);
  return register_dtype(s.dtype);
}

bool KernelWriter::cascades(const Step& s) const {
  return s.kind == Step::Kind::reduce && s.reduction == Reduction::sum && ir::is_float(s.dtype);
}

const char* KernelWriter::position_type() const {
  return volume(kernel_.inner, exprs_).upper() < INT32_MAX ? "i32" : "i64";
}

void KernelWriter::row_loops(int stage) {
  const std::vector<Atom> order = row_order();
  const Atom innermost = order.back();
  const bool vector = innermost == w_.lane;
  std::vector<size_t> steps;
  double cost = 0;
  bool reduces = false, sums = false;
  for (size_t i = 0; i < kernel_.steps.size(); ++i) {
    if (stage_[i] != stage || !at_inner_level(kernel_.steps[i])) continue;
    const Step& s = kernel_.steps[i];
    steps.push_back(i);
    cost += exprs_.cost(s.body) + (is_arg(s.reduction) ? 20 : 0);
    reduces |= s.kind == Step::Kind::reduce;
    sums |= cascades(s);
  }
  const Size length = extent(innermost);
  const int64_t limit = vector ? 4096 : 512;
  // Short sums are summed: an f32 accumulator alone would stop counting at 2^24.
  const bool blocked = sums && !ir::always_at_least(limit, length);
  const bool partial = sums && (order.size() > 1 || blocked);
  const int unroll = !reduces || kernel_.steps[0].kind == Step::Kind::scan || length.hint() < 64 ? 1
                     : cost <= 10                                                                ? 4
                     : cost <= 24                                                                ? 2
                                                                                                 : 1;

  // Accumulators; partial ones start anew in each innermost loop.
  const auto declare = [&](size_t i, const std::string& suffix) {
    const Step& s = kernel_.steps[i];
    if (s.kind == Step::Kind::map) return;
    const Dtype t = accumulator(s);
    const bool mask = s.reduction == Reduction::any || s.reduction == Reduction::all;
    w_.line("auto a" + number(static_cast<int64_t>(i)) + suffix + " = " + identity(s.reduction, mask ? Dtype::b8 : t) +
            ";");
    if (is_arg(s.reduction))
      w_.line("auto b" + number(static_cast<int64_t>(i)) + suffix + " = splat<" + position_type() + ", W>(" +
              (std::string(position_type()) == "i32" ? "2147483647" : "9223372036854775807LL") + ");");
  };
  const auto accumulator_name = [&](size_t i, int u) {
    std::string name = number(static_cast<int64_t>(i));
    if (partial && cascades(kernel_.steps[i])) name += "_part";
    if (u > 0) name += "_" + number(u);
    return name;
  };
  for (const size_t i : steps)
    for (int u = 0; u < unroll; ++u) {
      if (partial && cascades(kernel_.steps[i])) {
        if (u == 0) declare(i, "");
        continue;
      }
      declare(i, u > 0 ? "_" + number(u) : "");
    }

  for (size_t d = 0; d + 1 < order.size(); ++d) w_.open({order[d]});
  if (blocked) w_.open({});
  if (partial)
    for (const size_t i : steps)
      if (cascades(kernel_.steps[i]))
        for (int u = 0; u < unroll; ++u) declare(i, "_part" + (u > 0 ? "_" + number(u) : std::string()));

  const auto body = [&](int u) {
    for (const size_t i : steps) {
      const Step& s = kernel_.steps[i];
      if (s.kind == Step::Kind::map) map(s);
      if (s.kind == Step::Kind::reduce) accumulate(s, accumulator_name(i, u));
      if (s.kind == Step::Kind::scan) scan(s, i);
    }
  };
  std::string low = "0", high = number(length);
  if (blocked) low = "part", high = "part_end";
  if (vector) {
    along_lanes(low, high, unroll, has_tail(length, 0), body);
  } else {
    one_by_one(innermost, low, high, unroll, body);
  }
  // Fold the copies of an accumulator, then the partial sum.
  const auto fold = [&](size_t i, bool part) {
    for (int u = 1; u < unroll; ++u) {
      const std::string base = number(static_cast<int64_t>(i)) + (part ? "_part" : "");
      merge(kernel_.steps[i], base, base + "_" + number(u));
    }
    if (part) merge(kernel_.steps[i], number(static_cast<int64_t>(i)), number(static_cast<int64_t>(i)) + "_part");
  };
  for (const size_t i : steps)
    if (partial && cascades(kernel_.steps[i])) fold(i, true);
  if (blocked) {
    const std::string text = w_.close();
    w_.line("for (i64 part = 0; part < " + number(length) + "; part += " + number(limit) +
            ") {\nconst i64 part_end = part + " + number(limit) + " < " + number(length) + " ? part + " +
            number(limit) + " : " + number(length) + ";\n" + text + "}");
  }
  for (size_t d = order.size() - 1; d-- > 0;) {
    const std::string text = w_.close(), name = w_.name(order[d]);
    w_.line("for (i64 " + name + " = 0; " + name + " < " + number(extent(order[d])) + "; ++" + name + ") {\n" + text +
            "}");
  }
  for (const size_t i : steps)
    if (kernel_.steps[i].kind == Step::Kind::reduce && !(partial && cascades(kernel_.steps[i]))) fold(i, false);
  for (const size_t i : steps)
    if (kernel_.steps[i].kind == Step::Kind::reduce) result(kernel_.steps[i], i);
}

void KernelWriter::one_by_one(Atom variable, const std::string& low, const std::string& high, int unroll,
                              const std::function<void(int)>& body) {
  const std::string name = w_.name(variable);
  std::string loop;
  for (const int copies : unroll > 1 ? std::vector{unroll, 1} : std::vector{1}) {
    std::string text;
    for (int u = 0; u < copies; ++u) {
      w_.open({variable});
      w_.name(variable, u == 0 ? name : "(" + name + " + " + number(u) + ")");
      body(u);
      const std::string one = w_.close();
      text += copies > 1 ? "{\n" + one + "}\n" : one;
    }
    w_.name(variable, name);
    loop += copies > 1 ? "for (; " + name + " + " + number(copies) + " <= end_i; " + name + " += " + number(copies) +
                             ") {\n" + text + "}\n"
                       : "for (; " + name + " < end_i; ++" + name + ") {\n" + text + "}\n";
  }
  w_.line("{\ni64 " + name + " = " + low + ";\nconst i64 end_i = " + high + ";\n" + loop + "}");
}

void KernelWriter::accumulate(const Step& s, const std::string& to) {
  std::string x = w_.value(s.body);
  const bool masked = w_.tail && lane_in_row();
  if (is_arg(s.reduction)) {
    const Expr& p = exprs_[s.position];
    const Index at = p.kind == Expr::Kind::constant ? Index(p.integer) : p.at;
    if (masked) x = "keep(" + x + ", len, " + identity(s.reduction, accumulator(s)) + ")";
    std::string where = w_.lanes_of(at, position_type());
    if (masked)
      where = "keep(" + where + ", len, splat<" + position_type() + ", W>(" +
              std::string(std::string(position_type()) == "i32" ? "2147483647" : "9223372036854775807LL") + "))";
    w_.line(std::string("arg_step<") + (s.reduction == Reduction::argmax ? "true" : "false") + ">(a" + to + ", b" + to +
            ", " + x + ", " + where + ");");
    return;
  }
  const bool mask = s.reduction == Reduction::any || s.reduction == Reduction::all;
  if (masked) x = "keep(" + x + ", len, " + identity(s.reduction, mask ? Dtype::b8 : accumulator(s)) + ")";
  w_.line("a" + to + " = " + combine(s.reduction) + "(a" + to + ", " + x + ");");
}

void KernelWriter::merge(const Step& s, const std::string& a, const std::string& b) {
  if (is_arg(s.reduction)) {
    w_.line(std::string("arg_step<") + (s.reduction == Reduction::argmax ? "true" : "false") + ">(a" + a + ", b" + a +
            ", a" + b + ", b" + b + ");");
  } else {
    w_.line("a" + a + " = " + combine(s.reduction) + "(a" + a + ", a" + b + ");");
  }
}

void KernelWriter::result(const Step& s, size_t i) {
  const std::string n = number(static_cast<int64_t>(i)), name = w_.fresh("r");
  std::string x;
  if (is_arg(s.reduction)) {
    const std::string max = s.reduction == Reduction::argmax ? "true" : "false";
    x = lane_in_row() ? "splat<i64, W>(arg_best<" + max + ">(a" + n + ", b" + n + "))"
                      : "cast<i64, " + std::string(position_type()) + ">(b" + n + ")";
  } else {
    x = "a" + n;
    if (lane_in_row()) {
      const bool mask = s.reduction == Reduction::any || s.reduction == Reduction::all;
      x = "splat<" + type_name(mask ? Dtype::b8 : accumulator(s)) + ", W>(" + horizontal(s.reduction) + "(" + x + "))";
    }
    if (s.dtype == Dtype::f16 || s.dtype == Dtype::bf16) x = "round_to<" + type_name(s.dtype) + ">(" + x + ")";
  }
  w_.line("const auto " + name + " = " + x + ";");
  w_.bind(exprs_.load(s.buffer, s.dtype, s.at), name);
  if (kept_.contains(s.buffer)) w_.store(s.buffer, s.dtype, s.at, name);
}

void KernelWriter::scan(const Step& s, size_t i) {
  const Dtype wide = accumulator(s);
  const std::string a = "a" + number(static_cast<int64_t>(i));
  std::string x = w_.value(s.body);
  const Dtype narrow = register_dtype(s.dtype);
  if (wide != narrow) x = "cast<" + type_name(wide) + ", " + type_name(narrow) + ">(" + x + ")";
  w_.line(a + " = " + combine(s.reduction) + "(" + a + ", " + x + ");");
  const std::string name = w_.fresh("r");
  w_.line("const auto " + name + " = " +
          (wide != s.dtype ? "cast<" + type_name(s.dtype) + ", " + type_name(wide) + ">(" + a + ")" : a) + ";");
  w_.store(s.buffer, s.dtype, s.at, name);
}

void KernelWriter::write_rows() {
  const Step& s = kernel_.steps[0];
  const std::vector<Atom> order = row_order();
  for (const Atom a : order) w_.open({a});
  const auto body = [&](int) {
    std::string x = w_.value(s.body);
    if (s.reduction != Reduction::none) {
      const std::string old = w_.value_now(exprs_.load(s.buffer, s.dtype, s.at));
      x = std::string(combine(s.reduction)) + "(" + old + ", " + x + ")";
      if (s.dtype == Dtype::f16 || s.dtype == Dtype::bf16) x = "round_to<" + type_name(s.dtype) + ">(" + x + ")";
    }
    w_.store(s.buffer, s.dtype, s.at, x);
  };
  if (w_.lane >= 0) {
    const bool tail = has_tail(extent(w_.lane), block_multiple_);
    along_lanes(low_, high_, 1, tail, body);
  } else {
    body(0);
  }
  for (size_t d = order.size(); d-- > 0;) {
    const std::string text = w_.close(), name = w_.name(order[d]);
    w_.line("for (i64 " + name + " = 0; " + name + " < " + number(extent(order[d])) + "; ++" + name + ") {\n" + text +
            "}");
  }
}

}  // namespace precast::emit
