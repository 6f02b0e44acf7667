//===- JsonText.h - JSON with short numbers and lists on few lines --------===//
#ifndef MOERT_CALIBRATE_JSONTEXT_H
#define MOERT_CALIBRATE_JSONTEXT_H

#include <nlohmann/json.hpp>

#include <ostream>
#include <vector>

namespace moert::calibrate {

/// Rounds to four digits, since measurements do not have more.
double roundedNumber(double value);
nlohmann::ordered_json roundedNumbers(const std::vector<double> &values);

/// Prints the value, with lists of numbers on lines of their own, and a new line.
void printJson(const nlohmann::ordered_json &value, std::ostream &out);

} // namespace moert::calibrate

#endif // MOERT_CALIBRATE_JSONTEXT_H
