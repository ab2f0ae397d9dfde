// What this machine can do at best: the roofline that results are held against. Measured, not looked up.
#pragma once

namespace precast::bench {

struct Machine {
  int threads = 1;
  double flops = 0;  // float32 multiply-adds, operations a second, all threads
  double bytes = 0;  // memory traffic of a triad, bytes a second, all threads
};
/// Takes about a second.
Machine measure_machine(int threads);

}  // namespace precast::bench
