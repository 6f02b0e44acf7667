//===- Module.cpp - the extension moeplan._runtime ------------------------===//
#include "Module.h"

namespace nb = nanobind;
using namespace moeplan::python;

NB_MODULE(_runtime, module) {
  // Layers of models live until the end of the process, and so do their plans.
  nb::set_leak_warnings(false);
  module.doc() = "The runtime of plans, libmoert. Use it by the classes of moeplan.";
  module.attr("version") = MOE_VERSION;
  registerErrors(module);
  registerPlan(module);
  registerWorld(module);
}
