//===- Options.cpp - the command line of moe-calibrate --------------------===//

#include "calibrate/Options.h"
#include "core/CommandLine.h"

#include <charconv>

namespace moert::calibrate {

namespace {

Status parseWorkers(const std::string &text, int64_t &workers) {
  // The profile's format has room for no more.
  constexpr int64_t kMostWorkers = 4096;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), workers);
  bool isNumber = error == std::errc() && end == text.data() + text.size();
  if (isNumber && workers >= 1 && workers <= kMostWorkers)
    return {};
  return invalid("expected an integer from 1 to " + std::to_string(kMostWorkers) + " for --workers but got '" + text +
                 "'");
}

Status parseBackend(const std::string &name, Options &options) {
  options.backend = name;
  if (name == "host" || name == "cuda" || name == "cuda-loopback")
    return {};
  return invalid("expected host, cuda or cuda-loopback for --backend but got '" + name + "'");
}

/// The options, which are set in `o`.
CommandLine commandLine(Options &o) {
  return {
      "moe-calibrate",
      "-o cluster.json [options]",
      "Measures this machine with the runtime's own calls, and writes a cluster profile for --cluster of the other "
      "tools.\nIt takes some minutes. Run nothing else meanwhile.\nWith --products in place of -o, it measures the "
      "methods of products of experts on a GPU.",
      {{"Options",
        {{"-o", "FILE", &o.output, "output file; - means standard output"},
         {"--backend", "host|cuda|cuda-loopback", [&o](const std::string &name) { return parseBackend(name, o); },
          "what to measure (default: host). cuda measures a GPU and, if torchrun, mpirun or srun starts one process "
          "for each GPU, also the links between them; cuda-loopback measures ranks that share one GPU"},
         {"--products", "FILE", &o.products,
          "write the fastest methods of products of experts on a GPU to FILE, and the fastest algorithms of dense "
          "products, in place of a profile. The runtime reads the file that the variable MOERT_PRODUCTS names"},
         {"--workers", "N", [&o](const std::string &text) { return parseWorkers(text, o.workers); },
          "number of processors to describe, for backend host (default: one for each core)"},
         {"--quick", "", &o.quick,
          "measure fewer sizes with fewer repetitions: takes seconds instead of minutes, but is less accurate"},
         {"--help", "", &o.help, "print this help"},
         {"--version", "", &o.version, "print the version"}}}},
      "Exit status: 0 done; 1 a measurement failed; 2 bad usage or input."};
}

} // namespace

std::string helpText() {
  Options options;
  return commandLine(options).helpText();
}

Status parseOptions(const std::vector<std::string> &arguments, Options &options) {
  const CommandLine line = commandLine(options);
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string &argument = arguments[i];
    if (argument == "-o") {
      if (i + 1 == arguments.size() || arguments[i + 1].empty())
        return invalid("expected a file after -o");
      options.output = arguments[++i];
    } else if (argument.size() > 1 && argument[0] == '-') {
      MOERT_RETURN_IF_ERROR(line.parse(argument));
    } else {
      return invalid("unexpected argument '" + argument + "'; moe-calibrate --help lists the options");
    }
  }
  if (options.workers && options.backend != "host")
    return invalid("expected --workers with --backend=host only but got --backend=" + options.backend);
  if (options.help || options.version)
    return {};
  if (!options.products.empty() && !options.output.empty())
    return invalid("expected either -o or --products but got both");
  if (!options.products.empty() && options.backend == "host")
    return invalid("expected --products with --backend=cuda or --backend=cuda-loopback only");
  if (options.products.empty() && options.output.empty())
    return invalid("expected an output file: moe-calibrate -o cluster.json; moe-calibrate --help lists the options");
  return {};
}

} // namespace moert::calibrate
