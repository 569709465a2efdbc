"""What the test run itself needs: optional tools, isolation from the user's files, processes left behind."""
