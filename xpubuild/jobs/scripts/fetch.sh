run_into "$folder/results/$job.json" "${xpubuild[@]}" fetch @fetch@ --json --log-format plain
settle 0
