if [ -f ~/.bashrc ]; then . ~/.bashrc; fi
eval "$({program} env --format bash --workspace {root})"
PS1={mark}"$PS1"
exec {fd}<&-
