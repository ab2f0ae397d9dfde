#define FMT_HEADER_ONLY
#include "emit/run_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "emit/repeats.h"
#include "emit/size_text.h"

namespace precast::emit {

namespace {

constexpr size_t kFewestSaved = 6;  // calls that a loop must save, to be worth reading

std::string host_call(const Call& c, const std::vector<std::string>& in) {
  std::string t = "{\n";
  t += in.empty() ? "void** in = 0;\n" : fmt::format("void* in[] = {{{}}};\n", fmt::join(in, ", "));
  t += fmt::format("void* out[{}] = {{}};\n", std::max<size_t>(c.host_results.size(), 1));
  t += fmt::format("if (host->host_op(host->context, {}, f->sizes, in, out) != 0) return PRECAST_HOST;\n", c.host_op);
  for (size_t i = 0; i < c.host_results.size(); ++i)
    t += fmt::format("host_out[{}] = out[{}];\n", c.host_results[i], i);
  return t + "}\n";
}

std::string kernel_call(const Call& c, std::vector<std::string> pointers) {
  if (c.can_fail) pointers.emplace_back("&fault");
  if (c.reads_sizes) pointers.emplace_back("(void*)f->sizes");
  std::string t = fmt::format("{{\nvoid* P[] = {{{}}};\n{}(host, P);\n}}\n", fmt::join(pointers, ", "), c.name);
  if (c.can_fail) t += "if (fault.code) return precast_report(host, fault);\n";
  return t;
}

std::string call_text(const Call& c, const std::vector<std::string>& pointers) {
  return c.function < 0 ? host_call(c, pointers) : kernel_call(c, pointers);
}

std::string address_text(const std::string& memory, const std::string& slot, const std::string& offset) {
  return "(char*)" + memory + (slot.empty() ? "" : "[" + slot + "]") + (offset == "0" ? "" : " + " + offset);
}

std::string text_of(const Address& a) {
  return address_text(a.memory, a.slot < 0 ? "" : std::to_string(a.slot), text(a.offset));
}

/// The rounds of a loop, and what differs between them.
class Loop {
 public:
  Loop(const std::vector<Call>& calls, const Repeat& r) : calls_(calls), r_(r) {}

  /// Whether both rounds differ in numbers only.
  bool alike(size_t a, size_t b) const {
    for (size_t i = 0; i < r_.period; ++i) {
      const auto &x = call(a, i).pointers, &y = call(b, i).pointers;
      const auto same = [](const Address& p, const Address& q) {
        const bool numbers = !p.offset.is_symbolic() && !q.offset.is_symbolic();
        return p.memory == q.memory && (p.slot < 0) == (q.slot < 0) && (numbers || p.offset == q.offset);
      };
      if (!std::ranges::equal(x, y, same)) return false;
    }
    return true;
  }

  std::string run() {
    std::string body;
    for (size_t i = 0; i < r_.period; ++i) {
      std::vector<std::string> pointers;
      for (size_t p = 0; p < call(0, i).pointers.size(); ++p) pointers.push_back(pointer(i, p));
      body += call_text(call(0, i), pointers);
    }
    return tables_.empty() ? loop(body) : "{\n" + tables_ + loop(body) + "}\n";
  }

 private:
  const Call& call(size_t round, size_t i) const { return calls_[r_.first + round * r_.period + i]; }
  std::string loop(const std::string& body) const {
    return fmt::format("for (i64 t = 0; t < {}; ++t) {{\n{}}}\n", r_.times, body);
  }

  std::string pointer(size_t i, size_t p) {
    const Address& first = call(0, i).pointers[p];
    std::vector<int64_t> slots, offsets;
    for (size_t round = 0; round < r_.times; ++round) {
      const Address& a = call(round, i).pointers[p];
      slots.push_back(a.slot);
      if (!a.offset.is_symbolic()) offsets.push_back(a.offset);
    }
    return address_text(first.memory, first.slot < 0 ? "" : number_of(slots),
                        offsets.empty() ? text(first.offset) : number_of(offsets));
  }

  /// The number of round `t`: a formula, or else an entry of a table.
  std::string number_of(const std::vector<int64_t>& v) {
    const int64_t step = v[1] - v[0];
    bool even = true;
    for (size_t t = 1; t < v.size(); ++t) even = even && v[t] - v[t - 1] == step;
    if (even && step == 0) return std::to_string(v[0]);
    if (even) return fmt::format("{} {} {} * t", v[0], step < 0 ? "-" : "+", step < 0 ? -step : step);
    std::string entries;
    for (size_t t = 0; t < v.size(); ++t)
      entries += fmt::format("{}{}", t == 0 ? "" : t % 12 == 0 ? ",\n" : ", ", v[t]);
    const auto known = std::ranges::find(entries_, entries);
    const auto index = known - entries_.begin();
    if (known == entries_.end()) {
      entries_.push_back(entries);
      tables_ += fmt::format("static const i64 at_round{}[] = {{{}}};\n", index, entries);
    }
    return fmt::format("at_round{}[t]", index);
  }

  const std::vector<Call>& calls_;
  const Repeat r_;
  std::string tables_;
  std::vector<std::string> entries_;
};

/// The part of a repeat whose rounds are alike, longest first.
Repeat alike_rounds(const std::vector<Call>& calls, const Repeat& r) {
  const Loop all(calls, r);
  Repeat best{r.first, r.period, 1};
  for (size_t from = 0; from < r.times;) {
    size_t to = from + 1;
    while (to < r.times && all.alike(from, to)) ++to;
    if (to - from > best.times) best = {r.first + from * r.period, r.period, to - from};
    from = to;
  }
  return best;
}

}  // namespace

std::string run_text(const std::vector<Call>& calls) {
  std::vector<int> functions;
  for (const Call& c : calls) functions.push_back(c.function);
  std::string t;
  size_t at = 0;
  const auto one_by_one = [&](size_t end) {
    for (; at < end; ++at) {
      std::vector<std::string> pointers;
      for (const Address& a : calls[at].pointers) pointers.push_back(text_of(a));
      t += call_text(calls[at], pointers);
    }
  };
  for (const Repeat& found : repeats(functions)) {
    const Repeat r = alike_rounds(calls, found);
    if (r.times < 3 || r.period * (r.times - 1) < kFewestSaved) continue;
    one_by_one(r.first);
    t += Loop(calls, r).run();
    at = r.end();
  }
  one_by_one(calls.size());
  return t;
}

std::string_view report_text() {
  return R"(static int precast_report(const precast_host* host, const precast_fault& f) {
  char text[200];
  int n = 0;
  const auto put = [&](const char* s) { while (*s && n < 199) text[n++] = *s++; };
  const auto put_number = [&](i64 x) {
    char digits[24];
    int d = 0;
    u64 rest = x < 0 ? 0 - (u64)x : (u64)x;
    do digits[d++] = (char)('0' + rest % 10); while (rest /= 10);
    if (x < 0) digits[d++] = '-';
    while (d > 0 && n < 199) text[n++] = digits[--d];
  };
  if (f.dim == -2) {
    put(f.op);
  } else if (f.dim < 0) {
    put("integer division or modulo by zero");
  } else {
    put(f.op), put(": index "), put_number(f.index), put(" is out of bounds for dimension "), put_number(f.dim);
    put(" with size "), put_number(f.extent);
  }
  text[n] = 0;
  host->fail(host->context, PRECAST_RUN, text);
  return PRECAST_RUN;
}
)";
}

}  // namespace precast::emit
