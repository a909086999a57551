"""The experiments: the only code of the project that reads configs or writes files."""
