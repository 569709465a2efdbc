"""All bytes that builds take from elsewhere: git repositories, packages, archives, mirrors and stores."""
