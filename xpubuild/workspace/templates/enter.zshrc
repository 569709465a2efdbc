{restore}
command rm -rf -- {folder}
if [ -f {own}/.zshrc ]; then . {own}/.zshrc; fi
eval "$({program} env --format zsh --workspace {root})"
PROMPT={mark}"$PROMPT"
