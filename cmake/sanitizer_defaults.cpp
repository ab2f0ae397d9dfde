// Sanitizer settings of every program, so that child processes with an empty environment have them too. Leaks are not
// looked for: LibTorch keeps its registries until the process ends.
extern "C" const char* __asan_default_options() { return "detect_leaks=0:detect_odr_violation=0"; }
