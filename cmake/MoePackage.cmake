# Installs the compiler's headers and adds its libraries to the CMake package of the runtime (runtime/cmake/MoertPackage.cmake).
# `cpack` in the build folder makes Debian packages.
get_property(MOE_LIBRARIES GLOBAL PROPERTY MOE_LIBRARIES)
configure_file(cmake/MoePlanCompiler.cmake.in ${PROJECT_BINARY_DIR}/MoePlanCompiler.cmake @ONLY)
set(moe_package_folder lib/cmake/MoePlan)
install(FILES ${PROJECT_BINARY_DIR}/MoePlanCompiler.cmake DESTINATION ${moe_package_folder} COMPONENT dev)
install(EXPORT MoePlanCompilerTargets NAMESPACE MoePlan:: DESTINATION ${moe_package_folder} COMPONENT dev)
install(DIRECTORY include/moe ${PROJECT_BINARY_DIR}/include/moe DESTINATION include COMPONENT dev
  FILES_MATCHING PATTERN "*.h" PATTERN "*.td" PATTERN "*.def" PATTERN "*.inc" PATTERN CMakeFiles EXCLUDE)

# moeplan has the programs and libmoert, moeplan-dev the files that other projects need to build with them, and
# moeplan-cuda the backend of GPUs. NVIDIA's libraries are not Debian's, so dpkg-shlibdeps cannot name the packages that
# moeplan-cuda needs.
set(MOE_PACKAGE_CONTACT "The MoePlan authors" CACHE STRING "The maintainer that packages name")
set(CPACK_PACKAGE_NAME moeplan)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT ${MOE_PACKAGE_CONTACT})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Compiler of parallel training plans for Mixture-of-Experts models")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_GENERATOR DEB)
set(CPACK_STRIP_FILES ON)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/DebianLayout.cmake)
set(CPACK_COMPONENTS_ALL runtime compiler help-pages dev)
if(TARGET moert-cuda)
  list(APPEND CPACK_COMPONENTS_ALL cuda)
endif()
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)

set(CPACK_DEBIAN_PROGRAMS_PACKAGE_NAME moeplan)
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_SHLIBDEPS ON)
# dpkg-shlibdeps finds LLVM in the folder of llvm-dev, which has no package name for it.
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_DEPENDS "libllvm${LLVM_VERSION_MAJOR}")
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_SUGGESTS "moeplan-dev, openmpi-bin")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME moeplan-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "moeplan (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SUGGESTS "libmlir-${LLVM_VERSION_MAJOR}-dev, liblld-${LLVM_VERSION_MAJOR}-dev, libprotobuf-dev, protobuf-compiler, cmake")
set(CPACK_DEBIAN_CUDA_PACKAGE_NAME moeplan-cuda)
set(CPACK_DEBIAN_CUDA_PACKAGE_DEPENDS "moeplan (= ${PROJECT_VERSION})")

set(CPACK_DEBIAN_PROGRAMS_DESCRIPTION
"MoePlan partitions a model over a cluster by data, model, expert and pipeline parallelism, and compiles the program of each rank to a \
shared library. moe-plan chooses the groups, moe-sim predicts the time of a step, and moe-run runs and verifies a plan.")
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION
"Headers, libraries and CMake package: find_package(MoePlan) gives the C API that loads and runs plans, and the libraries of the compiler.")
set(CPACK_DEBIAN_CUDA_DESCRIPTION
"The runtime's backend for NVIDIA GPUs. It needs CUDA's libraries (cuBLAS, NCCL) of the version that it was built with.")
include(CPack)
cpack_add_component_group(programs)
cpack_add_component_group(development)
cpack_add_component_group(cuda)
foreach(component runtime compiler help-pages)
  cpack_add_component(${component} GROUP programs)
endforeach()
cpack_add_component(dev GROUP development)
cpack_add_component(cuda GROUP cuda)
install(FILES LICENSE DESTINATION share/doc/moeplan RENAME copyright COMPONENT runtime)
install(FILES CHANGELOG.md DESTINATION share/doc/moeplan COMPONENT runtime)
