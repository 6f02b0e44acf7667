//===- main.cpp - moe-calibrate: measures this machine --------------------===//

#include "calibrate/MoeCalibrate.h"
#include "core/OutputFile.h"

#include <iostream>
#include <unistd.h>

int main(int argc, char **argv) {
  moert::keepStandardFiles();
  moert::OutputFile &out = moert::OutputFile::standardOutput();
  int status = moert::calibrate::runMain({argv + 1, argv + argc}, out, std::cerr, isatty(STDERR_FILENO));
  if (moert::Status written = out.writeOut(); !written.ok()) {
    std::cerr << "moe-calibrate: error: " << written.message << "\n";
    status = status ? status : 2;
  }
  return status;
}
