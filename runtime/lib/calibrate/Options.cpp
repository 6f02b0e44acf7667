//===- Options.cpp - the command line of moe-calibrate --------------------===//

#include "calibrate/MoeCalibrate.h"
#include "core/ProgramOptions.h"

#include <cmath>

namespace moert::calibrate {

static void addOptions(CLI::App &app, Options &o) {
  app.add_option("-o", o.output, "output file; - means standard output")->option_text(" FILE");
  app.add_option("--backend", o.backend,
                 "what to measure (default: host). cuda measures a GPU and, if torchrun, mpirun or srun starts one "
                 "process for each GPU, also the links between them; cuda-loopback measures ranks that share one GPU")
      ->option_text("=host|cuda|cuda-loopback")
      ->check([](const std::string &name) {
        bool isKnown = name == "host" || name == "cuda" || name == "cuda-loopback";
        return isKnown ? "" : "expected host, cuda or cuda-loopback but got '" + name + "'";
      });
  app.add_option("--products", o.products,
                 "write the fastest methods of products of experts on a GPU to FILE, and the fastest algorithms of "
                 "dense products, in place of a profile. The runtime reads the file that the variable MOERT_PRODUCTS "
                 "names")
      ->option_text("=FILE");
  app.add_option("--limit", o.limit,
                 "begin no further product after SECONDS, for --products. The products that matter most come first")
      ->option_text("=SECONDS")
      ->transform(isNumber<double>("a number of seconds that is not negative", 0, 3e9));
  // The profile's format has no room for more workers.
  app.add_option("--workers", o.workers,
                 "number of processors to describe, for backend host (default: one for each core)")
      ->option_text("=N")
      ->transform(isNumber<int64_t>("an integer from 1 to 4096", 1, 4096));
  app.add_flag("--quick", o.quick,
               "measure fewer sizes with fewer repetitions: takes seconds instead of minutes, but is less accurate");
}

Status parseOptions(const std::vector<std::string> &arguments, Options &options) {
  CLI::App app("Measures this machine with the runtime's own calls, and writes a cluster profile for --cluster of the "
               "other tools.\nIt takes some minutes. Run nothing else meanwhile.\nWith --products in place of -o, it "
               "measures the methods of products of experts on a GPU.",
               "moe-calibrate");
  app.formatter(std::make_shared<HelpFormatter>("-o cluster.json [options]"));
  app.footer("Exit status: 0 done; 1 a measurement failed; 2 bad usage or input.");
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  addOptions(app, options);
  MOERT_RETURN_IF_ERROR(parse(app, arguments, options.information));
  if (!options.information.empty())
    return {};
  if (options.workers && options.backend != "host")
    return invalid("expected --backend=host with --workers but got --backend=" + options.backend);
  if (!options.products.empty() && !options.output.empty())
    return invalid("-o and --products are mutually exclusive");
  if (!options.products.empty() && options.backend == "host")
    return invalid("expected --backend=cuda or --backend=cuda-loopback with --products");
  if (options.products.empty() && std::isfinite(options.limit))
    return invalid("expected --products with --limit");
  if (options.products.empty() && options.output.empty())
    return invalid("expected an output file: moe-calibrate -o cluster.json; moe-calibrate --help lists the options");
  return {};
}

} // namespace moert::calibrate
