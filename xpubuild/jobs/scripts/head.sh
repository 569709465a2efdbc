#!/bin/bash
@directives@
# Made by xpubuild plan: @title@
folder=@folder@
job=@job@ kind=@kind@ stop_after_s=@stop_after_s@
xpubuild=(@xpubuild@)
. "$folder/lib/scheduler.sh"
. "$folder/lib/job.sh"
begin
@setup@
