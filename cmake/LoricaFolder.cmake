# lorica_folder(NAME DEPS ... LIBS ... [LABELS ...])
# One static library a folder from its *.cc, and one test program from its *_test.cc.
# DEPS are folders below this one, LIBS come from outside. LABELS tag the test program;
# the label "tsan" puts it into the thread-sanitizer run.
add_custom_target(all_tests)
add_custom_target(tsan_tests)  # what the thread-sanitizer run builds

function(lorica_folder name)
  cmake_parse_arguments(ARG "" "" "DEPS;LIBS;TEST_LIBS;LABELS;SUBDIRS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS *.cc)
  foreach(sub ${ARG_SUBDIRS})
    file(GLOB sub_sources CONFIGURE_DEPENDS ${sub}/*.cc)
    list(APPEND sources ${sub_sources})
  endforeach()
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  set(target lorica_${name})
  if(sources)
    add_library(${target} STATIC ${sources})
    target_link_libraries(${target} PUBLIC Threads::Threads)
    set(kind PUBLIC)
  else()
    add_library(${target} INTERFACE)
    set(kind INTERFACE)
  endif()
  foreach(dep ${ARG_DEPS})
    target_link_libraries(${target} ${kind} lorica_${dep})
  endforeach()
  target_link_libraries(${target} ${kind} ${ARG_LIBS})
  if(tests AND NOT LORICA_FUZZ)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE ${target} ${ARG_TEST_LIBS} rapidcheck GTest::gtest
                                               GTest::gmock GTest::gtest_main)
    add_test(NAME ${name}_test COMMAND ${name}_test WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    if(ARG_LABELS)
      set_tests_properties(${name}_test PROPERTIES LABELS "${ARG_LABELS}")
    endif()
    add_dependencies(all_tests ${name}_test)
    if("tsan" IN_LIST ARG_LABELS)
      add_dependencies(tsan_tests ${name}_test)
    endif()
  endif()
endfunction()

# For what computes: debug builds are -O0, which compiles in half the time. Under clang's UBSan the
# three checks on every pointer made a vector kernel compile three times as long (110 s, 37 without);
# ASan sees what they see there.
function(lorica_always_optimised target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Debug>:-O2>)
  if(LORICA_SANITIZE MATCHES "undefined" AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    target_compile_options(${target} PRIVATE -fno-sanitize=null,object-size,pointer-overflow)
  endif()
endfunction()
