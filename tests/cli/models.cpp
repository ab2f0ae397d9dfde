#include "models.h"

#include <doctest/doctest.h>

#include <map>

#include "child.h"

const Scratch& workspace() {
  static const Scratch dir;
  return dir;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string model(const std::string& name) {
  const auto path = workspace().path / (name + ".pt");
  if (!std::filesystem::exists(path)) {
    const Output o = run_program(PRECAST_MAKE_SCRIPT, {name, path.string()});
    REQUIRE_MESSAGE(o.code == 0, o.err);
  }
  return path.string();
}

const Pair& pair(const std::string& name, const std::vector<std::string>& arguments) {
  static std::map<std::string, Pair> made;
  std::string key = name;
  for (const std::string& a : arguments) key += ' ' + a;
  const auto found = made.find(key);
  if (found != made.end()) return found->second;
  const std::string base = (workspace().path / (name + std::to_string(made.size()))).string();
  std::vector<std::string> all = {"capture", model(name), "-o", base};
  all.insert(all.end(), arguments.begin(), arguments.end());
  const Output o = precast_program(all);
  REQUIRE_MESSAGE(o.code == 0, o.err);
  return made[key] = {base + ".cpp", base + ".cache"};
}

std::string weights(const std::string& name, const std::vector<std::string>& arguments) {
  const std::string path = (workspace().path / (name + ".safetensors")).string();
  std::vector<std::string> all = {"weights", model(name), "-o", path};
  all.insert(all.end(), arguments.begin(), arguments.end());
  const Output o = precast_program(all);
  REQUIRE_MESSAGE(o.code == 0, o.err);
  return path;
}
