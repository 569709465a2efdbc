"""What offline builds need: fetch (which downloads), export and import of mirrors, checks before installs."""
