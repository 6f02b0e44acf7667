//===- Module.cpp - the extension moeplan._runtime ------------------------===//
#include "Module.h"

using namespace moeplan::python;

NB_MODULE(_runtime, module) {
  module.doc() = "The runtime of plans, libmoert. Use it by the classes of moeplan.";
  module.attr("version") = MOE_VERSION;
  registerErrors(module);
  registerPlan(module);
}
