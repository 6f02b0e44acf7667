# Finds MLIR 19 and gives the functions with which the compiler's libraries and tools are declared. MLIR and LLVM are linked as
# their shared libraries, everywhere: mixing in the archives would give two copies of every static.
find_package(MLIR 19.1 REQUIRED CONFIG HINTS /usr/lib/llvm-19/lib/cmake/mlir)
message(STATUS "MLIR ${LLVM_PACKAGE_VERSION} in ${MLIR_DIR}")
set(MLIR_BINARY_DIR ${PROJECT_BINARY_DIR})
list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
include(TableGen)
include(AddLLVM)
include(AddMLIR)

include_directories(SYSTEM ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
include_directories(${PROJECT_SOURCE_DIR}/include ${PROJECT_BINARY_DIR}/include)
separate_arguments(MOE_LLVM_DEFINITIONS NATIVE_COMMAND ${LLVM_DEFINITIONS})
add_definitions(${MOE_LLVM_DEFINITIONS})

# LLVM's headers poison the memory of their allocators for ASan. libMLIR uses the same allocators and, built without ASan, does
# not lift the poison; so the headers must not know. The code is instrumented all the same.
if(MOE_SANITIZE MATCHES address)
  add_compile_options(-U__SANITIZE_ADDRESS__)
endif()

# moe_tablegen(TARGET FILE.td OUTPUT... with generator flags after each): moe_tablegen(FooIncGen Foo.td Foo.h.inc -gen-op-decls ..)
function(moe_tablegen target td)
  set(LLVM_TARGET_DEFINITIONS ${td})
  set(outputs ${ARGN})
  while(outputs)
    list(POP_FRONT outputs output)
    set(flags)
    while(outputs)
      list(GET outputs 0 next)
      if(NOT next MATCHES "^-")
        break()
      endif()
      list(POP_FRONT outputs)
      list(APPEND flags ${next})
    endwhile()
    mlir_tablegen(${output} ${flags})
  endwhile()
  add_public_tablegen_target(${target})
endfunction()

# moe_add_library(NAME SOURCES file... [LINK target...] [DEPENDS target...]): a static library of the compiler.
function(moe_add_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK;DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC ${ARG_LINK} MLIR LLVM)
  if(ARG_DEPENDS)
    add_dependencies(${name} ${ARG_DEPENDS})
  endif()
  target_compile_options(${name} PRIVATE -fno-exceptions)
endfunction()

# moe_add_tool(NAME SOURCES file... [LINK target...]): an executable in bin/.
function(moe_add_tool name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} MLIR LLVM)
  target_compile_options(${name} PRIVATE -fno-exceptions)
endfunction()
