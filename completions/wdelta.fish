# SPDX-License-Identifier: Apache-2.0
# Completion of wdelta for fish. What may stand at the cursor the program says itself (`wdelta complete`).

function __wdelta_complete
    set -l words (commandline -opc)
    type -q $words[1]; or return
    set -l token (commandline -ct)
    set -l word (string unescape -- "$token"; or echo -- "$token")
    set -l lines ($words[1] complete -- $words[2..] "$word" 2>/dev/null)
    switch "$lines[1]"
        case \tfiles
            __fish_complete_path "$word"
        case \tdirectories
            __fish_complete_directories "$word" ''
        case '*'
            printf '%s\n' $lines
    end
end

complete -c wdelta -f -k -a '(__wdelta_complete)'
