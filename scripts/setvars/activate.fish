# Enter a workspace that xpubuild has built. For fish 3.1 or newer; source this file, do not run it:
#   source activate.fish --workspace DIR
# Without --workspace the default workspace is entered. xpubuild_deactivate restores what was before.

# A file that is run has two lines of trace here, a sourced one has more. The words are translated, so count.
set -l __xpubuild_trace (status stack-trace)
if test (count $__xpubuild_trace) -lt 3
    echo 'activate.fish changes the shell it is sourced by; run on its own it could change nothing.' >&2
    echo 'Type: source' (string escape -- (status filename)) '--workspace DIR' >&2
    exit 2
end

set -g __xpubuild_here (dirname -- (status filename))

# Prints the program to ask: the one this file was installed with, else the one on PATH.
function __xpubuild_program
    for candidate in $__xpubuild_here/../../../../../../bin/xpubuild $__xpubuild_here/../../.venv/bin/xpubuild (command -s xpubuild)
        if test -f $candidate -a -x $candidate
            echo $candidate
            return 0
        end
    end
    echo 'activate.fish: xpubuild was not found; put the folder of its program on PATH' >&2
    return 1
end

function __xpubuild_remember --argument-names name
    contains -- $name $__xpubuild_names; and return 0
    set -ga __xpubuild_names $name
    # Variables of the environment are global; a universal one of the same name shows again afterwards.
    if set -qg $name
        set -g __xpubuild_old_$name $$name
        if set -qgx $name
            set -ga __xpubuild_exported $name
        end
    end
end

function __xpubuild_activate
    set -l options
    set -l ignored no
    while set -q argv[1]
        switch $argv[1]
            case --workspace
                set options --workspace "$argv[2]"
                set -e argv[1]
            case '--workspace=*'
                set options --workspace (string replace -- --workspace= '' $argv[1])
            case '*'
                set ignored yes
        end
        set -e argv[1]
    end
    if test $ignored = yes
        echo 'activate.fish: arguments other than --workspace DIR are ignored' >&2
    end
    set -l program (__xpubuild_program)
    or return 1
    # Undone first: the answer must not build on an earlier activation.
    if functions -q xpubuild_deactivate
        xpubuild_deactivate
    end
    set -l text ($program env --shell fish $options | string collect)
    if test $pipestatus[1] -ne 0
        echo 'activate.fish: no workspace was entered' >&2
        return 1
    end
    set -g __xpubuild_names
    set -g __xpubuild_exported
    # A line inside a value of several lines may look like this too; remembering one variable more does no harm.
    for name in (string split \n -- $text | string replace -rf '^set (?:-gx|-e) ([A-Za-z_][A-Za-z0-9_]*)(?: .*)?$' '$1')
        __xpubuild_remember $name
    end
    eval $text
    function xpubuild_deactivate --description 'Leave the xpubuild workspace'
        for name in $__xpubuild_names
            set -l old __xpubuild_old_$name
            if not set -qg $old
                set -eg $name
            else if contains -- $name $__xpubuild_exported
                set -gx $name $$old
            else
                set -gu $name $$old
            end
            set -eg $old
        end
        set -eg __xpubuild_names
        set -eg __xpubuild_exported
        functions -e xpubuild_deactivate
    end
    return 0
end

__xpubuild_activate $argv
set -l __xpubuild_status $status
functions -e __xpubuild_activate __xpubuild_program __xpubuild_remember
set -eg __xpubuild_here
test $__xpubuild_status -eq 0
