#include "artifact/spec.h"

#include <doctest/doctest.h>

#include "precast/error.h"

using namespace precast::artifact;

TEST_CASE("structure strings are canonical") {
  for (const char* text : {"*", "()", "(*,)", "(*, *)", "[]", "[*]", "[*, (*, *)]", "{}", "{'k': *}",
                           "{'it\\'s': [*], '\\\\': *}", "Batch(image=*, label=[*, *])", "my::Pair(a=*)", "Empty()"}) {
    CAPTURE(text);
    CHECK(print(parse_tree(text)) == text);
  }
  CHECK(print(parse_tree(" ( * ,[ *] ) ")) == "(*, [*])");
}

TEST_CASE("a malformed structure names the column and what was expected") {
  const auto message = [](const char* text) -> std::string {
    try {
      parse_tree(text);
    } catch (const precast::PrecompileError& error) {
      return error.what();
    }
    return "no error";
  };
  CHECK(message("(*") == "structure \"(*\", column 3: expected ')', found the end");
  CHECK(message("(*)") == "structure \"(*)\", column 4: expected ',' before ')' of a tuple of one, found the end");
  CHECK(message("{*: *}") == "structure \"{*: *}\", column 2: expected ''', found '*'");
  CHECK(message("* *") == "structure \"* *\", column 3: expected the end, found '*'");
  CHECK(message("P(=*)") == "structure \"P(=*)\", column 3: expected a name, found '='");
  CHECK(message("%") == "structure \"%\", column 1: expected one of * ( [ { or a name, found '%'");
  CHECK(message(std::string(300, '[').c_str()).find("less nesting") != std::string::npos);
}

TEST_CASE("leaves have places") {
  const Tree tree = parse_tree("(*, {'mask': [*, *]}, Batch(x=*))");
  CHECK(count_leaves(tree) == 4);
  CHECK(leaf_places(tree, "result") ==
        std::vector<std::string>{"result[0]", "result[1]['mask'][0]", "result[1]['mask'][1]", "result[2].x"});
}

TEST_CASE("the first difference of two structures, in words") {
  const auto difference = [](const char* a, const char* b) {
    return first_difference(parse_tree(a), parse_tree(b), "argument 1");
  };
  CHECK(difference("(*, [*])", "(*, [*])") == "");
  CHECK(difference("*", "[*]") == "argument 1: expected a single value, found a list of 1");
  CHECK(difference("(*, [*, *])", "(*, [*, *, *])") == "argument 1[1]: expected a list of 2, found a list of 3");
  CHECK(difference("{'a': *}", "{'b': *}") == "argument 1: expected key 'a' at position 0, found 'b'");
  CHECK(difference("[P(x=*)]", "[P(y=*)]") == "argument 1[0]: expected field 'x' at position 0, found 'y'");
  CHECK(difference("P(x=*)", "Q(x=*)") == "argument 1: expected P with 1 field, found Q with 1 field");
}
