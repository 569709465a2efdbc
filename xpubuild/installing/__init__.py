"""install and install --locked: run a plan in its workspace and write the receipt."""
