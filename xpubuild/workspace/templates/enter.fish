{program} env --format fish --workspace {root} | source
functions --copy fish_prompt xpubuild_own_prompt
function fish_prompt; printf '%s' {mark}; xpubuild_own_prompt; end
