#include "artifact/symbol.h"

#include <dlfcn.h>

#include <algorithm>
#include <stdexcept>
#include <string_view>

#include "artifact/embedded.h"

namespace precast::artifact {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool in_word(char c) { return is_letter(c) || (c >= '0' && c <= '9'); }

bool is_identifier(std::string_view s) {
  return !s.empty() && is_letter(s[0]) && std::all_of(s.begin(), s.end(), in_word);
}

template <size_t N>
bool among(const std::string_view (&words)[N], std::string_view word) {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

constexpr std::string_view kWordsOfTheLanguage[] = {
    "alignas",   "alignof",   "and",           "and_eq",       "asm",
    "auto",      "bitand",    "bitor",         "bool",         "break",
    "case",      "catch",     "char",          "char16_t",     "char32_t",
    "char8_t",   "class",     "co_await",      "co_return",    "co_yield",
    "compl",     "concept",   "const",         "const_cast",   "consteval",
    "constexpr", "constinit", "continue",      "decltype",     "default",
    "delete",    "do",        "double",        "dynamic_cast", "else",
    "enum",      "explicit",  "export",        "extern",       "false",
    "float",     "for",       "friend",        "goto",         "if",
    "inline",    "int",       "linux",         "long",         "main",
    "mutable",   "namespace", "new",           "noexcept",     "not",
    "not_eq",    "nullptr",   "operator",      "or",           "or_eq",
    "private",   "protected", "public",        "register",     "reinterpret_cast",
    "requires",  "restrict",  "return",        "short",        "signed",
    "sizeof",    "static",    "static_assert", "static_cast",  "std",
    "struct",    "switch",    "template",      "this",         "thread_local",
    "throw",     "true",      "try",           "typedef",      "typeid",
    "typename",  "typeof",    "union",         "unix",         "unsigned",
    "using",     "virtual",   "void",          "volatile",     "wchar_t",
    "while",     "xor",       "xor_eq",
};

// Names that compose.cpp gives, as beginnings.
constexpr std::string_view kOwnNames[] = {"precast_isa_",     "precast_section_", "precast_made",
                                          "precast_metadata", "precast_graph",    "PRECAST_"};

bool stands_in(std::string_view text, std::string_view word) {
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1))
    if ((at == 0 || !in_word(text[at - 1])) && (at + word.size() == text.size() || !in_word(text[at + word.size()])))
      return true;
  return false;
}

bool is_in_c_library(const std::string& name) {
  for (const char* library : {"libc.so.6", "libm.so.6"}) {
    void* handle = ::dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    if (!handle) continue;
    const bool found = ::dlsym(handle, name.c_str()) != nullptr;
    ::dlclose(handle);
    if (found) return true;
  }
  return false;
}

// Why the name cannot be had; empty if it can.
std::string taken(const std::string& symbol) {
  const auto begins = [&](std::string_view own) { return symbol.starts_with(own); };
  if (among(kWordsOfTheLanguage, symbol)) return "is a word of C or C++";
  if (symbol.starts_with("__") || (symbol.size() > 1 && symbol[0] == '_' && symbol[1] >= 'A' && symbol[1] <= 'Z'))
    return "is reserved for the compiler";
  if (is_in_c_library(symbol)) return "is a name of the C library";
  // Words of comments count, too: only names with the library's prefix are looked for.
  if (symbol != "precast_model" && symbol.starts_with("precast_") &&
      (stands_in(kAbiHeader, symbol) || stands_in(kDriverText, symbol) || stands_in(kRuntimeHeader, symbol)))
    return "is a name of precast itself";
  if (std::any_of(std::begin(kOwnNames), std::end(kOwnNames), begins)) return "is a name of precast itself";
  return {};
}

}  // namespace

void check_symbol(const std::string& symbol) {
  if (!is_identifier(symbol))
    throw std::invalid_argument("symbol must be a C identifier such as 'precast_model', got '" + symbol + "'");
  if (const std::string why = taken(symbol); !why.empty())
    throw std::invalid_argument("symbol '" + symbol + "' " + why + "; choose another, such as 'precast_model'");
}

}  // namespace precast::artifact
