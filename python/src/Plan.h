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

  /// Returns the plan. Its users, such as a world, keep it open. Throws after close().
  std::shared_ptr<std::remove_pointer_t<moert_plan_t>> get() const;
  /// Metadata as JSON, as docs/PlanFormat.md describes it.
  std::string metadata() const;
  /// Number of the variant for `batch` sequences of `sequence` tokens on each data-parallel rank.
  int64_t choose(int64_t batch, int64_t sequence) const;
  /// Closes the plan. May be called again.
  void close() { plan.reset(); }
  bool isClosed() const { return !plan; }

private:
  std::string path;
  std::shared_ptr<std::remove_pointer_t<moert_plan_t>> plan;
};

} // namespace moeplan::python

#endif // MOEPLAN_PYTHON_PLAN_H
