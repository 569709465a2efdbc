work_in @id@
run @python@ -m venv --clear "$place/env"
run "$place/env/bin/python" -m pip install --quiet --disable-pip-version-check --no-index --find-links @wheels@ \
  --require-hashes -r @requirements@
run "${xpubuild[@]}" verify --python "$place/env/bin/python" --device @device@ \
  --output "$folder/results/$job.json"
settle 0
