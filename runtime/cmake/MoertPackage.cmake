# Installs the public headers and the CMake package with which find_package(MoePlan) finds the runtime in other
# projects. The compiler's build adds its libraries to the same package (cmake/MoePackage.cmake of the whole project).
include(CMakePackageConfigHelpers)
set(MOE_PACKAGE_FOLDER lib/cmake/MoePlan)
configure_package_config_file(cmake/MoePlanConfig.cmake.in ${PROJECT_BINARY_DIR}/MoePlanConfig.cmake
  INSTALL_DESTINATION ${MOE_PACKAGE_FOLDER})
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/MoePlanConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/MoePlanConfig.cmake ${PROJECT_BINARY_DIR}/MoePlanConfigVersion.cmake
  DESTINATION ${MOE_PACKAGE_FOLDER} COMPONENT dev)
install(EXPORT MoePlanRuntimeTargets NAMESPACE MoePlan:: DESTINATION ${MOE_PACKAGE_FOLDER} COMPONENT dev)
install(DIRECTORY include/moert ${PROJECT_BINARY_DIR}/include/moert DESTINATION include COMPONENT dev)
