//===- Error.cpp - errors of the runtime as exceptions --------------------===//
#include "Error.h"
#include "Module.h"

#include "moert/moert.h"

namespace nb = nanobind;

void moeplan::python::check(int32_t status) {
  if (status != MOERT_OK)
    throw Error(moert_last_error());
}

void moeplan::python::registerErrors(nb::module_ &) {
  // Python defines the class, because most errors come from there. The class lives as long as the process.
  nb::object error = nb::module_::import_("moeplan._errors").attr("Error");
  nb::register_exception_translator(
      [](const std::exception_ptr &thrown, void *error) {
        try {
          std::rethrow_exception(thrown);
        } catch (const Error &caught) {
          PyErr_SetString(static_cast<PyObject *>(error), caught.what());
        }
      },
      error.release().ptr());
}
