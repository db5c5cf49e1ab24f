# Sets `result` to the folder of a Python package beside the interpreter, which must contain `path`.
function(find_wheel result package path)
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -c
            "import importlib.util as u; print(next(iter(u.find_spec('${package}').submodule_search_locations)))"
    OUTPUT_VARIABLE folder OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  if(NOT EXISTS "${folder}/${path}")
    message(FATAL_ERROR "${folder}/${path} is missing: pyproject.toml and README.md say what the build needs")
  endif()
  set(${result} "${folder}" PARENT_SCOPE)
endfunction()
