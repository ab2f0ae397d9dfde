// Rounds in sequences, and the loops that calls of kernels become.
#include "emit/repeats.h"

#include <doctest/doctest.h>

#include "emit/run_text.h"

using namespace precast::emit;

namespace {

/// "first:period*times", a space between two.
std::string found(const std::string& letters) {
  std::vector<int> items;
  for (const char c : letters) items.push_back(c == '.' ? -1 : c);
  std::string text;
  for (const Repeat& r : repeats(items))
    text += (text.empty() ? "" : " ") + std::to_string(r.first) + ":" + std::to_string(r.period) + "*" +
            std::to_string(r.times);
  return text;
}

Call kernel(int function, std::vector<Address> pointers) {
  return {function, "k" + std::to_string(function), std::move(pointers), false, false, -1, {}};
}

}  // namespace

TEST_CASE("repeats: rounds of a sequence") {
  CHECK(found("") == "");
  CHECK(found("a") == "");
  CHECK(found("abcd") == "");
  CHECK(found("aaaa") == "0:1*4");
  CHECK(found("xabababy") == "1:2*3");
  CHECK(found("aababab") == "1:2*3");  // one that begins later saves more
  CHECK(found("aabaabaab") == "0:3*3");
  CHECK(found("abcabcxyzzxyzz") == "0:3*2 6:4*2");
  CHECK(found("ababababa") == "0:2*4");  // a last round that is cut short
  CHECK(found("a.a.a.a.") == "");        // no host op in a round
}

TEST_CASE("run_text: a loop counts what is even, and looks up the rest") {
  std::vector<Call> calls;
  for (int t = 0; t < 5; ++t) {
    calls.push_back(kernel(1, {{"f->in", 2 + 3 * t, 0}, {"f->arena", -1, 640 - 64 * t}}));
    calls.push_back(kernel(2, {{"f->arena", -1, t % 2 == 0 ? 0 : 4096}, {"f->out", 0, 8}}));
  }
  const std::string text = run_text(calls);
  CHECK(text.find("for (i64 t = 0; t < 5; ++t) {") != text.npos);
  CHECK(text.find("void* P[] = {(char*)f->in[2 + 3 * t], (char*)f->arena + 640 - 64 * t};\nk1(host, P);") != text.npos);
  CHECK(text.find("static const i64 at_round0[] = {0, 4096, 0, 4096, 0};") != text.npos);
  CHECK(text.find("void* P[] = {(char*)f->arena + at_round0[t], (char*)f->out[0] + 8};\nk2(host, P);") != text.npos);
}

TEST_CASE("run_text: a round that reads other memory stands apart") {
  std::vector<Call> calls;
  for (int t = 0; t < 9; ++t)
    calls.push_back(kernel(1, {t == 0 ? Address{"f->in", 0, 0} : Address{"f->arena", -1, 64 * t}}));
  const std::string text = run_text(calls);
  CHECK(text.find("{\nvoid* P[] = {(char*)f->in[0]};\nk1(host, P);\n}\nfor (i64 t = 0; t < 8; ++t)") != text.npos);
  CHECK(text.find("(char*)f->arena + 64 + 64 * t") != text.npos);
}

TEST_CASE("run_text: where a call can fail the loop returns") {
  std::vector<Call> calls(8, kernel(1, {{"f->in", 0, 0}}));
  for (Call& c : calls) c.can_fail = true;
  CHECK(run_text(calls).find("if (fault.code) return precast_report(host, fault);") != std::string::npos);
}

TEST_CASE("run_text: few calls stay as they are") {
  const std::vector<Call> calls(3, kernel(1, {{"f->in", 0, 0}}));
  CHECK(run_text(calls).find("for (") == std::string::npos);
}

TEST_CASE("run_text: sizes that a call brings are the same in each round") {
  const precast::ir::Size n = precast::ir::Size::symbol({.id = 0});
  std::vector<Call> calls;
  for (int t = 0; t < 8; ++t) calls.push_back(kernel(1, {{"f->arena", -1, t < 4 ? n : n * 2}}));
  const std::string text = run_text(calls);
  CHECK(text.find("for (") == text.npos);  // two halves of four: three calls saved each
}
