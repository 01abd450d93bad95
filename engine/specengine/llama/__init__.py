"""Everything that calls llama.cpp. All of it runs in one thread: see `specengine.core.thread`."""
