"""A sampled mutation run: which changes of the program no test notices."""
