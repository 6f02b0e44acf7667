//===- main.cpp - moe-run: runs a compiled plan ---------------------------===//

#include "core/OutputFile.h"
#include "run/MoeRun.h"

#include <cstdlib>
#include <iostream>
#include <unistd.h>

int main(int argc, char **argv) {
  moert::keepStandardFiles();
  moert::OutputFile &out = moert::OutputFile::standardOutput();
  int status = moert::run::runMain({argv + 1, argv + argc}, out, std::cerr, isatty(STDERR_FILENO));
  if (moert::Status written = out.writeOut(); !written.ok()) {
    std::cerr << "moe-run: error: " << written.message << "\n";
    status = status ? status : 2;
  }
  // After a stop, all processes end MPI together. Slurm would otherwise kill those that are still there.
  if (status == moert::run::Done || status == moert::run::Stopped)
    return status;
  // If memory was short, the threads that OpenBLAS starts on loading still wait for theirs, and exit would wait for
  // them.
  std::_Exit(status);
}
