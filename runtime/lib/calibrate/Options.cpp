//===- Options.cpp - the command line of moe-calibrate --------------------===//

#include "calibrate/Options.h"

#include <charconv>

namespace moert::calibrate {

const char *const kHelpText =
    R"(usage: moe-calibrate -o cluster.json [options]

Measures this machine as the runtime uses it, and writes a cluster profile for --cluster of the other tools. It takes
some minutes, in which nothing else should run.

  -o FILE            output file; - for standard output
  --backend=NAME     host (default); cuda: a GPU, and links where torchrun, mpirun or srun starts a process for each
                     GPU; cuda-loopback: ranks that share one GPU
  --workers=N        processors of the host to describe (default: one for each core)
  --quick            fewer sizes and repetitions: seconds instead of minutes, and less accurate
  --help             print this

Exit status: 0 done; 1 a measurement failed; 2 bad usage or input.
)";

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

Status parseFlag(const std::string &name, bool hasValue, Options &options) {
  bool &flag = name == "--quick" ? options.quick : options.help;
  flag = true;
  return hasValue ? invalid(name + " takes no value") : Status{};
}

Status parseOption(const std::string &argument, Options &options) {
  size_t equals = argument.find('=');
  bool hasValue = equals != std::string::npos;
  std::string name = argument.substr(0, equals), value = hasValue ? argument.substr(equals + 1) : "";
  if (name == "--quick" || name == "--help" || name == "-h")
    return parseFlag(name, hasValue, options);
  if (name != "--backend" && name != "--workers")
    return invalid("unknown option '" + name + "'; moe-calibrate --help lists them");
  if (value.empty())
    return invalid("expected a value: " + name + "=...");
  return name == "--backend" ? parseBackend(value, options) : parseWorkers(value, options.workers);
}

} // namespace

Status parseOptions(const std::vector<std::string> &arguments, Options &options) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string &argument = arguments[i];
    if (argument == "-o") {
      if (i + 1 == arguments.size() || arguments[i + 1].empty())
        return invalid("expected a file after -o");
      options.output = arguments[++i];
    } else if (argument.size() > 1 && argument[0] == '-') {
      if (Status status = parseOption(argument, options); !status.ok())
        return status;
    } else {
      return invalid("unexpected argument '" + argument + "'; moe-calibrate --help lists the options");
    }
  }
  if (options.workers && options.backend != "host")
    return invalid("--workers is for backend 'host'");
  if (!options.help && options.output.empty())
    return invalid("expected an output file: moe-calibrate -o cluster.json; moe-calibrate --help lists the options");
  return {};
}

} // namespace moert::calibrate
