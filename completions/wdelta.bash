# SPDX-License-Identifier: Apache-2.0
# Completion of wdelta for bash. What may stand at the cursor the program says itself (`wdelta complete`).

# Sets `plain` to a word without its quotes.
_wdelta_plain() {
  case $1 in
    \'*) plain=${1#\'} plain=${plain%\'} ;;
    \"*) plain=${1#\"} plain=${plain%\"} ;;
    *) IFS= read plain <<<"$1" ;; # without -r, read takes backslashes away
  esac
}

_wdelta() {
  local line=${COMP_LINE:0:COMP_POINT} word raw marked plain i
  local -a words=() plains=()
  # bash cuts words at '@', '=' and ':' too (COMP_WORDBREAKS): what no blank parts is one word again.
  line=${line#*"${COMP_WORDS[0]}"}
  for ((i = 1; i <= COMP_CWORD; i++)); do
    word=${line#"${line%%[![:space:]]*}"}
    ((i == 1 || ${#word} < ${#line})) && words+=("")
    line=$word
    ((i < COMP_CWORD)) && word=${COMP_WORDS[i]}
    words[-1]+=$word
    line=${line#"$word"}
  done
  for word in "${words[@]}"; do
    _wdelta_plain "$word"
    plains+=("$plain")
  done
  # readline puts a reply behind an opening quote, or behind the last break that is not quoted; an '@' it replaces too.
  raw=${words[-1]}
  marked=${raw//\\?/__}
  marked=${marked##*["$COMP_WORDBREAKS"]}
  case $raw in
    [\'\"]*) raw=${raw:1} ;;
    *@"$marked") raw=${raw:${#raw}-${#marked}-1} ;;
    *) raw=${raw:${#raw}-${#marked}} ;;
  esac
  COMPREPLY=()
  while IFS= read -r line; do
    case $line in
      $'\tfiles') compopt -o default ;;
      $'\tdirectories') compopt -o dirnames ;;
      "$plain"*) line=${line%%$'\t'*} COMPREPLY+=("$raw${line#"$plain"}") ;;
    esac
  done < <("$1" complete -- "${plains[@]}" 2>/dev/null)
  # Half of A..B is no word yet.
  [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *.. ]] && compopt -o nospace
  return 0
}

complete -F _wdelta wdelta
