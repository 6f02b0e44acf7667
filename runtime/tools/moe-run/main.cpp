//===- main.cpp - moe-run: runs a compiled plan ---------------------------===//

#include "run/Main.h"

#include <iostream>
#include <unistd.h>

int main(int argc, char **argv) {
  return moert::run::runMain({argv + 1, argv + argc}, std::cout, std::cerr, isatty(STDERR_FILENO));
}
