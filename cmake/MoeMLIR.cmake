# Finds MLIR 19, and defines the functions that declare the compiler's libraries and tools.
find_package(MLIR 19.1 REQUIRED CONFIG HINTS /usr/lib/llvm-19/lib/cmake/mlir)
message(STATUS "MLIR ${LLVM_PACKAGE_VERSION} in ${MLIR_DIR}")
set(MLIR_BINARY_DIR ${PROJECT_BINARY_DIR})
list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
# LLVM's depfiles name outputs relative to the build's root. With other paths Ninja would run mlir-tblgen in every
# build.
cmake_policy(SET CMP0116 OLD)
include(TableGen)
include(AddLLVM)
include(AddMLIR)
find_package(Python3 REQUIRED COMPONENTS Interpreter)

include_directories(SYSTEM ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
include_directories(${PROJECT_SOURCE_DIR}/include ${PROJECT_BINARY_DIR}/include)
# MLIR and LLVM: shared libraries, or archives for a program with the property MOE_ARCHIVES. Both together would have two
# copies of every static variable, so all libraries of the compiler link this target alone.
set(moe_archives)
foreach(name ${MLIR_EXPORTED_TARGETS} ${LLVM_AVAILABLE_LIBS})
  if(EXISTS ${LLVM_LIBRARY_DIR}/lib${name}.a)
    list(APPEND moe_archives ${LLVM_LIBRARY_DIR}/lib${name}.a)
  endif()
endforeach()
find_library(MOE_LLD_ELF liblldELF.a HINTS ${LLVM_LIBRARY_DIR} REQUIRED)
find_library(MOE_LLD_COMMON liblldCommon.a HINTS ${LLVM_LIBRARY_DIR} REQUIRED)
# LLVM and LLD compress with them.
find_library(MOE_ZLIB libz.a REQUIRED)
find_library(MOE_ZSTD libzstd.a REQUIRED)
list(APPEND moe_archives ${MOE_ZLIB} ${MOE_ZSTD})
add_library(MoeLLVM INTERFACE)
target_link_libraries(MoeLLVM INTERFACE
  "$<BUILD_INTERFACE:$<IF:$<BOOL:$<TARGET_PROPERTY:MOE_ARCHIVES>>,-Wl$<COMMA>--start-group;${moe_archives};-Wl$<COMMA>--end-group,MLIR;LLVM>>"
  "$<INSTALL_INTERFACE:MLIR;LLVM>")
install(TARGETS MoeLLVM EXPORT MoePlanCompilerTargets COMPONENT dev)

separate_arguments(MOE_LLVM_DEFINITIONS NATIVE_COMMAND ${LLVM_DEFINITIONS})
add_definitions(${MOE_LLVM_DEFINITIONS})

# LLVM's headers poison the memory of their allocators for ASan. libMLIR uses the same allocators, and without ASan does
# not remove the poison. The headers must therefore not know of ASan. The code is instrumented nevertheless.
if(MOE_SANITIZE MATCHES address)
  add_compile_options(-U__SANITIZE_ADDRESS__)
endif()

# Objects of LLVM's libraries, such as its command-line options, have no type information that UBSan could compare.
if(MOE_SANITIZE MATCHES undefined)
  add_compile_options(-fno-sanitize=vptr)
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

# Every file of the compiler includes these headers. Reading them once saves a third of its build. A file still includes
# all headers that it uses, and builds with OFF.
option(MOE_PRECOMPILE "Precompile the headers of MLIR that every file includes" ON)
if(MOE_PRECOMPILE)
  # ccache preprocesses files, and GCC must then keep the header separate.
  set(moe_precompile_options $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/precompiled.cpp CONTENT "")
  add_library(MoePrecompiled OBJECT ${PROJECT_BINARY_DIR}/precompiled.cpp)
  target_compile_options(MoePrecompiled PRIVATE -fno-exceptions ${moe_precompile_options})
  target_precompile_headers(MoePrecompiled PRIVATE
    <llvm/ADT/STLExtras.h>
    <llvm/ADT/StringExtras.h>
    <llvm/Support/JSON.h>
    <mlir/Dialect/Func/IR/FuncOps.h>
    <mlir/IR/Builders.h>
    <mlir/IR/BuiltinOps.h>
    <mlir/IR/PatternMatch.h>
    <mlir/Pass/Pass.h>)
endif()

# Programs are compiled with -fPIC as libraries are, because GCC uses a precompiled header only if all such options
# agree.
function(moe_precompile target)
  if(MOE_PRECOMPILE)
    target_compile_options(${target} PRIVATE -fPIC ${moe_precompile_options})
    target_precompile_headers(${target} REUSE_FROM MoePrecompiled)
  endif()
endfunction()

# moe_add_library(NAME [INTERNAL] [LINK target...] [DEPENDS target...]): a static library of the compiler, of all sources in the
# folder. It is installed as MoePlan::NAME unless it is INTERNAL.
function(moe_add_library name)
  cmake_parse_arguments(ARG "INTERNAL" "" "LINK;DEPENDS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS *.cpp)
  add_library(${name} STATIC ${sources})
  target_link_libraries(${name} PUBLIC ${ARG_LINK} MoeLLVM)
  if(ARG_DEPENDS)
    add_dependencies(${name} ${ARG_DEPENDS})
  endif()
  target_compile_options(${name} PRIVATE -fno-exceptions)
  moe_precompile(${name})
  if(NOT ARG_INTERNAL)
    target_include_directories(${name} INTERFACE $<INSTALL_INTERFACE:include>)
    target_compile_features(${name} INTERFACE cxx_std_20)
    install(TARGETS ${name} EXPORT MoePlanCompilerTargets ARCHIVE DESTINATION lib/moeplan COMPONENT dev)
    set_property(GLOBAL APPEND PROPERTY MOE_LIBRARIES ${name})
  endif()
endfunction()

# moe_add_program(NAME SOURCES file... [LINK target...]): an executable of the compiler in bin/.
function(moe_add_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} MoeLLVM)
  target_compile_options(${name} PRIVATE -fno-exceptions)
  target_compile_definitions(${name} PRIVATE MOE_VERSION="${PROJECT_VERSION}")
  moe_precompile(${name})
endfunction()

# moe_add_tool(NAME SOURCES file... [LINK target...]): a tool of the program moeplan (tools/moeplan). bin/NAME is a link.
function(moe_add_tool name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_library(${name}-tool STATIC ${ARG_SOURCES})
  target_link_libraries(${name}-tool PUBLIC ${ARG_LINK} MoeLLVM)
  target_compile_options(${name}-tool PRIVATE -fno-exceptions)
  target_compile_definitions(${name}-tool PRIVATE MOE_VERSION="${PROJECT_VERSION}")
  moe_precompile(${name}-tool)
  set_property(GLOBAL APPEND PROPERTY MOE_TOOLS ${name})
endfunction()

# moe_add_help_pages(NAME [PROGRAM]): manual page and shell completions of bin/NAME, made from its --help. bin/NAME is
# built with the target PROGRAM, or is the target NAME.
add_custom_target(moe-help-pages ALL)
set(MOE_HELP_PAGES ${PROJECT_BINARY_DIR}/share)
function(moe_add_help_pages tool)
  set(files
    ${MOE_HELP_PAGES}/man/man1/${tool}.1
    ${MOE_HELP_PAGES}/bash-completion/completions/${tool}
    ${MOE_HELP_PAGES}/zsh/site-functions/_${tool}
    ${MOE_HELP_PAGES}/fish/vendor_completions.d/${tool}.fish)
  add_custom_command(OUTPUT ${files}
    COMMAND ${Python3_EXECUTABLE} -B ${PROJECT_SOURCE_DIR}/tools/help_pages.py ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/${tool} ${MOE_HELP_PAGES}
            ${PROJECT_VERSION}
    DEPENDS ${tool} ${ARGN} ${PROJECT_SOURCE_DIR}/tools/help_pages.py)
  add_custom_target(${tool}-help-pages DEPENDS ${files})
  add_dependencies(moe-help-pages ${tool}-help-pages)
  set_property(GLOBAL APPEND PROPERTY MOE_PROGRAMS ${tool})
endfunction()
