# Decides whether the compiler is built: MOE_HAS_COMPILER. Wheels are also built without MLIR, and then only run plans.
set(MOE_COMPILER ON CACHE STRING "Build the compiler and its tools: ON, OFF, or AUTO, which builds them where MLIR 19 is found")
set_property(CACHE MOE_COMPILER PROPERTY STRINGS ON OFF AUTO)
set(MOE_HAS_COMPILER ${MOE_COMPILER})
if(MOE_COMPILER STREQUAL "AUTO")
  find_package(MLIR 19.1 QUIET CONFIG HINTS /usr/lib/llvm-19/lib/cmake/mlir)
  set(MOE_HAS_COMPILER ${MLIR_FOUND})
endif()
if(NOT MOE_HAS_COMPILER)
  message(NOTICE "The compiler is left out, with moe-compile, moe-plan, moe-sim and moe-import. It needs MLIR 19 (Debian: "
    "libmlir-19-dev, mlir-19-tools) and MOE_COMPILER=ON or AUTO, but MOE_COMPILER is ${MOE_COMPILER}.")
endif()
