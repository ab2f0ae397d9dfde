// Sizes in the text of kernels: numbers stay literals, symbols are variables that a kernel reads from an array.
#pragma once
#include <string>
#include <vector>

#include "ir/size.h"

namespace precast::emit {

/// "12", "size0", "(4 * size0 + 1)"
std::string text(const ir::Size&);
/// The same; a number beyond 32 bits has its suffix.
std::string number(const ir::Size&);

/// Whether the text has the name as a word.
bool names(const std::string& text, const std::string& name);
/// Declares what `text` names of the symbols, from `array`, which holds their values in this order. Empty: none.
std::string declare_sizes(const std::string& text, const std::vector<ir::Symbol>&, const std::string& array);

}  // namespace precast::emit
