#!@shell@
@directives@
# Made by xpubuild plan: @title@
folder=@folder@
job=@job@ kind=@kind@ stop_after_s=@stop_after_s@ limit_s=@limit_s@ driver=@driver@
xpubuild=(@xpubuild@)
. "$folder/lib/scheduler.sh"
. "$folder/lib/job.sh"
begin
@setup@
