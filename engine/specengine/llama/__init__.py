"""llama.cpp through llama-cpp-python: nothing here imports it until `library.load()` is called."""
