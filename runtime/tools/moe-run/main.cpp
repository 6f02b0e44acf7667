//===- main.cpp - moe-run: runs a compiled plan ---------------------------===//

#include "run/Main.h"

#include <cstdlib>
#include <iostream>
#include <unistd.h>

int main(int argc, char **argv) {
  int status = moert::run::runMain({argv + 1, argv + argc}, std::cout, std::cerr, isatty(STDERR_FILENO));
  if (status == 0)
    return 0;
  // Where memory was short, the threads that OpenBLAS starts on loading still wait for theirs, and exit would wait for
  // them.
  std::cout.flush();
  std::_Exit(status);
}
