"""What this machine is: host, oneAPI installations, compilers and Pythons."""
