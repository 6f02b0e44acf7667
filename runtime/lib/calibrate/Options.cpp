//===- Options.cpp - the command line of moe-calibrate --------------------===//

#include "calibrate/Options.h"
#include "core/CommandLine.h"

#include <charconv>

namespace moert::calibrate {

namespace {

Status invalid(const std::string &message) { return Status::error(MOERT_ERROR_INVALID_ARGUMENT, message); }

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
  return invalid("cannot calibrate backend '" + name + "', expected host, cuda or cuda-loopback");
}

/// The options, which are set in `o`.
CommandLine commandLine(Options &o) {
  return {"moe-calibrate",
          "-o cluster.json [options]",
          "Measures this machine as the runtime uses it, and writes a cluster profile for --cluster of the other "
          "tools.\nIt takes some minutes, in which nothing else should run.",
          {{"Options",
            {{"-o", "FILE", &o.output, "output file; - for standard output"},
             {"--backend", "host|cuda|cuda-loopback", [&o](const std::string &name) { return parseBackend(name, o); },
              "what is measured (default: host). cuda is a GPU, and links where torchrun, mpirun or srun "
              "starts a process for each GPU; cuda-loopback is ranks that share one GPU"},
             {"--workers", "N", [&o](const std::string &text) { return parseWorkers(text, o.workers); },
              "processors of the host to describe (default: one for each core)"},
             {"--quick", "", &o.quick, "fewer sizes and repetitions: seconds instead of minutes, and less accurate"},
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
      if (Status status = line.parse(argument); !status.ok())
        return status;
    } else {
      return invalid("unexpected argument '" + argument + "'; moe-calibrate --help lists the options");
    }
  }
  if (options.workers && options.backend != "host")
    return invalid("--workers is for backend 'host'");
  if (!options.help && !options.version && options.output.empty())
    return invalid("expected an output file: moe-calibrate -o cluster.json; moe-calibrate --help lists the options");
  return {};
}

} // namespace moert::calibrate
