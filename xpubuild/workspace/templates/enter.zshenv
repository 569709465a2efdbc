if [ -f {own}/.zshenv ]; then . {own}/.zshenv; fi
ZDOTDIR={folder}
