//===- FloatLiteral.cpp - floats as MLIR reads them -----------------------===//
#include "moe/Support/FloatLiteral.h"

#include "llvm/ADT/StringRef.h"

#include <charconv>

std::string mlir::moe::getFloatLiteral(double value) {
  char digits[32];
  auto end = std::to_chars(digits, digits + sizeof(digits), value, std::chars_format::scientific).ptr;
  auto [mantissa, exponent] = llvm::StringRef(digits, end - digits).split('e');
  std::string text = mantissa.str();
  if (!mantissa.contains('.'))
    text += ".0";
  int power = 0;
  exponent.consume_front("+");
  exponent.getAsInteger(10, power);
  return power == 0 ? text : text + "e" + std::to_string(power);
}
