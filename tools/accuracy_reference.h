// References of accuracy.h for whole arrays, several times as fast.
#pragma once
#include <cstddef>

namespace accuracy {

using References = void (*)(const double* x, double* y, size_t n);
/// Null where there is none for this function.
References references(const char* name);

}  // namespace accuracy
