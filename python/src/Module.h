//===- Module.h - the classes of moeplan._runtime ---------------*- C++ -*-===//
//
// Each file registers its classes by one function, which Module.cpp calls.
//
//===----------------------------------------------------------------------===//
#ifndef MOEPLAN_PYTHON_MODULE_H
#define MOEPLAN_PYTHON_MODULE_H

#include <nanobind/nanobind.h>

namespace moeplan::python {

/// Turns `Error` (Error.h) into moeplan.Error. It is called first, so that the other functions may throw.
void registerErrors(nanobind::module_ &module);
void registerPlan(nanobind::module_ &module);
void registerWorld(nanobind::module_ &module);

} // namespace moeplan::python

#endif // MOEPLAN_PYTHON_MODULE_H
