//===- Error.h - errors of the runtime as exceptions ------------*- C++ -*-===//
#ifndef MOEPLAN_PYTHON_ERROR_H
#define MOEPLAN_PYTHON_ERROR_H

#include <cstdint>
#include <stdexcept>

namespace moeplan::python {

/// An error that becomes moeplan.Error in Python.
class Error : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

/// Throws the runtime's text if `status`, a moert_status, is an error. Call it on the thread that got the status.
void check(int32_t status);

} // namespace moeplan::python

#endif // MOEPLAN_PYTHON_ERROR_H
