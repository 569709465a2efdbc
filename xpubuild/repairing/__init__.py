"""``wheel repair``: makes a wheel that works on other machines from one that works where it was built."""
