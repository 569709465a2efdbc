work_in @id@
export XDG_CACHE_HOME=@cache@
workspace=@workspace@
steps=(@steps@)
for step in "${steps[@]}"; do
  run_into "$folder/results/$job.json" "${xpubuild[@]}" install @install@ --workspace "$workspace" \
    --until "$step" --json --log-format plain
done
run_into "$folder/results/$job.json" "${xpubuild[@]}" install @install@ --workspace "$workspace" \
  --until @last@ --wheel-dir @wheels@ --json --log-format plain
settle 0
