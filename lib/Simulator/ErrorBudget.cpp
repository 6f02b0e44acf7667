//===- ErrorBudget.cpp - errors of predicted times ------------------------===//
#include "moe/Simulator/ErrorBudget.h"

#include <cmath>

using namespace mlir::moe;

void ErrorBudget::add(const ErrorBudget &other, double times) {
  for (auto [kind, seconds] : other.errors)
    errors[kind] += times * seconds;
}

double ErrorBudget::getDifference(const ErrorBudget &other) const {
  ErrorBudget difference = *this;
  difference.add(other, -1);
  double squares = 0;
  for (auto [kind, seconds] : difference.errors)
    squares += seconds * seconds;
  return std::sqrt(squares);
}
