#include "emit/kernel.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "emit/gemm.h"
#include "emit/writer.h"
#include "util/errors.h"

namespace precast::emit {

using ir::Dtype;
using loops::Atom;
using loops::BufferId;
using loops::Buffer;
using loops::Expr;
using loops::ExprId;
using loops::Index;
using loops::Kernel;
using loops::Program;
using loops::Reduction;
using loops::Step;

namespace {

constexpr int kMaxLanes = 16;

bool contains(const std::vector<Atom>& v, Atom a) { return std::find(v.begin(), v.end(), a) != v.end(); }

std::string number(int64_t n) { return std::to_string(n) + (n > INT32_MAX || n < INT32_MIN ? "LL" : ""); }

/// What a reduction starts from, in the type it accumulates in.
std::string identity(Reduction r, Dtype t) {
  const std::string splat = "splat<" + type_name(t) + ", W>(";
  const bool real = ir::is_float(t);
  const int bits = 8 * ir::itemsize(t);
  const bool is_signed = t != Dtype::u8;
  const int64_t most = is_signed ? static_cast<int64_t>((uint64_t{1} << (bits - 1)) - 1) : (int64_t{1} << bits) - 1;
  const int64_t least = is_signed ? -most - 1 : 0;
  switch (r) {
    case Reduction::prod: return splat + "1)";
    case Reduction::amax:
    case Reduction::argmax: return splat + (real ? "-__builtin_inf()" : literal(t, least)) + ")";
    case Reduction::amin:
    case Reduction::argmin: return splat + (real ? "__builtin_inf()" : literal(t, most)) + ")";
    case Reduction::all: return "splat<b8, W>(true)";
    case Reduction::any: return "splat<b8, W>(false)";
    default: return splat + "0)";
  }
}

const char* combine(Reduction r) {
  switch (r) {
    case Reduction::sum: return "add";
    case Reduction::prod: return "mul";
    case Reduction::amax: return "maximum";
    case Reduction::amin: return "minimum";
    case Reduction::any: return "bitwise_or";
    case Reduction::all: return "bitwise_and";
    default: return "";
  }
}

const char* horizontal(Reduction r) {
  switch (r) {
    case Reduction::sum: return "sum";
    case Reduction::prod: return "prod";
    case Reduction::amax: return "amax";
    case Reduction::amin: return "amin";
    case Reduction::any: return "any";
    default: return "all";
  }
}

bool is_arg(Reduction r) { return r == Reduction::argmax || r == Reduction::argmin; }

class KernelWriter {
 public:
  KernelWriter(Kernel k, Program& p, const std::set<BufferId>& kept, const std::set<BufferId>& constants)
      : kernel_(std::move(k)), program_(p), exprs_(p.exprs), w_(p.exprs), kept_(kept), constants_(constants) {}

  KernelText run() {
    for (const Step& s : kernel_.steps) count(s);
    if (kernel_.steps[0].kind == Step::Kind::matmul) return matmul();
    std::vector<Step*> steps;
    for (Step& s : kernel_.steps) steps.push_back(&s);
    loops::collapse(steps, {&kernel_.outer, &kernel_.inner}, exprs_);
    assign_stages();
    choose_lane();
    choose_scratch();
    choose_width();
    return kernel_.steps[0].kind == Step::Kind::write ? loops(&KernelWriter::write_rows) : loops(&KernelWriter::rows);
  }

 private:
  // ---- Analysis ----

  int64_t extent(Atom a) const { return exprs_.extent(a); }
  bool at_inner_level(const Step& s) const {
    if (s.kind == Step::Kind::reduce) return true;
    return std::any_of(kernel_.inner.begin(), kernel_.inner.end(), [&](Atom a) {
             return contains(s.space, a) || contains(s.reduced, a);
           }) || kernel_.inner.empty();
  }

  void count(const Step& s) {
    const double points = static_cast<double>(volume(s.space, exprs_) * volume(s.reduced, exprs_));
    double ops = s.kind == Step::Kind::reduce ? 1 : 0;
    exprs_.visit(loops::roots(s, exprs_), [&](ExprId e) {
      const Expr& x = exprs_[e];
      if (x.kind == Expr::Kind::call) ops += 1;
      if (x.kind == Expr::Kind::load && !produced(x.buffer)) read(x.buffer, x.at, x.dtype);
    });
    out_.flops += points * (s.kind == Step::Kind::matmul ? 2 : ops);
    if (kept_.contains(s.buffer)) read(s.buffer, s.at, s.dtype);
  }

  bool produced(BufferId b) const {
    return std::any_of(kernel_.steps.begin(), kernel_.steps.end(), [&](const Step& s) { return s.buffer == b; });
  }

  void read(BufferId b, const Index& at, Dtype t) {
    if (!counted_.emplace(b, at).second) return;
    double n = ir::itemsize(t);
    for (const auto& [a, c] : at.terms)
      if (a >= 0) n *= static_cast<double>(extent(a));
    out_.bytes += std::min(n, static_cast<double>(program_.buffers[static_cast<size_t>(b)].bytes));
  }

  /// Stage of each step: loops over the row run one after the other; a reduction's result is there after its stage.
  /// Steps on the outer level run before the loops of their stage.
  void assign_stages() {
    for (bool again = true; again;) {
      again = false;
      std::map<BufferId, size_t> producer;
      stage_.assign(kernel_.steps.size(), 0);
      for (size_t i = 0; i < kernel_.steps.size(); ++i) {
        Step& s = kernel_.steps[i];
        for (const ExprId e : loops::loads(s, exprs_)) {
          const auto it = producer.find(exprs_[e].buffer);
          if (it == producer.end()) continue;
          const Step& p = kernel_.steps[it->second];
          stage_[i] = std::max(stage_[i], stage_[it->second] + (p.kind == Step::Kind::reduce ? 1 : 0));
        }
        producer[s.buffer] = i;
      }
      // A cheap value is computed again rather than kept between stages.
      for (size_t i = 0; i < kernel_.steps.size() && !again; ++i) {
        const Step& p = kernel_.steps[i];
        if (p.kind != Step::Kind::map || kernel_.inner.empty() || !at_inner_level(p) || exprs_.cost(p.body) > 4 ||
            kept_.contains(p.buffer))
          continue;
        for (size_t j = i + 1; j < kernel_.steps.size(); ++j) {
          if (stage_[j] <= stage_[i]) continue;
          Step& s = kernel_.steps[j];
          const ExprId was = s.body;
          s.body = exprs_.rewrite(s.body, [&](ExprId e) -> std::optional<ExprId> {
            if (exprs_[e].kind == Expr::Kind::load && exprs_[e].buffer == p.buffer) return p.body;
            return std::nullopt;
          });
          again |= s.body != was;
        }
      }
    }
    // Nobody asks any more for what was recomputed everywhere.
    for (size_t i = kernel_.steps.size(); i-- > 0;) {
      const BufferId b = kernel_.steps[i].buffer;
      if (kept_.contains(b)) continue;
      bool used = false;
      for (const Step& s : kernel_.steps)
        for (const ExprId e : loops::loads(s, exprs_)) used |= exprs_[e].buffer == b;
      if (used) continue;
      kernel_.steps.erase(kernel_.steps.begin() + static_cast<std::ptrdiff_t>(i));
      stage_.erase(stage_.begin() + static_cast<std::ptrdiff_t>(i));
      program_.buffers[static_cast<size_t>(b)].place = Buffer::Place::local;
    }
  }

  /// The variable whose neighbours are computed side by side: the one that makes memory access cheapest.
  void choose_lane() {
    const Step& first = kernel_.steps[0];
    double best = std::numeric_limits<double>::max();
    const auto consider = [&](Atom v) {
      if (!lane_possible(first, v)) return;
      const double chunks = std::ceil(static_cast<double>(extent(v)) / 8) * 8 / static_cast<double>(extent(v));
      double cost = 0;
      for (const Step& s : kernel_.steps) {
        const double points = at_inner_level(s) ? 1 : 0.01;
        double ops = 0;
        exprs_.visit(loops::roots(s, exprs_), [&](ExprId e) {
          const Expr& x = exprs_[e];
          if (x.kind == Expr::Kind::load && !(produced(x.buffer) && !kept_.contains(x.buffer))) {
            ops += access(x.at, v);
          } else if (x.kind == Expr::Kind::call) {
            ops += loops::operation_cost(x) * 0.3;
          }
        });
        if (kept_.contains(s.buffer)) ops += 1.5 * access(s.at, v);
        cost += points * ops;
      }
      cost *= chunks;
      if (extent(v) < 4) cost *= 2;
      if (cost < best) best = cost, w_.lane = v;
    };
    for (const Atom v : kernel_.inner) consider(v);
    for (const Atom v : kernel_.outer) consider(v);
  }

  double access(const Index& at, Atom v) {
    for (const auto& [a, c] : at.terms)
      if (a < 0 && w_.dependencies(~a).contains(v)) return 10;
    const int64_t c = at.coefficient(v);
    return c == 0 ? 0.3 : c == 1 ? 1 : 8;
  }

  bool lane_possible(const Step& s, Atom v) {
    if (s.kind == Step::Kind::scan) return contains(s.space, v);
    if (s.kind == Step::Kind::write) return contains(kernel_.outer, v) && access(s.at, v) < 10 && s.at.coefficient(v) != 0;
    return true;
  }

  bool lane_in_row() const { return w_.lane >= 0 && contains(kernel_.inner, w_.lane); }

  /// Values that one stage leaves for a later one, and that nobody else wants, stay in arrays of the thread.
  void choose_scratch() {
    const int64_t row = volume(kernel_.inner, exprs_);
    int64_t total = 0;
    for (size_t i = 0; i < kernel_.steps.size(); ++i) {
      const Step& p = kernel_.steps[i];
      if (kept_.contains(p.buffer)) continue;
      bool later = false;
      for (size_t j = i + 1; j < kernel_.steps.size(); ++j)
        if (stage_[j] > stage_[i])
          for (const ExprId e : loops::loads(kernel_.steps[j], exprs_)) later |= exprs_[e].buffer == p.buffer;
      Buffer& buffer = program_.buffers[static_cast<size_t>(p.buffer)];
      buffer.place = Buffer::Place::local;
      if (!later || p.kind != Step::Kind::map || !at_inner_level(p)) continue;
      const int64_t bytes = (row * (lane_in_row() ? 1 : kMaxLanes) + kMaxLanes) * ir::itemsize(register_dtype(p.dtype));
      if (total + bytes > 64 * 1024) {
        buffer.place = Buffer::Place::arena;
        kept_.insert(p.buffer);
        continue;
      }
      total += bytes;
      scratch_steps_.push_back(i);
    }
  }

  void choose_width() {
    width_ = w_.lane < 0 ? "1" : "LANES";
    for (const Step& s : kernel_.steps)
      exprs_.visit(loops::roots(s, exprs_), [&](ExprId e) {
        if (e == s.position || e == exprs_.index(s.at)) return;  // not computed in vectors of i64
        if (w_.lane >= 0 && w_.varies(e) && ir::itemsize(exprs_[e].dtype) == 8) width_ = "LANES / 2";
      });
    const Step& s = kernel_.steps[0];
    if (w_.lane >= 0 && s.kind == Step::Kind::scan && ir::itemsize(accumulator(s)) == 8) width_ = "LANES / 2";
  }

  // ---- Loops ----

  /// Declares the row's order: the lane variable innermost, else as given.
  std::vector<Atom> row_order() const {
    std::vector<Atom> order;
    for (const Atom a : kernel_.inner)
      if (a != w_.lane) order.push_back(a);
    if (lane_in_row()) order.push_back(w_.lane);
    return order;
  }

  /// Lanes far apart in an operand that is contiguous along another outer variable.
  bool transposes() {
    bool found = false;
    for (const Step& s : kernel_.steps)
      for (const ExprId e : loops::loads(s, exprs_)) {
        const Index& at = exprs_[e].at;
        if (std::abs(at.coefficient(w_.lane)) < 16) continue;
        for (const Atom v : kernel_.outer) found |= v != w_.lane && at.coefficient(v) == 1;
      }
    return found && kernel_.inner.empty();
  }

  double point_cost() {
    double cost = 0;
    const double row = static_cast<double>(volume(kernel_.inner, exprs_));
    for (const Step& s : kernel_.steps) {
      double ops = 1;
      for (const ExprId r : loops::roots(s, exprs_)) ops += exprs_.cost(r);
      cost += ops * (at_inner_level(s) ? row : 1);
    }
    return cost * (w_.lane < 0 ? 0.5 : width_ == "LANES" ? 0.06 : 0.12);  // ns for one outer point
  }

  /// The function: units of outer points, spread over threads.
  KernelText loops(void (KernelWriter::*body)()) {
    std::vector<Atom> outer;
    for (const Atom a : kernel_.outer)
      if (a != w_.lane) outer.push_back(a);
    const bool blocks = w_.lane >= 0 && !lane_in_row();
    const double point = point_cost();
    int64_t units = volume(outer, exprs_), block = 0, n_blocks = 1;
    double unit = point;
    if (blocks) {
      const int64_t lanes = extent(w_.lane);
      const auto fitting = static_cast<int64_t>(4000 / std::max(point, 1e-3));
      block = std::max<int64_t>((fitting + 63) / 64 * 64, 64);
      if (transposes()) block = 32;  // so that the lines that the lanes read stay in the cache
      if (block >= lanes || (!transposes() && units >= 64 && static_cast<double>(lanes) * point < 20000)) block = lanes;
      n_blocks = (lanes + block - 1) / block;
      unit = point * static_cast<double>(std::min(block, lanes));
      units *= n_blocks;
    }

    std::map<std::string, std::string> names;
    for (size_t i = 0; i < outer.size(); ++i) w_.name(outer[i], "o" + std::to_string(i));
    const std::vector<Atom> row = row_order();
    for (size_t i = 0; i < row.size(); ++i) w_.name(row[i], "i" + std::to_string(i));
    if (w_.lane >= 0) w_.name(w_.lane, "v");

    w_.open({outer.begin(), outer.end()});
    std::string rest = "t";
    if (n_blocks > 1) {
      // Neighbouring units: the next block of lanes, or, in a transposition, the next row of the same block.
      const std::string of_blocks = transposes() ? "t / " + number(units / n_blocks) : "t % " + number(n_blocks);
      rest = transposes() ? "t % " + number(units / n_blocks) : "t / " + number(n_blocks);
      w_.line("const i64 low = " + of_blocks + " * " + number(block) + ", high = low + " + number(block) + " < " +
              number(extent(w_.lane)) + " ? low + " + number(block) + " : " + number(extent(w_.lane)) + ";");
      low_ = "low", high_ = "high", block_multiple_ = block;
    } else if (blocks) {
      low_ = "0", high_ = number(extent(w_.lane)), block_multiple_ = 0;
    }
    int64_t below = 1;
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
    if (w_.can_fail) t += "precast_fault* const fault = (precast_fault*)P[" + number(static_cast<int64_t>(w_.parameters.size())) + "];\n";
    t += head;
    t += "for (i64 t = begin; t < end; ++t) {\n" + unit_text + "}\n}\n";
    t += "void KERNEL(const precast_host* host, void* const* P) {\n";
    const double total = unit * static_cast<double>(units);
    const auto grain = std::max<int64_t>(static_cast<int64_t>(std::ceil(10000 / std::max(unit, 1e-3))), 1);
    if (units <= grain || total < 20000) {
      t += "(void)host;\nKERNEL_range((void*)P, 0, " + number(units) + ");\n}\n";
    } else {
      t += "host->parallel_for(host->context, " + number(units) + ", " + number(grain) + ", KERNEL_range, (void*)P);\n}\n";
    }
    out_.text = std::move(t);
    finish();
    return std::move(out_);
  }

  std::string parameters() {
    std::string t;
    for (size_t i = 0; i < w_.parameters.size(); ++i) {
      const std::string type = (w_.parameters[i].written ? "" : "const ") + type_name(w_.parameters[i].dtype) + "*";
      t += type + " p" + number(static_cast<int64_t>(i)) + " = (" + type + ")P[" + number(static_cast<int64_t>(i)) + "];\n";
    }
    return t;
  }

  void finish() {
    for (const auto& p : w_.parameters) out_.pointers.push_back(p.pointer);
    out_.can_fail = w_.can_fail;
  }

  /// `body` for every vector of [low, high) along the lane variable.
  template <class Body>
  void along_lanes(const std::string& low, const std::string& high, int unroll, bool has_tail, const Body& body) {
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

  // ---- Maps, reductions, scans ----

  void rows() {
    if (w_.lane >= 0 && !lane_in_row()) {
      const bool tail = (block_multiple_ == 0 ? extent(w_.lane) : std::gcd(extent(w_.lane), block_multiple_)) % kMaxLanes != 0;
      along_lanes(low_, high_, 1, tail, [&](int) { stages(); });
    } else {
      stages();
    }
  }

  void stages() {
    int last = 0;
    for (const int s : stage_) last = std::max(last, s);
    declare_scratch();
    for (int stage = 0; stage <= last; ++stage) {
      bool loop = false;
      for (size_t i = 0; i < kernel_.steps.size(); ++i) {
        if (stage_[i] != stage) continue;
        if (!at_inner_level(kernel_.steps[i]) || kernel_.inner.empty()) {
          map(kernel_.steps[i], i);
        } else {
          loop = true;
        }
      }
      if (loop) row_loops(stage);
    }
    w_.scratch.clear();
  }

  void declare_scratch() {
    for (const size_t i : scratch_steps_) {
      const Step& s = kernel_.steps[i];
      Index at;
      for (const Atom a : row_order()) at = at * extent(a) + Index::atom(a);
      const std::string name = "s" + number(static_cast<int64_t>(i));
      const bool per_lane = !lane_in_row();
      w_.line("alignas(64) " + type_name(register_dtype(s.dtype)) + " " + name + "[" + number(volume(kernel_.inner, exprs_)) +
              (per_lane ? " * W" : "") + "];");
      w_.scratch[s.buffer] = {name, at, per_lane};
    }
  }

  void map(const Step& s, size_t i) {
    const std::string x = w_.value(s.body);
    w_.bind(exprs_.load(s.buffer, s.dtype, s.at), x);
    if (kept_.contains(s.buffer)) w_.store(s.buffer, s.dtype, s.at, x);
    if (const auto scratch = w_.scratch.find(s.buffer); scratch != w_.scratch.end()) {
      const auto& [array, at, per_lane] = scratch->second;
      const std::string t = type_name(register_dtype(s.dtype));
      w_.line("store<" + t + ">(" + array + " + " + (per_lane ? "(" + w_.scalar(at) + ") * W" : w_.scalar(at)) + ", " + x +
              (w_.tail && !per_lane ? ", len);" : ");"));
    }
    (void)i;
  }

  Dtype accumulator(const Step& s) const {
    if (s.kind == Step::Kind::scan) {  // ATen's acc_type on the CPU
      if (s.dtype == Dtype::f32) return Dtype::f64;
      return register_dtype(s.dtype);
    }
    if (is_arg(s.reduction)) return register_dtype(exprs_[s.body].dtype);
    return register_dtype(s.dtype);
  }

  bool cascades(const Step& s) const {
    return s.kind == Step::Kind::reduce && s.reduction == Reduction::sum && ir::is_float(s.dtype);
  }

  const char* position_type() const { return volume(kernel_.inner, exprs_) < INT32_MAX ? "i32" : "i64"; }

  /// One pass over the row.
  void row_loops(int stage) {
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
    const int64_t length = extent(innermost), limit = vector ? 4096 : 512;
    // Short sums are summed: an f32 accumulator alone would stop counting at 2^24.
    const bool partial = sums && (order.size() > 1 || length > limit);
    const bool blocked = sums && length > limit;
    const int unroll = !reduces || kernel_.steps[0].kind == Step::Kind::scan || length < 64 ? 1 : cost <= 10 ? 4 : cost <= 24 ? 2 : 1;

    // Accumulators; partial ones start anew in each innermost loop.
    const auto declare = [&](size_t i, const std::string& suffix) {
      const Step& s = kernel_.steps[i];
      if (s.kind == Step::Kind::map) return;
      const Dtype t = accumulator(s);
      const bool mask = s.reduction == Reduction::any || s.reduction == Reduction::all;
      w_.line("auto a" + number(static_cast<int64_t>(i)) + suffix + " = " + identity(s.reduction, mask ? Dtype::b8 : t) + ";");
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
        if (s.kind == Step::Kind::map) map(s, i);
        if (s.kind == Step::Kind::reduce) accumulate(s, accumulator_name(i, u));
        if (s.kind == Step::Kind::scan) scan(s, i);
      }
    };
    std::string low = "0", high = number(length);
    if (blocked) low = "part", high = "part_end";
    if (vector) {
      along_lanes(low, high, unroll, length % kMaxLanes != 0, body);
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
      w_.line("for (i64 part = 0; part < " + number(length) + "; part += " + number(limit) + ") {\nconst i64 part_end = part + " +
              number(limit) + " < " + number(length) + " ? part + " + number(limit) + " : " + number(length) + ";\n" + text + "}");
    }
    for (size_t d = order.size() - 1; d-- > 0;) {
      const std::string text = w_.close(), name = w_.name(order[d]);
      w_.line("for (i64 " + name + " = 0; " + name + " < " + number(extent(order[d])) + "; ++" + name + ") {\n" + text + "}");
    }
    for (const size_t i : steps)
      if (kernel_.steps[i].kind == Step::Kind::reduce && !(partial && cascades(kernel_.steps[i]))) fold(i, false);
    for (const size_t i : steps)
      if (kernel_.steps[i].kind == Step::Kind::reduce) result(kernel_.steps[i], i);
  }

  template <class Body>
  void one_by_one(Atom variable, const std::string& low, const std::string& high, int unroll, const Body& body) {
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
      loop += copies > 1 ? "for (; " + name + " + " + number(copies) + " <= end_i; " + name + " += " + number(copies) + ") {\n" + text + "}\n"
                         : "for (; " + name + " < end_i; ++" + name + ") {\n" + text + "}\n";
    }
    w_.line("{\ni64 " + name + " = " + low + ";\nconst i64 end_i = " + high + ";\n" + loop + "}");
  }

  void accumulate(const Step& s, const std::string& to) {
    std::string x = w_.value(s.body);
    const bool masked = w_.tail && lane_in_row();
    if (is_arg(s.reduction)) {
      const Expr& p = exprs_[s.position];
      const Index at = p.kind == Expr::Kind::constant ? Index(p.integer) : p.at;
      if (masked) x = "keep(" + x + ", len, " + identity(s.reduction, accumulator(s)) + ")";
      std::string where = w_.lanes_of(at, position_type());
      if (masked) where = "keep(" + where + ", len, splat<" + position_type() + ", W>(" + std::string(std::string(position_type()) == "i32" ? "2147483647" : "9223372036854775807LL") + "))";
      w_.line(std::string("arg_step<") + (s.reduction == Reduction::argmax ? "true" : "false") + ">(a" + to + ", b" + to + ", " + x +
              ", " + where + ");");
      return;
    }
    const bool mask = s.reduction == Reduction::any || s.reduction == Reduction::all;
    if (masked) x = "keep(" + x + ", len, " + identity(s.reduction, mask ? Dtype::b8 : accumulator(s)) + ")";
    w_.line("a" + to + " = " + combine(s.reduction) + "(a" + to + ", " + x + ");");
  }

  void merge(const Step& s, const std::string& a, const std::string& b) {
    if (is_arg(s.reduction)) {
      w_.line(std::string("arg_step<") + (s.reduction == Reduction::argmax ? "true" : "false") + ">(a" + a + ", b" + a + ", a" + b +
              ", b" + b + ");");
    } else {
      w_.line("a" + a + " = " + combine(s.reduction) + "(a" + a + ", a" + b + ");");
    }
  }

  /// The accumulator becomes a value of the outer level.
  void result(const Step& s, size_t i) {
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

  void scan(const Step& s, size_t i) {
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

  // ---- Writes through an index ----

  void write_rows() {
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
      const bool tail = (block_multiple_ == 0 ? extent(w_.lane) : std::gcd(extent(w_.lane), block_multiple_)) % kMaxLanes != 0;
      along_lanes(low_, high_, 1, tail, body);
    } else {
      body(0);
    }
    for (size_t d = order.size(); d-- > 0;) {
      const std::string text = w_.close(), name = w_.name(order[d]);
      w_.line("for (i64 " + name + " = 0; " + name + " < " + number(extent(order[d])) + "; ++" + name + ") {\n" + text + "}");
    }
  }

  // ---- Matrix products ----

  KernelText matmul() {
    const Step s = kernel_.steps[0];
    const auto size = [&](int i) { return s.axes[static_cast<size_t>(i)] < 0 ? 1 : extent(s.axes[static_cast<size_t>(i)]); };
    const auto operand = [&](ExprId e, Atom i) {
      const Expr& x = exprs_[e];
      PRECAST_CHECK(x.kind == Expr::Kind::load, "an operand of a matrix product is not in memory");
      GemmOperand o;
      o.dtype = x.dtype;
      const auto stride = [&](Atom a) { return a < 0 ? 0 : x.at.coefficient(a); };
      o.batch_stride = stride(s.axes[0]), o.i_stride = stride(i), o.k_stride = stride(s.axes[3]);
      return o;
    };
    GemmSpec spec;
    spec.name = "KERNEL_product";
    spec.batch = size(0), spec.M = size(1), spec.N = size(2), spec.K = size(3);
    spec.dtype = s.dtype == Dtype::f64 ? Dtype::f64 : Dtype::f32;
    spec.a = operand(s.a, s.axes[1]), spec.b = operand(s.b, s.axes[2]);
    const auto in_memory = [&](ExprId e) {
      return w_.pointer(exprs_[e].buffer, exprs_[e].dtype, exprs_[e].at.constant, false);
    };
    spec.a.pointer = in_memory(s.a);
    if (constants_.contains(exprs_[s.b].buffer) && gemm_workspace_bytes(spec) > 0) {
      pack(spec, exprs_[s.b]);
      spec.b.packed = true;
      spec.b.pointer = w_.pointer(out_.packing->packed, spec.dtype, 0, false);
    } else {
      spec.b.pointer = in_memory(s.b);
    }

    const char* names[] = {"b", "m", "n"};
    std::set<Atom> bound;
    for (int i = 0; i < 3; ++i)
      if (s.axes[static_cast<size_t>(i)] >= 0) {
        w_.name(s.axes[static_cast<size_t>(i)], names[i]);
        bound.insert(s.axes[static_cast<size_t>(i)]);
      }
    w_.lane = s.axes[2];
    w_.tail = true;
    w_.open(bound);
    const ExprId product = exprs_.load(s.buffer, s.dtype, s.at);
    if (s.dtype == Dtype::f16 || s.dtype == Dtype::bf16) {
      w_.line("const auto rounded = round_to<" + type_name(s.dtype) + ">(acc);");
      w_.bind(product, "rounded");
    } else {
      w_.bind(product, "acc");
    }
    if (kept_.contains(s.buffer)) w_.store(s.buffer, s.dtype, s.at, w_.value(product));
    for (size_t i = 1; i < kernel_.steps.size(); ++i) map(kernel_.steps[i], i);
    const std::string body = w_.close();
    spec.epilogue = w_.take_text() + body;
    for (const Step& step : kernel_.steps)
      if (!kept_.contains(step.buffer)) program_.buffers[static_cast<size_t>(step.buffer)].place = Buffer::Place::local;

    std::string call = "void KERNEL(const precast_host* host, void* const* P) {\nKERNEL_product(host, (char*)P[" +
                       number(static_cast<int64_t>(w_.parameters.size())) + "]";
    for (size_t i = 0; i < w_.parameters.size(); ++i) {
      const std::string type = (w_.parameters[i].written ? "" : "const ") + type_name(w_.parameters[i].dtype) + "*";
      spec.params.push_back({type, "p" + number(static_cast<int64_t>(i))});
      call += ", (" + type + ")P[" + number(static_cast<int64_t>(i)) + "]";
    }
    if (w_.can_fail) {
      spec.params.push_back({"precast_fault*", "fault"});
      call += ", (precast_fault*)P[" + number(static_cast<int64_t>(w_.parameters.size()) + 1) + "]";
    }
    out_.workspace_bytes = std::max<int64_t>(gemm_workspace_bytes(spec), 64);
    out_.text = gemm_kernel(spec) + call + ");\n}\n";
    finish();
    return std::move(out_);
  }

  void pack(const GemmSpec& product, const Expr& source) {
    GemmSpec spec = product;
    const std::string type = "const " + type_name(source.dtype) + "*", to = type_name(spec.dtype) + "*";
    spec.M = 1;  // of no matter: products of any height share the kernel
    spec.params = {{type, "p0"}};
    spec.a.pointer = spec.b.pointer = "p0";
    spec.a = spec.b;
    Buffer packed;
    packed.bytes = gemm_packed_bytes(spec);
    packed.place = Buffer::Place::prepared;
    program_.buffers.push_back(std::move(packed));
    out_.packing = Packing{
        gemm_pack(spec) + "void KERNEL(const precast_host* host, void* const* P) {\nKERNEL_product_pack(host, (" + to + ")P[0], (" +
            type + ")P[1]);\n}\n",
        {source.buffer, source.at.constant * ir::itemsize(source.dtype)},
        static_cast<BufferId>(program_.buffers.size()) - 1};
  }

  Kernel kernel_;
  Program& program_;
  loops::Exprs& exprs_;
  Writer w_;
  std::set<BufferId> kept_;
  const std::set<BufferId>& constants_;
  KernelText out_;
  std::set<std::pair<BufferId, Index>> counted_;
  std::vector<int> stage_;              // by step
  std::vector<size_t> scratch_steps_;
  std::string width_ = "LANES", low_, high_, pending_;
  int64_t block_multiple_ = 0;
};

}  // namespace

KernelText kernel_text(Kernel k, Program& p, const std::set<BufferId>& kept, const std::set<BufferId>& constants) {
  return KernelWriter(std::move(k), p, kept, constants).run();
}

}  // namespace precast::emit
