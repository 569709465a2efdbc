run_into "$folder/results/$job.json" "${xpubuild[@]}" status --jobs "$folder" --json
run_into "$folder/results/$job.txt" "${xpubuild[@]}" status --jobs "$folder"
cat "$folder/results/$job.txt"
exit 0
