//===- Plan.h - an open plan ------------------------------------*- C++ -*-===//
#ifndef MOEPLAN_PYTHON_PLAN_H
#define MOEPLAN_PYTHON_PLAN_H

#include "moert/world.h"

#include <memory>
#include <string>
#include <type_traits>

namespace moeplan::python {

class Plan {
public:
  explicit Plan(const std::string &path);

  /// The plan; what keeps it, such as a world, keeps it open. Throws after close().
  std::shared_ptr<std::remove_pointer_t<moert_plan_t>> get() const;
  /// JSON, as docs/Runtime.md describes it.
  std::string metadata() const;
  /// The number of the variant for `batch` sequences of `sequence` tokens of a data-parallel rank.
  int64_t choose(int64_t batch, int64_t sequence) const;
  /// May be called again.
  void close() { plan.reset(); }
  bool isClosed() const { return !plan; }

private:
  std::string path;
  std::shared_ptr<std::remove_pointer_t<moert_plan_t>> plan;
};

} // namespace moeplan::python

#endif // MOEPLAN_PYTHON_PLAN_H
