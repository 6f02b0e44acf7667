//===- main.cpp - moe-calibrate: measures this machine --------------------===//

#include "calibrate/Main.h"

#include <iostream>
#include <unistd.h>

int main(int argc, char **argv) {
  return moert::calibrate::runMain({argv + 1, argv + argc}, std::cout, std::cerr, isatty(STDERR_FILENO));
}
