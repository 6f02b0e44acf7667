//===- Module.h - what the extension moeplan._runtime has -------*- C++ -*-===//
//
// Each file registers what it has by one function, which Module.cpp calls.
//
//===----------------------------------------------------------------------===//
#ifndef MOEPLAN_PYTHON_MODULE_H
#define MOEPLAN_PYTHON_MODULE_H

#include <nanobind/nanobind.h>

namespace moeplan::python {

/// Turns `Error` (Error.h) into moeplan.Error. First of all, so that the others may throw.
void registerErrors(nanobind::module_ &module);
void registerPlan(nanobind::module_ &module);
void registerWorld(nanobind::module_ &module);

} // namespace moeplan::python

#endif // MOEPLAN_PYTHON_MODULE_H
