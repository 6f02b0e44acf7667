# cpack runs this script on the installed files before it packs them. Debian compresses manual pages, and its zsh has
# its own folder for completions.
if(NOT CPACK_GENERATOR STREQUAL "DEB")
  return()
endif()
file(GLOB pages ${CPACK_TEMPORARY_DIRECTORY}/*/usr/share/man/man1/*.1)
if(pages)
  execute_process(COMMAND gzip -9 -n -f ${pages} COMMAND_ERROR_IS_FATAL ANY)
endif()
file(GLOB folders ${CPACK_TEMPORARY_DIRECTORY}/*/usr/share/zsh)
foreach(folder ${folders})
  file(RENAME ${folder}/site-functions ${folder}/vendor-completions)
endforeach()
