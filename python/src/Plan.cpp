//===- Plan.cpp - an open plan --------------------------------------------===//
#include "Plan.h"
#include "Error.h"
#include "Module.h"

#include <nanobind/stl/string.h>

namespace nb = nanobind;
using namespace nb::literals;

namespace moeplan::python {

Plan::Plan(const std::string &path) : path(path) {
  moert_plan_t opened = nullptr;
  check(moert_plan_open(path.c_str(), &opened));
  plan.reset(opened, moert_plan_close);
}

std::shared_ptr<std::remove_pointer_t<moert_plan_t>> Plan::get() const {
  if (!plan)
    throw Error("'" + path + "' is closed: open it again with moeplan.Plan");
  return plan;
}

std::string Plan::metadata() const { return moert_plan_metadata(get().get()); }

int64_t Plan::choose(int64_t batch, int64_t sequence) const {
  int64_t variant = 0;
  check(moert_plan_choose(get().get(), batch, sequence, &variant));
  return variant;
}

void registerPlan(nb::module_ &module) {
  nb::class_<Plan>(module, "Plan", "An open plan .so. A plan is code: open only plans that you trust.")
      .def(nb::init<const std::string &>(), "path"_a, nb::call_guard<nb::gil_scoped_release>(),
           "Loads a plan, checks its metadata and finds its programs.")
      .def("metadata", &Plan::metadata, "The metadata of the plan as JSON.")
      .def("choose", &Plan::choose, "batch"_a, "sequence"_a,
           "The number of the variant for `batch` sequences of `sequence` tokens of a data-parallel rank.")
      .def("close", &Plan::close, "Closes the plan as soon as no world needs it. May be called again.")
      .def_prop_ro("is_closed", &Plan::isClosed, "Whether close() was called.");
}

} // namespace moeplan::python
